"""Arrays as callers give them: what is none is told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import TractographyError

RAGGED = [[1.0, 2.0, 3.0], [4.0]]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: nt.Seeds.at(RAGGED), id="seeds"),
        pytest.param(lambda: nt.Grid((2, 2, 2), RAGGED), id="affine"),
        pytest.param(lambda: nt.Region.mask([RAGGED], np.eye(4), "stop"), id="mask"),
        pytest.param(lambda: nt.Tractogram.from_streamlines([RAGGED]), id="streamline"),
        pytest.param(lambda: nt.Warp.affine(np.eye(4)).apply(RAGGED), id="points"),
    ],
)
def test_rows_of_several_lengths_are_told(call: Callable[[], Any]) -> None:
    with pytest.raises(TractographyError, match="rows of several lengths; give an array"):
        call()


def test_what_is_no_number_is_told() -> None:
    with pytest.raises(TractographyError, match="offsets holds object values; give real numbers"):
        nt.Tractogram(np.zeros((3, 3)), None)  # type: ignore[arg-type]
