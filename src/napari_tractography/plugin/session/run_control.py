"""Which run is under way: start, cancel, follow with Live; the newest wins.

A run works in a thread of its own (:mod:`.runs`); what it yields arrives here, in the main thread,
and goes to the session. Called by the panel.
"""

from __future__ import annotations

import time
from functools import partial

from psygnal import Signal

from ...errors import TractographyError
from ...streamlines.tractogram import Tractogram
from ..background import iterate
from ..document import Result
from ..layers.fod_opening import FodOpening
from ..streamlines.layer import Streamlines
from ..timers import delayed
from .open_bundle import Arriving, OpenBundle
from .previews import Pace
from .runs import Failure, Finished, Run, work
from .session import Session

SETTLE_MS = 250  # after the last change, before the full number is tracked
# A chunk takes less, in NumPy too; what compiles the engine cannot be waited for.
CLOSE_SECONDS = 2.0


class RunControl:
    """Starts and ends the runs of a session, one at a time.

    With :attr:`live`, whatever changes is followed by a preview at once, and by the full run when
    nothing has changed for a while or the mouse lets go. Where the result was edited by hand Live
    waits: only :meth:`start` drops edits. `current` is the run under way.
    """

    started = Signal(object)  # Run
    advanced = Signal(object)  # Run: streamlines have arrived
    finished = Signal(object)  # Run
    cancelled = Signal(object)  # Run, at once
    kept = Signal(object)  # Run, cancelled before: what had arrived is now the result
    failed = Signal(str, bool, object)  # a sentence, whether it was only a preview; OpenBundle
    gave_up = Signal(object)  # Run that ended without a result
    awaiting = Signal(bool)  # whether a run is to begin when the FOD has been read

    def __init__(self, session: Session) -> None:
        self.session = session
        self.current: Run | None = None
        self.live = False
        self.pace = Pace()
        # By its bundle, a run that was cancelled and whose result is on the way.
        self._ending: dict[OpenBundle, Run] = {}
        self._drawn: tuple[Run, Streamlines] | None = None  # the layer shows the run's beginning
        self._changed_at = 0.0  # when what the next preview follows changed
        self._is_outdated = False  # whether something changed since the preview under way began
        self._is_full = False  # whether the last run gave all that was asked for
        self._is_full_due = False  # whether all is tracked once the preview under way is shown
        self._is_waiting = False  # whether a change was not followed, to keep edits by hand
        self._awaited: FodOpening | None = None  # a run begins when this has been read
        self.working: set[Run] = set()  # whose threads have not ended, given up or not
        self.settle = delayed(None, SETTLE_MS, self._track_all)  # until Live tracks all
        session.changed.connect(self._on_changed)
        session.released.connect(self._on_released)
        session.edited.connect(self._on_edited)

    # -- what is under way ---------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a run is under way, or the result of a cancelled one is still to come."""
        return self.current is not None or bool(self._ending)

    @property
    def is_awaiting(self) -> bool:
        """Whether a run is to begin when the FOD has been read."""
        return self._awaited is not None

    @property
    def is_waiting(self) -> bool:
        """Whether Live left a change alone because the result was edited by hand."""
        return self.live and self._is_waiting and self.session.has_edits

    # -- starting and ending -------------------------------------------------------------------

    def start(self, *, preview: bool = False) -> Run | None:
        """Start a run, in place of the one under way.

        Returns None where `failed` says why not, and the one under way continues; and where the FOD
        is still being read: then the run, but no preview, begins when it has been.
        """
        if self.session.opening is not None:
            if not preview:
                self._await_fod()
            return None
        self.settle.stop()
        self._is_full_due &= preview
        try:
            n_preview = self.pace.n_streamlines if preview else None
            request = self.session.request(n_preview=n_preview)
        except TractographyError as error:
            self.failed.emit(str(error), preview, self.session.bundle)
            return None
        if self._is_of_another:
            self.cancel()  # what has arrived is wanted: that bundle is not tracked again
        self._abandon()
        run = Run(request, self.session.bundle)
        run.drops_edits = self.session.has_edits
        if preview:
            run.asked = self._changed_at or run.begun
            self._changed_at = 0.0
        self.current = run
        self._is_outdated = self._is_full = self._is_waiting = False
        self.working.add(run)
        done = partial(self._on_worker_done, run)
        iterate(partial(work, run), partial(self._on_yield, run), done)
        self.started.emit(run)
        return run

    def cancel(self) -> None:
        """End the run under way; what has arrived becomes the result, and `kept` follows."""
        self.settle.stop()
        self._await(None)
        run = self.current
        if run is None:
            return
        if run.n_done:
            run.kept = True
            self._ending[run.bundle] = run
        self._abandon()
        self.cancelled.emit(run)

    def close(self) -> None:
        """Give up what is under way; wait a moment for threads to end."""
        self.live = False
        self._await(None)
        runs = [run for run in (self.current, *self._ending.values()) if run is not None]
        self._ending.clear()
        self._abandon()
        for run in runs:
            run.kept = False
            self.session.drop_arriving(run.bundle)
            run.ended.wait(CLOSE_SECONDS)

    @property
    def _is_of_another(self) -> bool:
        """Whether the run under way is that of a bundle that is not active now."""
        return self.current is not None and self.current.bundle is not self.session.bundle

    def switch(self) -> None:
        """Follow another bundle: a run that a person began continues, into its own bundle."""
        self._await(None)
        self._stop_following()

    def give_up(self, bundle: OpenBundle) -> None:
        """Give up what is under way or still to come for a bundle, which is no longer there."""
        self._ending.pop(bundle, None)
        bundle.arriving = None
        run = self.current
        if run is not None and run.bundle is bundle:
            self._abandon()
            self.gave_up.emit(run)

    def _abandon(self) -> None:
        run = self.current
        if run is not None:
            run.cancelled.set()
            self.current = None

    # -- waiting for the FOD -------------------------------------------------------------------

    def _await_fod(self) -> None:
        """Let the run begin when the FOD has been read; say at once if it has no seeds."""
        try:
            self.session.make_seeding()
        except TractographyError as error:
            self.failed.emit(str(error), False, self.session.bundle)
            return
        self.cancel()
        self._await(self.session.opening)

    def _await(self, opening: FodOpening | None) -> None:
        was, self._awaited = self.is_awaiting, opening
        if was != self.is_awaiting:
            self.awaiting.emit(self.is_awaiting)

    def _on_changed(self) -> None:
        awaited = self._awaited
        if awaited is not None and awaited is not self.session.opening:
            self._await(None)
            if awaited.fod is not None and awaited.fod is self.session.fod:  # no other was chosen
                self.start()
                return
        self.follow()

    # -- following what changes ----------------------------------------------------------------

    def follow(self) -> None:
        """Note that something changed: with `live`, track again.

        A preview under way continues, or a seed that moves all the time would never show one; the
        next begins when it is there. One of another FOD is given up: in an image with other scales
        it may be working out orientations for seconds.
        """
        session = self.session
        if not self.live or session.fod is None or not session.can_start:
            return
        if session.state.is_opened:
            return
        if session.document.is_travelling and self._has_all:
            self._stop_following()  # undo has brought the result with what it is of
            return
        if session.has_edits:
            self._is_waiting = True
            return
        self._changed_at = time.perf_counter()
        self._is_full_due = False
        run = self.current
        if run is not None and run.request.is_preview and run.request.fod is session.fod:
            self._is_outdated = True
        else:
            self.start(preview=True)
        self.settle.start()

    @property
    def _has_all(self) -> bool:
        """Whether the result is that of a full run now."""
        request = self.session.state.result_request
        return request is not None and request.is_whole and self.session.is_result_current

    def _stop_following(self) -> None:
        """Follow nothing until something changes."""
        self.settle.stop()
        self._is_full_due = self._is_outdated = self._is_waiting = False
        self._is_full, run = self._has_all, self.current
        if run is not None and run.is_live:
            self._drop(run)
            self.gave_up.emit(run)

    def _drop(self, run: Run) -> None:
        self._abandon()
        self.session.drop_arriving(run.bundle)

    def _on_released(self) -> None:
        if self.settle.isActive():
            self.settle.stop()
            self._track_all()

    def _on_edited(self) -> None:
        """Keep what was edited by hand from what Live has under way; continue when it is undone."""
        session = self.session
        if not session.has_edits:
            if self._is_waiting:
                self._is_waiting = False
                self.follow()
            return
        self._ending.pop(session.bundle, None)  # what is still to come of it has no edits
        self._is_full_due = False
        run = None if self._is_of_another else self.current
        if run is not None and not run.is_live:
            run.drops_edits = True  # the person asked for it: it continues, and says so at its end
            return
        self._is_waiting = self.settle.isActive() or run is not None
        self.settle.stop()
        if run is not None:
            self._drop(run)
            self.cancelled.emit(run)

    def _track_all(self) -> None:
        """Track all, after the preview under way: where drawing is slow none would be seen."""
        run = self.current
        if not self.live:
            return
        if run is not None and run.request.is_preview:
            self._is_full_due = True
        elif not (self._is_full if run is None else run.request.is_whole):
            run = self.start()
            if run is not None:
                run.is_live = True

    def _follow_preview(self) -> None:
        """Start what has to come after a preview that ended."""
        if self._is_outdated and self.live:
            if self.start(preview=True) is None or not self._is_full_due:
                self.settle.start()
        elif self._is_full_due:
            self._is_full_due = False
            self._track_all()

    # -- what arrives --------------------------------------------------------------------------

    def _on_worker_done(self, run: Run) -> None:
        self.working.discard(run)
        if self.current is run:  # it ended without a result
            self._abandon()
            self._leave(run)
            self.gave_up.emit(run)
            self._follow_preview()

    def _on_yield(self, run: Run, item: Tractogram | Finished | Failure) -> None:
        if self._ending.get(run.bundle) is run and isinstance(item, Finished | Failure):
            del self._ending[run.bundle]
            whole = item.tractogram if isinstance(item, Finished) else None
            if whole is not None:  # with what has arrived since it was cancelled
                run.n_done, run.n_streamlines = whole.n_seeds, len(whole)
            self._keep(run, whole, is_part=True)
            self.kept.emit(run)
            if isinstance(item, Failure):
                self.failed.emit(item.message, False, run.bundle)
        if self.current is not run:
            return  # a newer run has taken over
        if isinstance(item, Failure):
            self.current = None
            self._keep(run, is_part=True)
            self._leave(run)
            self.failed.emit(item.message, run.request.is_preview, run.bundle)
            if run.request.is_preview:
                self._follow_preview()
        elif isinstance(item, Finished):
            self._finish(run, item.tractogram)
        elif item.n_seeds:  # else the run waits, and what is shown stays
            run.take(item)
            if not run.request.is_preview and run.is_redraw_due():
                self._draw_fresh(run)
            self.advanced.emit(run)

    def _finish(self, run: Run, tractogram: Tractogram) -> None:
        self.current, run.result = None, tractogram
        is_preview = run.request.is_preview
        is_active = run.bundle is self.session.bundle
        if is_active:
            self._is_full = run.request.is_whole
        if is_preview:
            run.take(tractogram)
        had_some = bool(len(run.bundle.tractogram or ()))
        run.kept_previous = had_some and not len(tractogram) and not run.is_live
        if run.kept_previous:
            self._drawn = None
            self._leave(run)
            run.bundle.amend(everywhere=True, fruitless=run.request)
        else:
            self._keep(run, tractogram)
        run.latency = time.perf_counter() - run.asked
        if is_preview and run.was_ready:
            self.pace.learn(run.request.n_seeds, run.seconds)
        self.finished.emit(run)
        if is_preview:
            self._follow_preview()
        elif is_active and self._is_waiting:  # for edits that this run has dropped
            self._is_waiting = False
            self.follow()

    def _leave(self, run: Run) -> None:
        """Leave what was there before a run that has given nothing."""
        arriving = run.bundle.arriving
        if arriving is not None and arriving.report is not run.report:
            self.session.keep_arrived(run.bundle)  # of the run that this one replaced
        else:
            self.session.drop_arriving(run.bundle)

    def _draw_fresh(self, run: Run) -> None:
        """Show what has arrived, as long as the layer has room for all of it."""
        layer = self.session.ensure_streamlines_layer(run.bundle)
        if run.n_points > layer.max_vertices:
            return  # the end of the run shows an even subset
        goes_on = run.n_parts_shown > 0 and self._drawn == (run, layer)
        parts = run.parts[run.n_parts_shown :] if goes_on else run.parts
        arrived = Tractogram.concatenate(parts)
        arriving = Arriving(run.request, run.report)
        self._ending.pop(run.bundle, None)  # what is still to come of an older run would hide it
        self.session.show_arriving(run.bundle, arriving, arrived, append=goes_on)
        self._drawn = run, layer
        run.note_redraw()

    def _keep(
        self, run: Run, tractogram: Tractogram | None = None, *, is_part: bool = False
    ) -> None:
        """Make what has arrived of a run the result; nothing where nothing has."""
        if not run.n_done:
            return
        self._ending.pop(run.bundle, None)  # its result would come in place of a newer one
        whole = Tractogram.concatenate(run.parts) if tractogram is None else tractogram
        request = run.request.ended_with(whole) if is_part else run.request
        result = Result(whole, request, seconds=run.seconds, report=run.report)
        is_live = run.is_live or request.is_preview
        self.session.keep_result(run.bundle, result, is_live=is_live)
        self._drawn = None
