"""The scores of the validation page: what is said of them, and the FOD of a brain's peaks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import nibabel as nib
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("scoring", "ground_truth", "looking_ahead")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of benchmarks/ by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: importlib.import_module(name) for name in NAMES}


def test_who_wins_has_most_valid_by_streamline_and_by_seed_and_no_more_invalid(modules) -> None:
    score = modules["scoring"].Score
    rows = {
        "**both**": {"arc": score(100, 90, 0)},
        "by chance": {"arc": score(100, 57, 0)},
        "few lines": {"arc": score(50, 40, 0)},  # 80 % of them, but 40 of the seeds
        "invalid ones": {"arc": score(100, 60, 1)},
        "tckgen careful": {"arc": score(20, 11, 0)},
        "tckgen bold": {"arc": score(100, 50, 0)},
    }
    text = modules["ground_truth"]._verdict(rows, 4)
    assert "by streamline is careful, with 55.0 % valid, and by seed bold." in text
    assert "no more invalid ones: both." in text
    assert text.endswith("the best of tckgen's has 55 % valid, the best of ours 90 %.")
    text = modules["ground_truth"]._verdict({**rows, "tckgen best": {"arc": score(100, 90, 0)}}, 4)
    assert "none of ours." in text


def test_rows_have_shares_of_streamlines_and_of_seeds(modules) -> None:
    rows = {"ours": {"arc": modules["scoring"].Score(80, 40, 2, 4)}}
    row = modules["ground_truth"].markdown(rows, 100).splitlines()[-1]
    assert row == "| ours | 80 | 50.0 % | 40.0 % | 2.50 % | 5.00 % | 50 / 2.5 |"


def test_the_fod_of_peaks_is_as_high_as_they_are_long(modules, tmp_path: Path) -> None:
    """One voxel has a peak, one has two at right angles, one NaN."""
    volume = np.zeros((3, 1, 1, 6), np.float32)
    volume[0, 0, 0, :3] = (0.0, 0.3, 0.4)
    volume[1, 0, 0] = (0.8, 0, 0, 0, 0, 0.2)
    volume[2] = np.nan
    nib.save(nib.Nifti1Image(volume, np.eye(4)), tmp_path / "peaks.nii.gz")
    fod = modules["looking_ahead"].fod_of_peaks(tmp_path / "peaks.nii.gz")
    along = fod.amplitudes(np.array([[0, 0.6, 0.8], [1, 0, 0], [0, 0, 1]]))
    assert along[0, 0, 0, 0] == pytest.approx(0.5, rel=1e-3)
    np.testing.assert_allclose(along[1, 0, 0, 1:], [0.8, 0.2], atol=0.05)
    assert fod.support.ravel().tolist() == [True, True, False]
