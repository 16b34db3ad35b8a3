"""Words that more than one part of the window says."""

from __future__ import annotations

import pytest

from napari_tractography.plugin.words import labelled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_mm = 0 is wrong; change step_mm.", "Step = 0 is wrong; change Step."),
        ("n_per_seed must be of type int.", "Streamlines per seed must be a whole number."),
        ("step_mm.tck does not exist", "step_mm.tck does not exist"),
        ("step_mm/fod.nii holds nothing", "step_mm/fod.nii holds nothing"),
        (r"C:\step_mm\fod.nii holds nothing", r"C:\step_mm\fod.nii holds nothing"),
    ],
)
def test_parameters_have_their_labels_and_files_keep_their_names(text: str, said: str) -> None:
    assert labelled(text) == said
