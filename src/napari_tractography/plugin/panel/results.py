"""The progress and the result of runs: a text, a notice and a progress bar."""

from __future__ import annotations

import html
from functools import partial
from pathlib import Path
from typing import Any

from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QLabel, QProgressBar, QWidget

from ...geometry.units import MM, length_text, per_mm, readable, symbol
from ...model.stop import StopReason
from ...streamlines.tractogram import Tractogram
from ...tracking import report
from ...tracking.report import advice
from ..document import Snapshot
from ..layers.tubes import TUBES_OF, Tubes
from ..listening import Listening
from ..notices import told_by
from ..requests import PARTS
from ..session.open_bundle import OpenBundle
from ..session.run_control import RunControl
from ..session.runs import Run
from ..session.session import Session
from ..streamlines.layer import Streamlines
from ..timers import delayed, repeated
from ..words import in_words, labelled, plural
from .widgets.layout import LINK, keep_room, stack, wrapped

PROGRESS_STEPS = 1000
MORE = ' <a href="more" style="{}">more</a>'
LESS = '<a href="less" style="{}">less</a>'
REASONS_SHOWN = 3
CUT_SHOWN = 0.05  # of the streamlines, that the maximum length has cut
PREPARING_SECONDS = 0.5  # without a sign of a run, before the notice says why
POLL_MS = 100  # between two looks at a run
NOTICE_MS = 150  # after the last change, before the result is compared with what is set now

BEGUN = "Tracking has begun."
DROPPED = "Your edits of the result before were dropped."
OUTDATED = "Changed since: {}. Run again."
FRUITLESS = "As set now a run gives none: these are from before."
SEVERAL = "several settings"  # in the place of their names: there is a line
FOD = PARTS["fod"]  # with which others change
IMPOSSIBLE = "Changed since, so that Run is not possible."
WAITING = "Live waits, to keep your edits: Run or Undo."
AWAITING = "Reading the FOD: tracking begins when it is read."
PREPARING = "Preparing the engine: at first a minute or so."
WORKERLESS = "The cluster has no workers yet: the run begins with the first."
SLOWER = "Slower for the first seconds, while the engine is prepared."
HIDDEN = "The layer {} is hidden: click its eye, or Run."
PREVIEW = "A preview: Run tracks all {:,}."
ENDED_EARLY = "The run ended early: Run tracks all."
OUTDATED_HELP = "A run would not give the streamlines of this result any more."
NOTICE_HELP = {
    WAITING: "Tracking again would bring back what you deleted by hand. Run tracks again and drops "
    "your edits; Undo takes back what you have changed since.",
    AWAITING: "Seeds and parameters may be changed meanwhile. Cancel takes Run back.",
    PREPARING: "The engine is compiled on the first run on a machine, and read from a cache later.",
    WORKERLESS: "Workers may be waiting in the queue of a batch system. Cancel ends the run.",
    FRUITLESS: "The last run gave no streamlines, and another would give none, either. Change "
    "something, or undo what was changed since.",
    ENDED_EARLY: "These are the streamlines that had arrived. A project that is saved gives these.",
    SLOWER: "The streamlines are the same. On the first run on a machine the engine is compiled, "
    "and read from a cache later.",
}
# Dark on amber, to be read in a dark and in a light window.
NOTICE_STYLE = "background: #f2b632; color: #1b1b1b; border-radius: 3px; padding: 2px 6px;"


