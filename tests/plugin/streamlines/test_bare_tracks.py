"""What the layer shares with napari's private code. When one of these fails after an update of
napari, read the changes of its Tracks layer before touching anything here."""

from __future__ import annotations

import ast
import inspect
import textwrap

from napari._vispy.layers.tracks import VispyTracksLayer
from napari._vispy.utils.visual import layer_to_visual
from napari._vispy.visuals.tracks import TracksVisual
from napari.layers import Tracks
from vispy.scene.visuals import Line

from napari_tractography.plugin.streamlines.bare_tracks import BareTracks
from napari_tractography.plugin.streamlines.canvas.tracks_visual import VispyBareTracks
from napari_tractography.plugin.streamlines.layer import Streamlines

# What the visual reads of the layer. All of it is provided by BareTracks or is a plain setting.
READ_BY_THE_VISUAL = {
    "_view_data",
    "_view_graph",
    "current_time",
    "display_graph",
    "display_id",
    "display_tail",
    "events",
    "graph_connex",
    "graph_times",
    "head_length",
    "hide_completed_tracks",
    "tail_length",
    "tail_width",
    "track_colors",
    "track_connex",
    "track_labels",
    "track_times",
    "use_fade",
}

# Members of Tracks that need its TrackManager and are therefore replaced.
NEED_THE_MANAGER = {
    "_get_ndim",
    "_get_value",
    "current_time",
    "data",
    "features",
    "graph",
    "graph_connex",
    "graph_times",
    "properties",
    "track_connex",
    "track_labels",
    "track_times",
    "_recolor_tracks",
}


def attributes_of(name: str, source: str) -> set[str]:
    """Return x of every ``self.<name>.x`` in a piece of source."""
    return {
        node.attr
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == name
    }


def test_the_visual_reads_what_we_provide() -> None:
    assert attributes_of("layer", inspect.getsource(VispyTracksLayer)) == READ_BY_THE_VISUAL


def test_every_member_of_tracks_that_needs_its_manager_is_replaced() -> None:
    found = set()
    for name, member in vars(Tracks).items():
        functions = [member.fget, member.fset] if isinstance(member, property) else [member]
        for function in functions:
            if inspect.isfunction(function) and "self._manager" in inspect.getsource(function):
                found.add(name)
    # Python 3.14 keeps annotations as a function, whose source is that of the class.
    assert found - {"__init__", "__annotate_func__"} == NEED_THE_MANAGER
    # napari asks for get_value, which we replace, and never for _get_value itself; properties
    # read the empty table of the manager, which knows the number of axes; whatever has tracks
    # coloured again is replaced.
    ours = Streamlines.__mro__[: Streamlines.__mro__.index(Tracks)]
    replaced = {name for cls in ours for name in vars(cls)}
    left = {"_get_ndim", "_get_value", "_recolor_tracks", "properties"}
    assert NEED_THE_MANAGER - replaced == left
    assert {"get_value", "color_by", "colormap"} <= replaced


def test_the_visual_of_streamlines_is_ours_and_starts_with_the_lines(make_napari_viewer) -> None:
    viewer = make_napari_viewer()
    layer = Streamlines()
    viewer.add_layer(layer)
    visual = viewer.window._qt_viewer.canvas.layer_to_visual[layer]
    assert layer_to_visual[BareTracks] is VispyBareTracks is type(visual)
    assert isinstance(visual.node, TracksVisual)
    assert isinstance(visual.node._subvisuals[0], Line)


def test_plain_tracks_keep_their_own_visual() -> None:
    assert layer_to_visual[Tracks] is VispyTracksLayer
