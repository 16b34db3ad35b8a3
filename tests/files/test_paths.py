"""Where files can be put: told before the work, without touching what is there."""

from __future__ import annotations

import ntpath
import os
import sys
from pathlib import Path

import pytest

from napari_tractography.errors import FileError
from napari_tractography.files.paths import at_home, check_writable, with_home, written_whole
from napari_tractography.processes import unfinished_name

LONGEST = 255  # bytes of a file's name, of most disks


@pytest.mark.parametrize("path", [".", "/", "..", ""])
def test_a_folder_is_no_file_to_write(path: str) -> None:
    with pytest.raises(FileError, match="is a folder; give the name of a file"):
        check_writable(path)


@pytest.mark.skipif(sys.platform == "win32", reason="paths are limited there, not names")
def test_a_name_can_be_checked_if_and_only_if_it_can_be_written(tmp_path: Path) -> None:
    longest = LONGEST - len(f".{unfinished_name()}-")
    path, too_long = (tmp_path / (n * "a") for n in (longest, longest + 1))
    check_writable(path)
    with written_whole(path) as temporary:
        temporary.write_text("whole")
    check_writable(path)
    assert path.read_text() == "whole"
    with pytest.raises(FileError, match="too long\\); give a shorter name"):
        check_writable(too_long)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="links are for administrators there")
def test_a_link_is_checked_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "absent" / "t.csv")
    with pytest.raises(FileError, match="does not exist"):
        check_writable(tmp_path / "link.csv")


def test_on_windows_a_name_that_begins_with_a_tilde_is_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python makes C:\\Users\\draft.trk of ~draft.trk there."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os.path, "expanduser", ntpath.expanduser)
    monkeypatch.setenv("USERPROFILE", "C:\\Users\\ann")
    monkeypatch.setenv("USERNAME", "ann")
    assert at_home("~draft.trk") == Path("~draft.trk")
    assert (
        with_home("~\\b.trk") == with_home("~/b.trk").replace("/", "\\") == "C:\\Users\\ann\\b.trk"
    )
    assert with_home("~") == "C:\\Users\\ann"
