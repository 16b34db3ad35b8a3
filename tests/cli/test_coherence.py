"""The command `coherence`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from napari_tractography.cli import main


def test_coherence_says_plainly_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coherence", "fod.nii.gz"]) == 0
    assert "no other reading fits better" in capsys.readouterr().out
    assert main(["coherence", "fod.nii.gz", "--basis", "descoteaux07"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "but tournier07, scanner axes fits better" in told[-1]
    assert any(line.startswith("* descoteaux07, voxel axes") for line in told)


def test_coherence_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coherence", "fod.nii.gz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert len(found["readings"]) > 90
