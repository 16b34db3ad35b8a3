"""The bar above the canvas: which plane is in view, and the others at a click."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from ...space.views import PLANES, VIEW_HELP
from ..widgets.layout import button


class PlaneBar(QWidget):  # type: ignore[misc]
    """Buttons of the planes, 3-D and all together; what is in view is pressed.

    Beside them another button, which is pressed by itself.
    """

    def __init__(self, show: Callable[[str], None], other: QPushButton) -> None:
        super().__init__()
        self.buttons = {name: button(name, VIEW_HELP[name]) for name in PLANES}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 0, 2, 2)
        layout.setSpacing(2)
        for name, one in self.buttons.items():
            one.setCheckable(True)
            one.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            one.clicked.connect(lambda _checked=False, name=name: show(name))
            layout.addWidget(one)
        other.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        layout.addWidget(other)

    def mark(self, view: str | None) -> None:
        """Press the button of a view, and no other."""
        for name, one in self.buttons.items():
            one.setChecked(name == view)
