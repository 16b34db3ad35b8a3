"""What is known of a tracking algorithm: one row of the table of algorithms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One algorithm, as data; its functions are named, and imported when they first run.

    Attributes
    ----------
    name : str
        As in ``TrackingParameters(algorithm=...)``, an identifier; that of the row's file, too.
    code : int
        Number by which kernels know it, never to change: speeds are remembered by it.
    help : str
        What it does, as the end of the sentence that begins with its name.
    cpu : str
        "module:function" of its function for Numba, plain or compiled already.

        An algorithm that is not `side_by_side` chooses the next direction of one streamline::

            function(field, settings, scratch, rows, n, i, ux, uy, uz, limit, stream, step, purpose)
                -> (i, ux, uy, uz, step_mm)

        `rows` and ``scratch.weights`` are the `n` voxels whose FODs mix here, `i` and
        `(ux, uy, uz)` the current direction of the set and unit vector (RAS+), `limit` the mass
        of the cone at or below which to stop, `stream`, `step` and `purpose` the counter of random
        numbers. A negative `i` is minus the stop reason.

        One that is `side_by_side` draws those of many lanes, given as bits::

            function(field, settings, scratch, state, n, lanes) -> (drawn, ended)

        It writes ``state.current`` of the lanes `drawn` and ``state.reason`` of those `ended`;
        the others propose again in the next round.
    cuda : str
        Name of its CUDA function, which chooses the next direction of ``walk``::

            DEVICE int function(const Field& field, const Settings& settings, Scratch& scratch,
                                Walk& walk, float limit, unsigned int stream, unsigned int purpose)

        It returns the direction of the set, minus the stop reason, or AGAIN where it is to be
        called once more; one that is not `on_set` changes ``walk.ux``, ``uy`` and ``uz``, and may
        change ``walk.step``.
    cuda_source : str
        CUDA source of that function, or the ``#include`` of a header of ``tracking/cuda`` that has
        it.
    side_by_side : bool
        Whether the CPU draws for all lanes of a thread at once.
    on_set : bool
        Whether steps go along directions of the set, which two bytes can record; else along unit
        vectors of its own.
    repeats : bool
        Whether the next direction depends on the current one and the nearest voxel alone, so that
        with nearest interpolation it need not be sought again while both stay.
    exact : bool
        Whether all machines give the same bits; not where sines or exponentials are used.
    own_parameters : tuple of str
        Tracking parameters that mean something to this algorithm and not to all.
    """

    name: str
    code: int
    help: str
    cpu: str
    cuda: str
    cuda_source: str
    side_by_side: bool = False
    on_set: bool = True
    repeats: bool = False
    exact: bool = True
    own_parameters: tuple[str, ...] = ()
