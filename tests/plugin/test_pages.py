"""The pages that lead a person through the window name what is there, as it is called there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QAbstractButton, QComboBox, QLabel, QMenu, QWidget

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/quickstart.md", "docs/tutorials/window.md", "docs/panel.md")
STEPS = "## Six steps to a first bundle"
OF_NAPARI = {"File", "Open Sample", "Plugins", "Tractography"}
# A button that is there on a cluster, what another does, and buttons of a dialog.
ELSEWHERE = {"docs/panel.md": {"Leave", "make a bundle", "Track", "Use this value"}}


def words_in(panel: QWidget) -> set[str]:
    """What is written on a panel and in its menus, without units, dots and the signs of folding."""
    for menu in panel.findChildren(QMenu):
        menu.aboutToShow.emit()
    said = {each.text() for kind in (QAbstractButton, QLabel) for each in panel.findChildren(kind)}
    for menu in panel.findChildren(QMenu):
        said |= {action.text() for action in menu.actions()}
    for box in panel.findChildren(QComboBox):
        said |= {box.itemText(number) for number in range(box.count())}
    return {re.sub(r"^[▸▾]\s*|\.+$|\s*\([^()]*\)$", "", text).strip() for text in said}


def named_in(page: str) -> set[str]:
    """What a page names in bold, each part of a way through menus; of the README its steps."""
    text = (ROOT / page).read_text("utf-8")
    if STEPS in text:
        text = text.partition(STEPS)[2].partition("\n## ")[0]
    bold = re.findall(r"\*\*([^*]+)\*\*", text)
    parts = {part for way in bold for part in re.sub(r"\s+", " ", way).split(" > ")}
    return {part.rstrip(".") for part in parts}


def test_whatever_the_pages_name_is_in_the_window(open_model: Any, cross: Any) -> None:
    named = {page: named_in(page) for page in PAGES}
    assert {"Live", "Save", "Regions"} <= named["README.md"]
    assert sum(map(len, named.values())) > 60
    words = words_in(open_model(cross)) | OF_NAPARI
    missing = {page: named[page] - words - ELSEWHERE.get(page, set()) for page in PAGES}
    assert {page: names for page, names in missing.items() if names} == {}
