"""Files that may be lost."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from napari_tractography.runtime.caches import MAX_UNUSED_SECONDS, cache_folder, prune, write_whole


@pytest.mark.parametrize(
    ("platform", "variable", "end"),
    [
        ("linux", "XDG_CACHE_HOME", "napari-tractography"),
        ("win32", "LOCALAPPDATA", "napari-tractography"),
        ("darwin", "", "Library/Caches/napari-tractography"),
    ],
)
def test_the_folder_is_where_the_system_keeps_such(monkeypatch, tmp_path, platform, variable, end):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "there"))
        assert cache_folder() == tmp_path / "there" / end
        monkeypatch.delenv(variable)
        assert tmp_path in cache_folder().parents
    else:
        assert cache_folder() == tmp_path / end


def test_a_file_that_cannot_get_its_name_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "in the way" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="in the way"):
        write_whole(tmp_path / "in the way", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["in the way"]
    write_whole(tmp_path / "new" / "file", b"content")
    assert [path.read_bytes() for path in (tmp_path / "new").iterdir()] == [b"content"]


def test_what_was_not_used_for_long_and_what_is_too_much_is_deleted(tmp_path: Path) -> None:
    now = time.time()
    ages = {"a.old": MAX_UNUSED_SECONDS + 60.0, "b.kept": 1e7, "c.kept": 10.0, "d.kept": 1000.0}
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (now - age, now - age))
    prune(tmp_path, "*.kept", max_bytes=250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.old", "c.kept", "d.kept"]
    prune(tmp_path, "*", max_bytes=1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.kept", "d.kept"]
