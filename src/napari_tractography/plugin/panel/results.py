"""The progress and the result of runs: a text, a notice and a progress bar.

Called by the panel.
"""

from __future__ import annotations

import html

from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import QLabel, QProgressBar, QVBoxLayout, QWidget

from ...tracking.report import advice
from ...tractogram import Tractogram
from ..session.run_control import RunControl
from ..session.runs import Run
from ..session.session import Session

PROGRESS_STEPS = 1000
LINES = 6  # room for the usual result, so that little moves
REASONS_SHOWN = 3
PREPARING_SECONDS = 0.5  # without a sign of a run, before the notice says why
NOTICE_MS = 150  # after the last change, before the result is compared with what is set now

OUTDATED = "The parameters have changed since: Run again."
WAITING = "Live waits, to keep your edits: Run or Undo."
AWAITING = "Reading the FOD: tracking begins when it is read."
PREPARING = "Preparing the engine, up to a minute at first."
PREVIEW = "A preview: Run tracks all {:,}."
NOTICE_HELP = {
    OUTDATED: "FOD, mask, seeds, regions or parameters are no longer those of this result.",
    WAITING: "Tracking again would bring back what you deleted by hand. Run tracks again and drops "
    "your edits; undo all of them and Live goes on.",
    AWAITING: "Seeds and parameters may be changed meanwhile. Cancel takes Run back.",
    PREPARING: "The engine is compiled on the first run on a machine, and read from a cache later.",
}
# Dark on amber, to be read in a dark and in a light window.
NOTICE_STYLE = "background: #f2b632; color: #1b1b1b; border-radius: 3px; padding: 2px 6px;"


class Results(QWidget):  # type: ignore[misc]
    """Text of the result, with a notice and a progress bar that the panel shows elsewhere.

    Parameters
    ----------
    session : Session
        Its result is shown.
    runs : RunControl
        The progress of its runs is shown.

    Attributes
    ----------
    label : QLabel
        The result.
    notice : QLabel
        Whether the result is still what would be tracked, and why nothing comes; else empty.
    progress : QProgressBar
    """

    def __init__(self, session: Session, runs: RunControl, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.runs = runs
        self.progress = QProgressBar()
        self.progress.setToolTip("How far the run is.")
        self.label = QLabel()
        self.label.setWordWrap(True)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setMinimumHeight(LINES * self.label.fontMetrics().lineSpacing() + 4)
        self.label.setToolTip("The last run: how much, how fast, and why streamlines stopped.")
        self.notice = QLabel()
        self.notice.setWordWrap(True)
        self.notice.setStyleSheet(NOTICE_STYLE)
        self.notice.setMinimumHeight(self.notice.fontMetrics().lineSpacing() + 6)
        policy = self.notice.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.notice.setSizePolicy(policy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.label)
        self._compare = QTimer(self)
        self._compare.setSingleShot(True)
        self._compare.setInterval(NOTICE_MS)
        self._compare.timeout.connect(self.refresh_notice)
        self._show_notice("")
        self.rest()
        runs.started.connect(self._on_started)
        for signal in (runs.finished, runs.cancelled, runs.kept, runs.gave_up):
            signal.connect(self._compare_later)
        runs.failed.connect(self._compare_later)
        session.changed.connect(self._compare_later)
        session.edited.connect(self._compare_later)

    def close_results(self) -> None:
        """Compare no more."""
        self._compare.stop()

    def tell(self, text: str) -> None:
        """Show a text in place of the result."""
        self.label.setText(text)

    # -- the notice ----------------------------------------------------------------------------

    def refresh_notice(self) -> None:
        """Say in the notice how the result stands to what is set now; not during a run."""
        if self.runs.current is None:
            self._show_notice(self._notice())

    def _notice(self) -> str:
        session, runs = self.session, self.runs
        if runs.is_awaiting:
            return AWAITING
        request = session.result_request
        if runs.live and runs.is_settling:
            return ""  # another result is on the way
        if session.tractogram is None or request is None:
            return ""
        is_current = session.is_result_current
        if runs.is_waiting and not (is_current and request.is_whole):
            return WAITING
        if not is_current:
            return OUTDATED
        return "" if request.is_whole else PREVIEW.format(request.n_full)

    def _show_notice(self, text: str) -> None:
        self.notice.setText(text)
        self.notice.setToolTip(NOTICE_HELP.get(text, ""))
        self.notice.setVisible(bool(text))

    def _on_started(self, _run: Run) -> None:
        self._compare.stop()
        self._show_notice("")

    def _compare_later(self) -> None:
        self._compare.start()

    # -- a run ---------------------------------------------------------------------------------

    def rest(self) -> None:
        """Show that no run is under way."""
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(0)
        self.progress.setFormat("")
        if self.notice.text() == PREPARING:
            self._show_notice("")

    def advance(self, run: Run) -> None:
        """Show how far a run is."""
        is_preparing = False
        if run.n_done:
            self._fill(run.n_done, run.request.n_seeds)
            if not run.request.is_preview:
                self.tell(f"<b>{run.n_streamlines:,} streamlines</b> so far, {run.seconds:.1f} s")
        elif run.seconds > PREPARING_SECONDS:
            self.progress.setRange(0, 0)  # busy: the first use on a machine compiles the engine
            is_preparing = True
        self._show_notice(PREPARING if is_preparing else "")

    def _fill(self, done: int, total: int) -> None:
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(PROGRESS_STEPS * done // total)
        self.progress.setFormat(f"{done:,} of {total:,} seeds")

    def show_finished(self, run: Run, tractogram: Tractogram) -> None:
        """Show the result of a run."""
        request = run.request
        if not len(tractogram):
            self.tell(tractogram.why_empty())
            return
        lines = [
            f"<b>{len(tractogram):,} streamlines</b>, "
            f"mean length {tractogram.lengths_mm.mean():.1f} mm",
            self.session.speed() if request.is_whole else preview_summary(run),
        ]
        layer = self.session.streamlines_layer
        if layer is not None and layer.n_shown < len(tractogram):
            lines.append(layer.summary)
        to_change = advice(tractogram, request.parameters) if request.is_whole else ""
        ends = sum(n for _, n in tractogram.reasons()) or 1
        lines += [
            f"{100 * n / ends:.1f} % {reason.text}"
            for reason, n in tractogram.reasons()[: 1 if to_change else REASONS_SHOWN]
        ]
        if to_change:
            lines.append(f"<b>{html.escape(to_change)}</b>")
        self.tell("<br>".join([*lines, *dropped_edits(run)]))

    def show_cancelled(self, run: Run) -> None:
        """Show how far a run was when it was cancelled."""
        lines = [
            f"Cancelled after {run.seconds:.1f} s: {run.n_streamlines:,} streamlines from "
            f"{run.n_done:,} of {run.request.n_seeds:,} seeds."
        ]
        self.tell("<br>".join([*lines, *(dropped_edits(run) if run.kept else [])]))


def preview_summary(run: Run) -> str:
    """Return how many streamlines a preview started, of how many, and how long it took."""
    request = run.request
    return f"preview of {request.n_seeds:,}, {1000 * run.latency:.0f} ms"


def dropped_edits(run: Run) -> list[str]:
    """Return a line that says so where a run replaced a result that was edited by hand."""
    return ["Your edits of the result before were dropped."] if run.drops_edits else []
