"""Values of flags are read as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from napari_tractography.cli.command import make_parser
from napari_tractography.cli.flags import region_source
from napari_tractography.cli.track import chosen_parameters
from napari_tractography.errors import InvalidParameterError, InvalidSeedsError

TRACK = ("track", "f.nii", "-o", "b.tck")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("40", 40), ("4e1", 40), ("0.04k", 40), ("2K", 2000), ("3M", 3_000_000), ("-1", -1)],
)
@pytest.mark.parametrize("flag", ["--n-seeds", "--select", "--max-seeds"])
def test_numbers_of_seeds_are_read(flag: str, text: str, wanted: int) -> None:
    options = vars(make_parser().parse_args([*TRACK, flag, text]))
    assert options[flag.removeprefix("--").replace("-", "_")] == wanted


@pytest.mark.parametrize("text", ["1.5", "0.0015k", "k", "", "inf", "nan", "1e400", "5kk", "x"])
def test_what_is_no_number_of_seeds_is_told(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="argument --select: invalid count value"):
        make_parser().parse_args([*TRACK, "--select", text])


@pytest.mark.parametrize("text", ["1,2,3", "-1,2", "0,0,0,3,5", "0, 0, 0,", "1,2,,4", "a,b,c,d"])
def test_numbers_that_make_no_sphere_are_told(text: str, folder: Path) -> None:
    for flag in ("--include", "--between"):
        with pytest.raises(InvalidSeedsError, match=f"^{flag} '{text}' is not four numbers; give"):
            region_source("include", text, flag)
    Path(text).write_bytes(Path("mask.nii.gz").read_bytes())  # unless there is such a file
    assert region_source("include", text).volume is not None


def test_choices_are_known_in_any_case() -> None:
    words = ("--algorithm", "SD_STREAM", "--interpolation", "Nearest")
    options = make_parser().parse_args([*TRACK, *words])
    assert chosen_parameters(options) == {"algorithm": "sd_stream", "interpolation": "nearest"}
