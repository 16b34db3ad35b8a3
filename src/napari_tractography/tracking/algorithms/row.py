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

            function(field, settings, scratch, state, n, lane) -> (reason, step_mm)

        ``state.lane_coefficients[lane]`` is the FOD at the last point, mixed of those of `n`
        voxels, ``state.ux[lane]``, ``uy`` and ``uz`` the direction, a unit vector (RAS+), which
        it changes. `reason` is why to stop, 0 to go on.

        One that is `side_by_side` draws those of many lanes, given as bits::

            function(field, settings, scratch, state, n, lanes) -> (drawn, ended)

        It writes ``state.ux``, ``uy`` and ``uz`` of the lanes `drawn` and ``state.reason`` of those
        `ended`; the others try again in the next round.
    cuda : str
        Name of its CUDA function, which chooses the next direction of ``walk``::

            DEVICE int function(const Field& field, const Settings& settings, Place& place,
                                Walk& walk, unsigned int stream, bool replay)

        It returns the stop reason, 0 to go on, or AGAIN where it is to be called once more; it
        changes ``walk.ux``, ``uy`` and ``uz``, and may change ``walk.step``. A replay takes steps
        that are known to be there, so that reasons to stop need not be looked for.
    cuda_source : str
        CUDA source of that function, or the ``#include`` of a header of ``tracking/cuda`` that has
        it.
    side_by_side : bool
        Whether the CPU draws for all lanes of a thread at once.
    starts_at_peak : bool
        Whether the start direction, drawn or given, is that of the peak that it leads up to.
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
    starts_at_peak: bool = False
    exact: bool = True
    own_parameters: tuple[str, ...] = ()
