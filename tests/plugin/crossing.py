"""The cross phantom live in a window, for tests of regions that are dragged and painted."""

from __future__ import annotations

from typing import Any

import numpy as np
from qtpy.QtCore import Qt

MIDDLE = np.zeros((1, 3))
RIGHT_ARM = np.array([0.0, 8.0, 13.0])  # display (z, y, x) mm, on one of the bundles of the cross
BESIDE = np.array([0.0, 18.0, 0.0])  # on none
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


def add_sphere(panel: Any, role: str = "include") -> None:
    """By the button, whose menu asks for the role."""
    (action,) = (a for a in panel.regions.sphere_menu.actions() if a.text().lower() == role)
    action.trigger()


def live_panel(open_window: Any, settle: Any, fod: Any) -> Any:
    """A panel that has tracked live from the middle of the cross."""
    panel = open_window(fod)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=200)
    panel.live.setChecked(True)
    settle(panel)
    assert panel.session.tractogram is not None
    return panel
