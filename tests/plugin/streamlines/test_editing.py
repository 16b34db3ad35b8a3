"""Selecting, keeping, deleting, undoing: what the layer shows after each."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import Tractogram


@pytest.fixture
def editor():
    """Of five streamlines of two points; streamline i starts at x = i."""
    lines = [np.array([[i, 0, 0], [i, 1, 0]]) for i in range(5)]
    return Streamlines(Tractogram.from_streamlines(lines)).editor


def shown(editor):
    return [int(line[0, 0]) for line in editor.layer.tractogram]


def test_keep_delete_and_invert(editor):
    editor.select(1)
    editor.select(3, extend=True)
    assert editor.layer.selected.tolist() == [1, 3]
    editor.invert()
    assert editor.layer.selected.tolist() == [0, 2, 4]
    editor.delete_selected()
    assert shown(editor) == [1, 3]
    assert editor.kept.tolist() == [1, 3]
    editor.select(1)
    editor.keep_selected()
    assert shown(editor) == [3]
    assert editor.kept.tolist() == [3]


def test_undo_and_redo_walk_through_all_edits(editor):
    for index in (4, 0):
        editor.select(index)
        editor.delete_selected()
    assert shown(editor) == [1, 2, 3]
    editor.undo()
    assert shown(editor) == [0, 1, 2, 3]
    editor.undo()
    assert shown(editor) == [0, 1, 2, 3, 4]
    assert not editor.can_undo
    editor.redo()
    editor.redo()
    assert shown(editor) == [1, 2, 3]
    assert not editor.can_redo


def test_a_new_edit_forgets_what_was_undone(editor):
    editor.select(0)
    editor.delete_selected()
    editor.undo()
    editor.select(2)
    editor.delete_selected()
    assert not editor.can_redo
    assert shown(editor) == [0, 1, 3, 4]


def test_selecting_the_same_again_takes_it_out(editor):
    editor.select(2, extend=True)
    editor.select(2, extend=True)
    assert editor.n_selected == 0
    editor.delete_selected()
    assert shown(editor) == [0, 1, 2, 3, 4]
    assert not editor.can_undo


def test_another_tractogram_begins_afresh(editor):
    editor.select(0)
    editor.delete_selected()
    editor.layer.tractogram = Tractogram.from_streamlines([np.array([[9, 0, 0], [9, 1, 0]])])
    assert not editor.can_undo
    assert editor.n_selected == 0
    editor.undo()
    assert shown(editor) == [9]


def test_changes_are_told_once(editor):
    changed, edited = [], []
    editor.changed.connect(lambda: changed.append(1))
    editor.edited.connect(lambda: edited.append(1))
    editor.select(1)
    editor.select(1)
    assert (len(changed), len(edited)) == (1, 0)
    editor.keep_selected()
    assert (len(changed), len(edited)) == (2, 1)
    assert editor.n_selected == 0
    np.testing.assert_array_equal(editor.selected_tractogram().offsets, [0])


def test_keeping_all_is_no_edit(editor):
    editor.invert()
    editor.keep_selected()
    assert not editor.can_undo
    assert editor.n_selected == 5


def test_undoing_everything_gives_the_very_tractogram_back(editor):
    whole = editor.whole
    editor.select(0)
    editor.delete_selected()
    assert editor.is_edited
    editor.undo()
    assert editor.layer.tractogram is whole
    assert not editor.is_edited


@pytest.mark.parametrize("numbers", [[5], [-1, 2]])
def test_what_is_not_there_cannot_be_selected(editor, numbers):
    with pytest.raises(InvalidParameterError, match="from 0 to 4"):
        editor.layer.selected = numbers
