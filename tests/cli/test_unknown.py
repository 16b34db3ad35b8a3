"""Flags that are not known lead to those that are meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from napari_tractography.cli.command import make_parser
from napari_tractography.cli.unknown import OF_TCKGEN, refuse_unknown
from napari_tractography.errors import InvalidParameterError

PAGE = Path(__file__).parents[2] / "docs" / "tckgen.md"


def _told(words: list[str], command: str) -> str:
    """What is said of words that a sub-command does not know."""
    given = {"track": ["f.nii", "-o", "b.tck"], "info": ["f.nii"]}[command]
    options, unknown = make_parser().parse_known_args([command, *given, *words])
    assert unknown == words
    with pytest.raises(InvalidParameterError) as caught:
        refuse_unknown(unknown, options.parser)
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--max-lenght=9"], ["for --max-lenght give --max-length"]),
        (["-minlength", "9"], ["for -minlength give --min-length"]),
        (["-seed_sphere", "-1,2,3,4"], ["for -seed_sphere give --seed-sphere"]),
        (["-seed_image", "m.mif", "-step", "1"], ["-seed_image give --seed-mask; for -step give"]),
        (["--stride", "1"], ["arguments: --stride 1; see napari-tractography track --help."]),
        (["more.nii"], ["arguments: more.nii; see napari-tractography track --help."]),
    ],
)
def test_what_is_meant_is_told(words: list[str], meant: list[str]) -> None:
    for each in meant:
        assert each in _told(words, "track")


def test_of_another_sub_command_no_flag_is_told() -> None:
    for word in ("--step", "-angle", "-seed_image"):
        assert _told([word], "info") == (
            f"unrecognized arguments: {word}; see napari-tractography info --help."
        )


@pytest.mark.parametrize("word", OF_TCKGEN)
def test_options_of_tckgen_lead_where_their_page_does(word: str) -> None:
    theirs = "-" + word.removeprefix("--").replace("-", "_")
    rows = [line.split("|")[1:3] for line in PAGE.read_text("utf-8").splitlines() if "|" in line]
    told = [ours for row, ours in rows if re.search(rf"`{theirs}[` ]", row)]
    assert any(OF_TCKGEN[word] in ours for ours in told)
    assert f"for {theirs} give {OF_TCKGEN[word]};" in _told([theirs], "track")