class Results(QWidget):  # type: ignore[misc]
    """Text of the result, with a notice and a progress bar that the panel shows elsewhere.

    Of the text what is bold is seen, and all of it when a person asks for more.
    """

    def __init__(self, session: Session, runs: RunControl) -> None:
        super().__init__()
        self.session = session
        self.runs = runs
        self._told = ""  # an error or a warning, whole
        self._before: str | None = None  # the text that comes back after one that is for now,
        self._before_of: Tractogram | None = None  # and the result that it is of
        self.progress = QProgressBar()
        self.progress.setToolTip("How far the run is.")
        help = (
            "The last run: how many streamlines, how long, from how many seeds, why they ended, "
            "and how long that took."
        )
        self.label, self.brief = wrapped(tooltip=help), wrapped(tooltip=help)  # the result
        self.less = QLabel(LESS.format(LINK))
        for each in (self.label, self.brief, self.less):
            each.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse
                | Qt.TextInteractionFlag.LinksAccessibleByMouse
                | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
            )
            each.linkActivated.connect(lambda link: self.show_whole(link == "more"))
        # Whether the result is still what would be tracked, and why nothing comes; else empty.
        self.notice = wrapped(is_selectable=True, is_plain=True)
        self.notice.setStyleSheet(NOTICE_STYLE)
        keep_room(self.notice)
        stack(self, self.brief, self.label, self.less)
        self.is_whole = False  # whether all of the text is seen
        self._compare = delayed(self, NOTICE_MS, self.refresh_notice)
        self._poll = repeated(self, POLL_MS, self._on_poll)
        self._show_notice("")
        self.show_idle()
        runs.started.connect(self._on_started)
        session.changed.connect(self._on_changed)
        for signal in (
            *(runs.finished, runs.cancelled, runs.kept, runs.gave_up, runs.failed),
            *(session.edited, session.list_changed),  # such as another name, or an eye
        ):
            signal.connect(self._compare_later)
        self._listening = Listening(
            (notification_manager.notification_ready, self._on_notification),
            (session.document.history_changed, self.forget_told),
            (session.document.changed, self._on_document),
        )

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Keep room for text, now that the labels have the window's font."""
        self.brief.setMinimumHeight(self.brief.fontMetrics().lineSpacing())
        self.notice.setMinimumHeight(self.notice.fontMetrics().lineSpacing() + 6)
        super().showEvent(event)

    def open(self) -> None:
        self._listening.open()

    def close_section(self) -> None:
        self._listening.close()
        self._compare.stop()

    def tell(self, text: str) -> None:
        """Show the whole of an error or a warning until something else is done."""
        if text and text not in self.label.text():
            self._told = text
            self._show_notice(text)

    def _on_notification(self, notification: Any) -> None:
        self.tell(told_by(notification))

    def _on_document(self, before: Snapshot, now: Snapshot) -> None:
        """Say no more of a file that was refused when another is opened, which is no step."""
        if before.bundle.fod is not now.bundle.fod:
            self.forget_told()

    def forget_told(self) -> None:
        """Show an error or a warning no more: something else is done."""
        if self._told:
            self._told = ""
            self._compare_later()

    def show_whole(self, is_whole: bool) -> None:
        """Show all of the text, or of a long one what is bold."""
        self.is_whole = is_whole
        self._set_text(self.label.text())

    def _set_text(self, text: str) -> None:
        brief = in_brief(text)
        is_cut = brief != text
        self.label.setText(text)
        self.brief.setText(brief + MORE.format(LINK) if is_cut else brief)
        self.brief.setVisible(not (is_cut and self.is_whole))
        for each in (self.label, self.less):
            each.setVisible(is_cut and self.is_whole)

    def show_text(self, text: str) -> None:
        self._before, self._before_of = None, self.session.tractogram
        self._set_text(text)

    def show_for_now(self, text: str) -> None:
        """Show a text until the run that it is of, or the problem, is over."""
        if self._before is None:
            self._before = self.label.text()
        self._set_text(labelled(text))

    def show_problem(self, bundle: OpenBundle, message: str) -> None:
        """Say why a bundle was not tracked: for now, or when it becomes active."""
        if bundle is self.session.bundle:
            self.show_for_now(message)
        else:
            known = bundle.state.summary or bundle_summary(bundle)
            bundle.amend(summary="<br>".join(filter(None, [html.escape(labelled(message)), known])))

    def show_lasting(self) -> None:
        """Show the text that was there before one for now."""
        if self._before is not None:
            self.show_text(self.lasting)

    @property
    def lasting(self) -> str:
        """The text, without one for now."""
        if self._before is None:
            return str(self.label.text())
        if self._before_of is not self.session.tractogram:  # a run failed of which some arrived
            return bundle_summary(self.session.bundle)
        return self._before

    def show_text_of(self, bundle: OpenBundle, text: str) -> None:
        """Show a text on the result of a bundle; later, where that bundle is not active."""
        bundle.amend(summary=text)
        if bundle is self.session.bundle:
            self.show_text(text)

    def show_bundle(self, bundle: OpenBundle) -> None:
        """Show what is known of the result of a bundle that has become active."""
        self.show_text(bundle.state.summary or bundle_summary(bundle))
        self.refresh_notice()

    # -- the notice ----------------------------------------------------------------------------

    def refresh_notice(self) -> None:
        """Say in the notice how the result stands to what is set now; not during a run."""
        if self.runs.current is None:
            self._show_notice(self._notice())

    def _notice(self) -> str:
        session, runs = self.session, self.runs
        if self._told:
            return self._told
        if runs.is_awaiting:
            return AWAITING
        request = session.state.result_request
        if runs.live and runs.settle.isActive():
            return ""  # another result is on the way
        if session.tractogram is None or request is None:
            return ""
        layer = session.streamlines_layer
        if layer is not None and is_hidden(layer, session.viewer.layers):
            return HIDDEN.format(layer.name)
        changes = session.changes()
        is_current = changes == []
        if runs.is_waiting and not (is_current and request.is_whole):
            return WAITING
        if changes == [PARTS["arrived"]] and request.arrived is not None:
            return ENDED_EARLY
        if not is_current:
            return FRUITLESS if session.is_fruitless else in_words(session.fod, outdated(changes))
        return "" if request.is_whole else PREVIEW.format(request.n_full)

    def _show_notice(self, text: str) -> None:
        self.notice.setText(text)
        is_quiet = text == SLOWER  # which needs no action
        style = "padding: 2px 6px;" if is_quiet else NOTICE_STYLE
        if self.notice.styleSheet() != style:  # which is worked out again, were it set again
            self.notice.setStyleSheet(style)
        is_outdated = text.startswith(OUTDATED.partition("{}")[0])
        self.notice.setToolTip(NOTICE_HELP.get(text, OUTDATED_HELP if is_outdated else ""))
        if text == IMPOSSIBLE:
            self.notice.setToolTip(self.session.why_impossible())
        self.notice.setVisible(bool(text))

    def _on_started(self, run: Run) -> None:
        self._compare.stop()
        self.show_lasting()  # nothing stays of a run that this one replaces
        if self.session.tractogram is None and run.bundle is self.session.bundle:
            self.show_for_now(BEGUN)
        if self.notice.text() != SLOWER:  # which the run before said, and may still be true
            self._show_notice("")
        self._poll.start()
        self._advance(run)

    def _on_changed(self) -> None:
        """Take back what was said of a problem; Live, where it is on, says it again."""
        self._compare_later()
        if not self.runs.live and self.runs.current is None and self.session.tractogram is not None:
            self.show_lasting()

    def _compare_later(self, _event: Any = None) -> None:
        self._compare.start()

    # -- a run ---------------------------------------------------------------------------------

    def show_idle(self) -> None:
        self._poll.stop()
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(0)
        self.progress.setFormat("")
        self.show_lasting()
        if self.notice.text() in (PREPARING, SLOWER, WORKERLESS):
            self._compare_later()

    def _on_poll(self) -> None:
        if self.runs.current is not None:
            self._advance(self.runs.current)

    def _advance(self, run: Run) -> None:
        if run.n_done:
            self._fill(run)
            if not run.request.is_preview:
                self._show_progress_text(run, so_far(run))
        elif run.seconds > PREPARING_SECONDS:
            self.progress.setRange(0, 0)  # busy
        if run.report.phase == report.STANDING_IN:
            self._show_notice(SLOWER)
        elif run.report.phase == report.WAITING:
            self._show_notice(WORKERLESS)
        elif run.report.phase == report.PREPARING and run.seconds > PREPARING_SECONDS:
            self._show_notice(PREPARING)
            if not run.n_done:
                self._show_progress_text(run, f"Preparing the engine: {run.seconds:.0f} s so far.")
        elif run.n_done:
            self._show_notice("")

    def _show_progress_text(self, run: Run, text: str) -> None:
        if run.bundle is self.session.bundle:
            self.show_for_now(text)

    def _fill(self, run: Run) -> None:
        select = run.request.select
        done, total, what = run.n_done, run.request.n_seeds, "seeds"
        if select is not None and not run.request.is_preview:
            done, total, what = run.n_streamlines, select, "streamlines accepted"
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setValue(PROGRESS_STEPS * done // total)
        self.progress.setFormat(f"{done:,} of {total:,} {what}")

    def show_finished(self, run: Run, tractogram: Tractogram) -> None:
        request, say = run.request, partial(in_words, run.request.fod)
        if not len(tractogram) or run.kept_previous:
            text = say(tractogram.why_empty())
            if run.kept_previous:
                kept = bundle_summary(run.bundle).partition("<br>")[0]
                text += f"<br>Those of before were kept: {kept}."
            self.show_text_of(run.bundle, text)
            return
        n, lengths, unit = len(tractogram), tractogram.lengths_mm, request.fod.grid.unit
        read_in = readable(lengths.max(), unit)
        is_short = request.select is None or n < request.select
        is_advised = request.is_whole and is_short  # who got as many as were asked for needs none
        to_change = say(advice(tractogram, request.parameters, unit)) if is_advised else ""
        warning = to_change or cut_short(tractogram, request.parameters.max_length_mm, unit)
        layer = run.bundle.streamlines_layer
        lines = [
            f"<b>{plural(n, 'streamline')}</b>, mean length "
            f"{length_text(lengths.mean(), read_in)} ({lengths.min() * per_mm(read_in):.1f} to "
            f"{lengths.max() * per_mm(read_in):.1f})",
            say(of_the_seeds(tractogram)),
            too_few(n, request.select) if is_short and not request.is_preview else "",
            say(of_the_ends(tractogram, n_shown=1 if to_change else REASONS_SHOWN)),
            f"<b>{html.escape(warning)}</b>" if warning else "",
            layer.summary if layer is not None and layer.n_shown < n else "",
            self.session.speed()
            if request.is_whole
            else f"preview of {request.n_seeds:,}, {1000 * run.latency:.0f} ms",
            DROPPED if run.drops_edits else "",
        ]
        self.show_text_of(run.bundle, "<br>".join(filter(None, lines)))

    def show_cancelled(self, run: Run) -> None:
        n, wanted = plural(run.n_streamlines, "streamline"), run.request.n_seeds
        text = f"Cancelled after {run.seconds:.1f} s: {n} from "
        if run.request.select is None:
            text += f"{run.n_done:,} of {plural(wanted, 'seed')}."
        else:
            lines = plural(wanted, "streamline")
            text += f"{plural(run.n_done, 'seed')}, of {lines} that were wanted."
        dropped = f"<br>{DROPPED}" if run.kept and run.drops_edits else ""
        self.show_text_of(run.bundle, text + dropped)


def is_hidden(layer: Streamlines, layers: Any) -> bool:
    """Return whether streamlines are not seen, nor tubes of them, which hid them."""
    if layer.visible or not layer.n_all:
        return False
    tubes = (each for each in layers if isinstance(each, Tubes) and each.visible)
    return all(each.metadata.get(TUBES_OF) != layer.unique_id for each in tubes)


def in_brief(text: str) -> str:
    """Return the bold lines of a text; all of it where none is, since it says what is wrong."""
    return "<br>".join(line for line in text.split("<br>") if line.startswith("<b>")) or text


def outdated(changes: list[str] | None) -> str:
    """Return the notice on a result that is not what a run would give now."""
    if changes is None:
        return IMPOSSIBLE
    return OUTDATED.format(changes[0] if len(changes) == 1 or changes[0] == FOD else SEVERAL)


def bundle_summary(bundle: OpenBundle) -> str:
    """Return how many streamlines a bundle has and where they are from, or why a run gave none."""
    tractogram, state = bundle.tractogram, bundle.state
    if tractogram is None:
        return ""
    if not len(tractogram):
        request = None if state.edits is not None else state.result_request
        return "" if request is None else in_words(request.fod, tractogram.why_empty())
    unit = state.result.grid.unit if state.result and state.result.grid else MM
    mean = length_text(tractogram.lengths_mm.mean(), unit)
    lines = [f"<b>{plural(len(tractogram), 'streamline')}</b>, mean length {mean}"]
    if state.is_opened:
        lines.append(f"opened from {html.escape(Path(state.path).name)}; not tracked here")
    return "<br>".join(lines)


def so_far(run: Run) -> str:
    """Return how many streamlines have been accepted of how many seeds, and in what time."""
    share = f"{100 * run.n_streamlines / max(run.n_done, 1):.3g} %"
    return (
        f"<b>{plural(run.n_streamlines, 'streamline')}</b> so far, {run.seconds:.1f} s<br>"
        f"{share} of {plural(run.n_done, 'seed')} accepted"
    )


def too_few(n_accepted: int, wanted: int | None) -> str:
    """Return what to do where fewer were accepted than were wanted; "" without a number."""
    if wanted is None:
        return ""
    return (
        f"<b>Only {n_accepted:,} of {wanted:,}: seed nearer to where streamlines are accepted, or "
        "ask for fewer.</b>"
    )


def of_the_seeds(tractogram: Tractogram) -> str:
    """Return how many seeds gave streamlines, and why the others gave none; "" if not known."""
    n_seeds, n_accepted = tractogram.n_seeds, len(tractogram)
    if not n_seeds:
        return ""
    if n_accepted == n_seeds:
        each = "The one seed" if n_seeds == 1 else f"Each of {n_seeds:,} seeds"
        return f"{each} gave a streamline."
    share = 100 * n_accepted / max(n_seeds, 1)
    text = f"Of {plural(n_seeds, 'seed')}, {n_accepted:,} ({share:.3g} %) gave a streamline"
    why = [
        f"{n:,} {of_several(n, reason.seed_text)}"
        for reason, n in tractogram.discarded()[:REASONS_SHOWN]
    ]
    return f"{text}; not: {', '.join(why)}." if why else f"{text}."


def of_several(n: int, text: str) -> str:
    """Return what is said of a seed as it is said of so many."""
    return text.replace("seed ", "seeds ", 1) if n > 1 and text.startswith("seed ") else text


def of_the_ends(tractogram: Tractogram, *, n_shown: int = REASONS_SHOWN) -> str:
    """Return why the streamlines ended, the commonest reasons first, with their shares."""
    ends = tractogram.ends()
    total = sum(n for _, n in ends) or 1
    shares = [f"{100 * n / total:.1f} % {reason.text}" for reason, n in ends[:n_shown]]
    return f"Ends of the streamlines: {'; '.join(shares)}." if shares else ""


def cut_short(tractogram: Tractogram, max_length_mm: float, unit: str) -> str:
    """Return how many streamlines the maximum length cut, or "" where hardly any are."""
    n_cut = int((tractogram.stop_reasons == StopReason.MAX_LENGTH).any(axis=1).sum())
    if n_cut < CUT_SHOWN * len(tractogram):
        return ""
    read_in = readable(max_length_mm, unit)
    return (
        f"The maximum length of {max_length_mm * per_mm(read_in):g} {symbol(read_in)} cut "
        f"{n_cut:,} of them ({100 * n_cut / len(tractogram):.0f} %)."
    )
