"""A new format of files in the window: its dialogs and what napari calls know it by its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qtpy.QtWidgets import QFileDialog
from toy_formats import add_toys, write_toyvol

from napari_tractography import Tractogram, load_tractogram
from napari_tractography.plugin.contributions import (
    read_fod,
    read_tractogram,
    write_streamlines,
)
from napari_tractography.plugin.layers.fod_opening import FOD_KEY
from napari_tractography.plugin.streamlines.layer import Streamlines

MIDDLE = np.zeros((1, 3))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The filters of the dialogs that come up, each of which is closed without an answer."""
    add_toys(monkeypatch)
    filters: list[str] = []
    for name in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(QFileDialog, name, lambda *args: filters.append(args[3]) or ("", ""))
    return filters


def test_dialogs_offer_it(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path, asked: list[str]
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    assert ".toy" not in panel.save_button.proposed_name()
    panel.session.streamlines_layer.name = "mine.toy"
    assert panel.save_button.proposed_name() == "mine.toy"
    panel.save_button.click()
    panel.data.open_fod.click()
    panel.data.open_mask.click()
    panel.tissues.open_button.click()
    panel.dissection.weights.click()
    assert asked == [
        "Tractogram (*.tck *.trk *.trx *.vtk *.toy);;MRtrix3 tracks, values in files beside (*.tck)"
        ";;Tractogram and BIDS sidecar (*.tck *.trk *.trx *.vtk *.toy)",
        "FOD, peaks, tensors (*.nii *.nii.gz *.mif *.mif.gz *.mih *.pam5 *.toyvol)",
        "Mask (*.nii *.nii.gz *.mif *.mif.gz *.mih *.mgz *.mgh *.toyvol *.tif *.tiff *.npy "
        "*zarr.json *.zgroup *.zarray)",
        "Tissue image (*.nii *.nii.gz *.mif *.mif.gz *.mih *.mgz *.mgh *.toyvol)",
        "Weights (*.txt *.csv *.tck *.tck.gz *.trk *.trk.gz *.trx *.vtk *.vtp *.toy)"
        ";;All files (*)",
    ]
    panel.save(tmp_path / "mine.toy")
    assert len(load_tractogram(tmp_path / "mine.toy")) == len(panel.session.tractogram)


@pytest.mark.usefixtures("asked")
def test_napari_opens_and_saves_it(cross: Any, tmp_path: Path) -> None:
    fod = str(tmp_path / "fod.toyvol")
    write_toyvol(cross.coefficients, cross.grid, Path(fod))
    reader = read_fod(fod)
    assert reader is not None
    (data,) = reader(fod)
    np.testing.assert_array_equal(data[1]["metadata"][FOD_KEY].values, cross.values)
    assert read_fod(str(tmp_path / "fod.toy")) is None
    layer = Streamlines(Tractogram(np.eye(3), [0, 3]))
    values, attributes, _ = layer.as_layer_data_tuple()
    path = str(tmp_path / "t.toy")
    assert write_streamlines(path, values, attributes) == [path]
    (back,) = read_tractogram(path)(path)
    np.testing.assert_array_equal(back.tractogram.points, np.eye(3))
