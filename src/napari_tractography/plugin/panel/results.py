"""What a run is doing and what came of it: the progress bar and the text at the panel's foot."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QProgressBar, QVBoxLayout, QWidget

from ...tracking.engine import PREPARING
from ...tractogram import Tractogram
from ..session.runs import Run
from ..session.session import Session

PROGRESS_STEPS = 1000
LINES = 5  # room for the usual result, so that the panel does not jump
REASONS_SHOWN = 3


class Results(QWidget):  # type: ignore[misc]
    """Result text; the progress bar goes with it, and is shown where it never folds away.

    Parameters
    ----------
    session : Session
        Whose runs are shown.
    """

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.progress = QProgressBar()
        self.progress.setToolTip("How far the run is.")
        self.label = QLabel()
        self.label.setWordWrap(True)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setMinimumHeight(LINES * self.label.fontMetrics().lineSpacing() + 4)
        self.label.setToolTip("The last run: how much, how fast, and why streamlines stopped.")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.label)
        self.rest()

    def tell(self, text: str) -> None:
        """Show a text."""
        self.label.setText(text)

    def rest(self) -> None:
        """Empty the progress bar."""
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(0)
        self.progress.setFormat("")

    def advance(self, run: Run) -> None:
        """Show how far a run is."""
        done, rows = run.table_progress
        if run.n_done:
            self._fill(run.n_done, run.request.n_seeds, "{:,} of {:,} seeds")
            if not run.request.preview:
                self.tell(f"<b>{run.n_streamlines:,} streamlines</b> so far, {run.seconds:.1f} s")
        elif rows and done < rows:
            self._fill(done, rows, "Tabulating the FOD: {:,} of {:,} voxels")
        elif run.seconds > 0.5:
            self.progress.setRange(0, 0)  # busy: the first use on a machine compiles the engine
            self.tell(PREPARING)

    def _fill(self, done: int, total: int, text: str) -> None:
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(PROGRESS_STEPS * done // total)
        self.progress.setFormat(text.format(done, total))

    def show_finished(self, run: Run, tractogram: Tractogram) -> None:
        """Show what came of a run."""
        if not len(tractogram):
            self.tell(tractogram.why_empty())
            return
        is_preview = run.request.preview
        lines = [
            f"<b>{len(tractogram):,} streamlines</b>, "
            f"mean length {tractogram.lengths_mm.mean():.1f} mm",
            _preview(run) if is_preview else self.session.speed(),
        ]
        layer = self.session.streamlines_layer
        if layer is not None and layer.n_shown < len(tractogram):
            lines.append(layer.summary)
        ends = sum(n for _, n in tractogram.reasons()) or 1
        lines += [
            f"{100 * n / ends:.1f} % {reason.text}"
            for reason, n in tractogram.reasons()[:REASONS_SHOWN]
        ]
        self.tell("<br>".join(lines))

    def show_cancelled(self, run: Run) -> None:
        """Show how far a run was when it was given up."""
        self.tell(
            f"Cancelled after {run.seconds:.1f} s: {run.n_streamlines:,} streamlines from "
            f"{run.n_done:,} of {run.request.n_seeds:,} seeds."
        )


def _preview(run: Run) -> str:
    return f"preview of {run.request.n_seeds:,}, {1000 * run.latency:.0f} ms"
