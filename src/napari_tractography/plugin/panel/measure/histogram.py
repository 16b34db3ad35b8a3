"""The histogram of the lengths of a bundle, with two handles that filter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from psygnal import Signal
from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent, QPalette
from qtpy.QtWidgets import QLabel, QWidget
from superqt import QDoubleRangeSlider

from ....geometry.units import MM, per_mm, symbol
from ...flag import Flag
from ...timers import delayed
from ...words import plural
from ..widgets.layout import stack

N_BINS = 48
HEIGHT = 64  # pixels
WAIT_MS = 150  # after the last move of a handle
FAINT = 0.3  # opacity of what is filtered out
MARGIN = 8  # of the slider's groove: half a handle


class LengthHistogram(QWidget):  # type: ignore[misc]
    """Bars of lengths, and a slider with two handles below them."""

    chosen = Signal(float, float)  # least, most in mm; infinite where the handle is at the end

    def __init__(self) -> None:
        super().__init__()
        self._lengths: NDArray[np.float32] = np.zeros(0, np.float32)
        self._is_showing = Flag()
        self._unit = MM
        self.bars = _Bars()
        self.slider = QDoubleRangeSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Lengths")
        self.slider.setToolTip(
            "<qt>Lengths: drag the handles to leave out shorter and longer streamlines of the "
            "selected bundle; Undo in Selection brings them back.</qt>"
        )
        self.range_label = QLabel()
        stack(self, self.bars, self.slider, self.range_label, spacing=2)
        self._wait = delayed(self, WAIT_MS, self._choose)
        self.slider.valueChanged.connect(self._on_slider)
        self.slider.sliderReleased.connect(self.flush)
        self.show_lengths((), 0.0, math.inf)

    @property
    def limits(self) -> tuple[float, float]:
        """Least and most in mm, as the handles are; 0 and infinity where they are at the ends."""
        low, high = self._shown_limits
        return low / per_mm(self._unit), high / per_mm(self._unit)

    @property
    def _shown_limits(self) -> tuple[float, float]:
        low, high = (float(value) for value in self.slider.value())
        return (
            low if low > self.slider.minimum() else 0.0,
            high if high < self.slider.maximum() else math.inf,
        )

    def show_lengths(
        self, lengths_mm: ArrayLike, least: float, most: float, unit: str = MM
    ) -> None:
        """Show (n,) lengths in mm, and the handles at these limits, in the unit of a volume."""
        self._unit = unit
        least, most = least * per_mm(unit), most * per_mm(unit)
        self._lengths = np.asarray(lengths_mm, dtype=np.float32) * np.float32(per_mm(unit))
        has_range = len(self._lengths) > 0
        low = math.floor(float(self._lengths.min())) if has_range else 0
        high = math.ceil(float(self._lengths.max())) if has_range else 1
        high = max(high, low + 1)
        with self._is_showing:
            self.slider.setRange(low, high)
            self.slider.setValue((max(least, low), min(most, high)))
        counts, _ = np.histogram(self._lengths, N_BINS, (low, high))
        self.bars.counts, self.bars.span = counts, (low, high)
        self.setEnabled(has_range)
        self._show_counts()

    def flush(self) -> None:
        if self._wait.isActive():
            self._wait.stop()
            self._choose()

    def close_section(self) -> None:
        self._wait.stop()

    def _on_slider(self, _value: object) -> None:
        self._show_counts()
        if not self._is_showing:
            self._wait.start()

    def _choose(self) -> None:
        self.chosen.emit(*self.limits)

    def _show_counts(self) -> None:
        low, high = self._shown_limits
        self.bars.limits = low, high
        self.bars.update()
        n = len(self._lengths)
        if not n:
            self.range_label.setText("Lengths: no streamlines yet")
            return
        inside = int(((self._lengths >= low) & (self._lengths <= high)).sum())
        first, last = (float(value) for value in self.slider.value())
        lengths = f"{first:.0f} to {last:.0f} {symbol(self._unit)}"
        self.range_label.setText(f"{lengths}: {inside:,} of {plural(n, 'streamline')}")


class _Bars(QWidget):  # type: ignore[misc]
    """The bars, in the colours of the window."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: NDArray[np.int64] = np.zeros(N_BINS, np.int64)
        self.span: tuple[float, float] = (0.0, 1.0)
        self.limits: tuple[float, float] = (0.0, math.inf)
        self.setFixedHeight(HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Draw the bars, faint where lengths are filtered out, and a line below them."""
        painter = QPainter(self)
        palette = self.palette()
        ink = palette.color(QPalette.ColorRole.Text)
        full, faint = QColor("#5b8def"), QColor(ink)
        faint.setAlphaF(FAINT)
        most = max(int(self.counts.max()), 1)
        width = (self.width() - 2 * MARGIN) / N_BINS
        low, high = self.span
        middles = low + (np.arange(N_BINS) + 0.5) * (high - low) / N_BINS
        for k, (count, middle) in enumerate(zip(self.counts, middles, strict=True)):
            tall = (HEIGHT - 2) * count / most
            inside = self.limits[0] <= middle <= self.limits[1]
            painter.fillRect(
                QRectF(MARGIN + k * width, HEIGHT - 1 - tall, max(width - 1, 1), tall),
                full if inside else faint,
            )
        painter.fillRect(QRectF(MARGIN, HEIGHT - 1, self.width() - 2 * MARGIN, 1), faint)
        painter.end()
