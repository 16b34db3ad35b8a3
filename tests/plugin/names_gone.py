"""An hour at the panel under a napari in which private names are gone: `names_gone.py NAME...`.

The names are changed in the plugin as it is imported, which comes to the same: what it asks for is
not there, and what it replaces is never called. A name with a dot is an import. Run by
test_private_names.py, in a process of its own.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import numpy as np

GONE = set(sys.argv[1:])


class Renamed(ast.NodeTransformer):
    """Gives the names that are gone other names."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        for each in node.names:
            if f"{node.module}.{each.name}" in GONE:
                each.name, each.asname = f"{each.name}_gone", each.asname or each.name
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.attr = f"{node.attr}_gone" if node.attr in GONE else node.attr
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if node.value in GONE and node.value.startswith("_"):
            node.value = f"{node.value}_gone"
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.name = f"{node.name}_gone" if node.name in GONE else node.name
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in GONE and isinstance(node.ctx, ast.Store):  # of a class
            node.id = f"{node.id}_gone"
        return node


class Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        return compile(ast.fix_missing_locations(Renamed().visit(tree)), self.path, "exec")


class Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("napari_tractography.plugin"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder())

import napari  # noqa: E402
from napari.layers import Layer  # noqa: E402
from napari.utils.notifications import notification_manager  # noqa: E402
from qtpy.QtTest import QTest  # noqa: E402

from napari_tractography.model.phantoms import make_phantom  # noqa: E402
from napari_tractography.plugin.layers.volume_layers import fod_layer_data  # noqa: E402
from napari_tractography.plugin.panel.panel import TractographyPanel  # noqa: E402


def is_drawn(viewer: napari.Viewer, layer: Layer) -> bool:
    """Whether a layer is seen."""
    pictures = []
    for visible in (True, False):
        layer.visible = visible
        pictures.append(viewer.screenshot(flash=False).astype(int))
    layer.visible = True
    return bool((np.abs(pictures[0] - pictures[1]).max(axis=2) > 60).sum() > 100)


def main() -> None:
    """Open the panel, track, look at streamlines, regions, glyphs; print what was seen."""
    told: list[Any] = []
    notification_manager.notification_ready.connect(told.append)
    viewer = napari.Viewer()
    viewer.window.resize(1000, 700)
    panel = TractographyPanel(viewer, remember=False)
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    panel.set_parameters(n_per_seed=40, max_length_mm=80.0)
    viewer.add_layer(Layer.create(*fod_layer_data(make_phantom("cross", lmax=6))))
    panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
    panel.session.regions.add_sphere((0.0, 0.0, 10.0), 5.0, "include", is_inactive=True)
    seen = {}
    for ndisplay in (2, 3):
        viewer.dims.ndisplay = ndisplay
        panel.scene.glyphs_box.setChecked(True)
        panel.run()
        while panel.runs.is_busy:
            QTest.qWait(20)
        layer = panel.session.streamlines_layer
        assert layer.n_all > 0
        seen[ndisplay] = is_drawn(viewer, layer)
        panel.scene.glyphs_box.setChecked(False)
        viewer.layers.selection = {layer}  # whose controls napari makes
        layer.selected = [0]
        layer.lit = not layer.lit
        QTest.qWait(50)
        viewer.screenshot(flash=False)
    Layer.create(*layer.as_layer_data_tuple())
    viewer.dims.order = (1, 0, 2)
    panel.session.clear_seeds()
    viewer.dims.ndisplay = 2
    viewer.screenshot(flash=False)
    panel.session.document.undo()
    assert [str(each.message) for each in told] == []
    panel.close_session()
    viewer.close()
    print(f"streamlines are drawn: {seen[2]} in a slice, {seen[3]} in 3-D")


if __name__ == "__main__":
    main()
