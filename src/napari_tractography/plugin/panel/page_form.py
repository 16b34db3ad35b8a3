"""What interactive pages are asked for. Called by the Export menu."""

from __future__ import annotations

from typing import Any

from qtpy.QtWidgets import QCheckBox, QFormLayout, QLineEdit, QSpinBox, QWidget

WIDTH = 320  # of a caption, pixels
MOST = 1000
TITLES = "Heading of the page; by default the name of its file."
EVERY_HELP = "Of the streamlines of each bundle every so many-th is in the page, which is smaller."
LIVE_HELP = (
    "The page has the FOD around the active bundle, and tracks it in the browser while a reader "
    "drags its seeds or moves angle, amplitude and probability."
)


class PageForm(QWidget):  # type: ignore[misc]
    """Title, caption, how many streamlines, and whether a reader drags seeds."""

    def __init__(self, home: QWidget) -> None:
        super().__init__(home)
        self.title, self.caption, self.every = QLineEdit(), QLineEdit(), QSpinBox()
        self.live = QCheckBox()
        self.title.setToolTip(TITLES)
        self.caption.setToolTip("Text below the heading.")
        self.caption.setMinimumWidth(WIDTH)
        self.every.setRange(1, MOST)
        self.every.setToolTip(EVERY_HELP)
        self.live.setToolTip(LIVE_HELP)
        layout = QFormLayout(self)
        for label, widget in (
            ("Title", self.title),
            ("Caption", self.caption),
            ("Every n-th streamline", self.every),
            ("Live", self.live),
        ):
            layout.addRow(label, widget)
        self.hide()

    def name(self, bundle: str) -> None:
        """Say whose seeds would be dragged."""
        self.live.setText(f"Seeds of {bundle} can be dragged")

    @property
    def values(self) -> dict[str, Any]:
        """The options, as :func:`~...export.pages.page_of` takes them."""
        return {
            "title": self.title.text().strip(),
            "caption": self.caption.text().strip(),
            "every": self.every.value(),
            "live": self.live.isChecked(),
        }
