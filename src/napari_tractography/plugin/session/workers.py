"""Work in threads, by napari's workers, of which nothing of ours is left once it is done.

napari lists every worker for as long as its window is there. What a worker was given and what its
signals call would be there as long: the streamlines of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from napari.qt.threading import thread_worker


def call(work: Callable[[], Any], **slots: Callable[..., None]) -> None:
    """Call a function in a thread.

    Parameters
    ----------
    work : callable
        Touches no viewer, layer or widget.
    **slots
        What is called in this thread, by the worker's signals: `returned` with the result,
        `errored` with an exception, `finished` in any case.
    """
    _begin(_called([work]), slots)


def iterate(work: Callable[[], Iterator[Any]], **slots: Callable[..., None]) -> None:
    """Go through a generator in a thread; `yielded` is called with each item. See :func:`call`."""
    _begin(_iterated([work]), slots)


@thread_worker(ignore_errors=True)  # type: ignore[untyped-decorator]  # `errored` tells them
def _called(handed: list[Callable[[], Any]]) -> Any:
    return handed.pop()()


@thread_worker(ignore_errors=True)  # type: ignore[untyped-decorator]
def _iterated(handed: list[Callable[[], Iterator[Any]]]) -> Iterator[Any]:
    yield from handed.pop()()


def _begin(worker: Any, slots: dict[str, Callable[..., None]]) -> None:
    for name, slot in slots.items():
        getattr(worker, name).connect(slot)
    worker.finished.connect(partial(_release, worker, {*slots, "finished"}))  # after all others
    worker.start()


def _release(worker: Any, signals: set[str]) -> None:
    for name in signals:
        getattr(worker, name).disconnect()
