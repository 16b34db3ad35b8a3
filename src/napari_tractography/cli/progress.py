"""A run on the terminal: how far it is, and what it gave."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.outcome import Outcome
    from ..model.parameters import TrackingParameters
    from ..recipes.bundle import Bundle
    from ..recipes.recipe import Recipe
    from ..streamlines.tractogram import Tractogram
    from ..tracking.inputs import Execution, TrackingInput
    from ..tracking.report import Report

INTERVAL_S = 0.2
LINE_WIDTH = 79


def track_with_progress(
    options: argparse.Namespace, inputs: TrackingInput, execution: Execution, report: Report
) -> Tractogram:
    """Track, and show on a terminal how far it is; fill the report."""
    from ..streamlines.tractogram import Tractogram

    n_seeds = len(inputs.seeds) if inputs.select is None else None
    with chunks_with_progress(options, inputs, execution, report) as chunks:
        return Tractogram.concatenate(chunks, n_seeds=n_seeds)


def made_bundle(
    options: argparse.Namespace, execution: Execution, bundle: Bundle, recipe: Recipe
) -> tuple[TrackingInput, Tractogram, str]:
    """Track the recipe of a bundle, which takes over what comes of it.

    Returned are what was tracked, the streamlines before edits, and the backend.
    """
    from ..tracking.report import Report

    inputs, source = recipe.read(fods=bundle.fods)
    bundle.learn(source)
    report = Report()
    tracked = track_with_progress(options, inputs, execution, report)
    bundle.adopt(tracked, report.backend)
    return inputs, tracked, report.backend


@contextlib.contextmanager
def chunks_with_progress(
    options: argparse.Namespace, inputs: TrackingInput, execution: Execution, report: Report
) -> Iterator[Iterator[Tractogram]]:
    """Yield chunks as they come, and show on a terminal how far it is; fill the report."""
    from ..tracking import selecting
    from ..tracking.engine import PREPARING, iter_chunks

    visible = sys.stderr.isatty() and not options.quiet
    with _held_back(selecting.logger) as held, progress_line(visible) as show:
        show(PREPARING)
        with contextlib.closing(iter_chunks(inputs, execution, report=report)) as chunks:
            yield _shown(chunks, inputs, show, held)


def _shown(
    chunks: Iterator[Tractogram],
    inputs: TrackingInput,
    show: Callable[[str], None],
    held: list[logging.LogRecord],
) -> Iterator[Tractogram]:
    """Pass chunks on, and show how many seeds are done, or how many streamlines are accepted.

    Where none of those that are wanted is, an error says why: what was held back, that there are
    fewer, is let go.
    """
    n_seeds, wanted = len(inputs.seeds), inputs.select
    n_accepted, n_done, last_s = 0, 0, 0.0
    for chunk in chunks:
        n_accepted, n_done = n_accepted + len(chunk), n_done + chunk.n_seeds
        is_last = wanted is None and n_done == n_seeds
        if is_last or (n_done and time.perf_counter() - last_s > INTERVAL_S):
            last_s = time.perf_counter()
            show(
                f"{100 * n_done // n_seeds:3d} %  {n_done} of {n_seeds} seeds"
                if wanted is None
                else f"{100 * n_accepted // wanted:3d} %  {n_accepted} of {wanted} streamlines, "
                f"{100 * n_accepted / n_done:.3g} % of {n_done} seeds"
            )
        yield chunk
    if wanted is not None and not n_accepted:
        held.clear()


@contextlib.contextmanager
def _held_back(logger: logging.Logger) -> Iterator[list[logging.LogRecord]]:
    """Hold back what a logger says until the end; yield it."""
    held: list[logging.LogRecord] = []

    def hold(record: logging.LogRecord) -> bool:
        held.append(record)
        return False

    logger.addFilter(hold)
    try:
        yield held
    finally:
        logger.removeFilter(hold)
        for record in held:
            logger.handle(record)


@contextlib.contextmanager
def progress_line(visible: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces one line on the terminal; clear the line in the end."""

    def show(text: str) -> None:
        if visible:
            print(f"\r{text:<{LINE_WIDTH}}\r", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        show("")


def print_result(
    tractogram: Outcome, parameters: TrackingParameters, seconds: float, report: Report
) -> None:
    """Print what a run gave, what to change where most of it came to nothing, and how fast."""
    from ..tracking.report import advice

    print(tractogram.summary())
    to_change = advice(tractogram, parameters)
    if to_change:
        print(to_change)
    print(report.speed(tractogram, parameters.step_mm, seconds))
    print(f"digest {tractogram.digest()}")
