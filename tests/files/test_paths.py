"""Where files can be put: told before the work, without touching what is there."""

from __future__ import annotations

import gzip
import ntpath
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.files.paths import (
    at_home,
    check_apart,
    check_writable,
    existing_file,
    with_home,
    written_whole,
)
from napari_tractography.files.volume_files import load_volume, save_volume
from napari_tractography.geometry.grid import Grid
from napari_tractography.streamlines.tractogram import load_tractogram

LONGEST = 255  # bytes of a file's name, of most disks


@pytest.mark.parametrize("path", [".", "/", "..", ""])
def test_a_folder_is_no_file_to_write(path: str) -> None:
    with pytest.raises(FileError, match="is a folder; give the name of a file"):
        check_writable(path)


@pytest.mark.skipif(sys.platform == "win32", reason="paths are limited there, not names")
def test_a_name_can_be_checked_if_and_only_if_it_can_be_written(tmp_path: Path) -> None:
    """A name may be as long as the system takes; the temporary one is shorter."""
    path, too_long = (tmp_path / (n * "a") for n in (LONGEST, LONGEST + 1))
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
    with pytest.raises(FileError, match=r"absent, to which .*link\.csv leads, does not exist"):
        check_writable(tmp_path / "link.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tck")
    with pytest.raises(FileError, match=r"pipe\.tck is no plain file"):
        check_writable(tmp_path / "pipe.tck")
    assert (tmp_path / "pipe.tck").is_fifo()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.tck", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        ("t.trx", b"/annex/objects/MD5E-s1--1.trx\n", r"datalad get t\.trx"),
        ("t.nii", b"/annex/objects/MD5E-s1--1.nii\n", r"datalad get t\.nii"),
        ("t.nii.gz", bytes(400), "is not compressed, although its name says so"),
        ("t.mif.gz", b"mrtrix image", "is not compressed, although its name says so"),
        ("t.mgz", bytes(400), "is not compressed, although its name says so"),
        ("t.tck.gz", b"mrtrix tracks", "is not compressed, although its name says so"),
        ("t.nii", gzip.compress(bytes(400), mtime=0), r"is compressed by gzip; call it t\.nii\.gz"),
        (
            "t.trk",
            gzip.compress(bytes(2000), mtime=0),
            r"is compressed by gzip; call it t\.trk\.gz",
        ),
        (
            "t.tck",
            gzip.compress(b"mrtrix tracks", mtime=0),
            r"is compressed by gzip; call it t\.tck\.gz",
        ),
    ],
)
def test_what_is_not_the_file_that_its_name_says_is_told(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    load = load_tractogram if name.startswith(("t.t", "t.trk")) else load_volume
    with pytest.raises(FileError, match=words):
        load(tmp_path / name)


@pytest.mark.skipif(sys.platform == "win32", reason="links are for administrators there")
def test_links_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.tck").symlink_to(".git/annex/objects/Xx/Yy/MD5E-s1--1.tck")
    (tmp_path / "b.tck").symlink_to("absent.tck")
    with pytest.raises(FileError, match=r"content of .*a\.tck is not here; get it: datalad get"):
        existing_file(tmp_path / "a.tck")
    with pytest.raises(FileError, match=r"b\.tck is a link to absent\.tck, which does not"):
        existing_file(tmp_path / "b.tck")


@pytest.mark.skipif(sys.platform == "win32", reason="no name of a user there")
def test_a_file_whose_name_begins_with_a_tilde_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_volume(np.ones((2, 2, 2)), Grid((2, 2, 2), np.eye(4)), "~x.nii")
    assert load_volume("~x.nii")[0].sum() == 8


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


def test_what_windows_does_not_replace_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to replace a file that is open or mapped, and says "not found" of long paths."""
    path = tmp_path / "b.trx"
    path.write_text("older")

    def refuse(error: type[OSError]) -> None:
        def replace(*_: object) -> None:
            raise error("refused")

        monkeypatch.setattr(os, "replace", replace)

    with monkeypatch.context() as there:
        there.setattr(sys, "platform", "win32")
        refuse(PermissionError)
        with pytest.raises(
            FileError, match=r"refused\); close it where it is open, or give another"
        ):
            _write(path)
        refuse(FileNotFoundError)
        with pytest.raises(FileError, match=r"refused\); give a shorter name\.$"):
            _write(path)
    refuse(PermissionError)
    with pytest.raises(FileError, match=r"refused\); choose another folder"):
        _write(path)
    assert path.read_text() == "older"
    assert os.listdir(tmp_path) == ["b.trx"]


def _write(path: Path) -> None:
    with written_whole(path) as temporary:
        temporary.write_text("newer")


@pytest.mark.skipif(sys.platform == "win32", reason="nor does Windows")
@pytest.mark.parametrize("other", ["B\u00c9.TRK", "be\u0301.trk"])
def test_on_a_mac_names_that_differ_in_case_or_spelling_are_one_file(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tmp_path / "b\u00e9.trk"
    monkeypatch.setattr(sys, "platform", "linux")
    check_apart(one, tmp_path / other)
    monkeypatch.setattr(sys, "platform", "darwin")
    check_apart(one, tmp_path / "c.trk", None)
    with pytest.raises(FileError, match="is to be written twice"):
        check_apart(one, tmp_path / other)
