"""What is known of a tracking algorithm: one row of the table of algorithms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One algorithm, as data; its functions are named, and imported when they first run.

    The function for Numba of an algorithm that is not `side_by_side` chooses the next direction of
    one streamline::

        function(field, settings, scratch, state, n_corners, lane) -> reason

    ``state.lane_coefficients[lane]`` is the FOD at the last point, interpolated from `n_corners`
    voxels; ``state.ux[lane]``, ``uy`` and ``uz`` is the direction, a unit vector (RAS+), which the
    function changes. `reason` is the stop reason, 0 without one. One that is `side_by_side` draws
    those of many lanes, the bits of `lanes`::

        function(field, settings, scratch, state, n_corners, lanes) -> (drawn, ended)

    It writes ``state.ux``, ``uy`` and ``uz`` of the lanes `drawn` and ``state.reason`` of those
    `ended`; the others propose again in the next pass. Where steps are `adaptive`, either
    writes ``state.step[lane]``, in mm, too. The CUDA function is::

        DEVICE int function(const Field& field, const Settings& settings,
                            Interpolant& interpolant, StreamlineState& state,
                            unsigned int stream)

    It returns the stop reason, 0 without one, or AGAIN where it has not chosen yet; it changes
    ``state.ux``, ``uy`` and ``uz``, and may change ``state.step``. With AGAIN it may set
    ``state.task`` to a phase that all lanes of a warp take part in, such as ``FIND_PEAK``, see
    ``track.cu``; otherwise it is called once more.

    Where steps are arcs (`curved`), each is taken in `samples` - 1 parts of equal length, and the
    function, on the CPU one that is `side_by_side`, is called for each part. The direction that it
    leaves is that of the part's chord, times chord over arc. The tangent at the last point is
    ``state.heading[:, lane]``, which the function turns, or ``state.hx``, ``hy`` and ``hz``, which
    turn by themselves. The first arc begins along the start direction.
    """

    name: str  # as in TrackingParameters(algorithm=...), an identifier; that of the row's file, too
    code: int  # by which kernels know it, never to change: speeds are remembered by it
    help: str  # what it does, as the end of the sentence that begins with its name
    cpu: str  # "module:function" of its function for Numba, plain or compiled already
    cuda: str  # name of its CUDA function
    cuda_source: str  # CUDA source of that, or the #include of a header of tracking/cuda with it
    # That a thread of its kernel has at the most: with fewer, more warps fit on a multiprocessor,
    # each of which writes more to memory and reads it again. Measured on an H100.
    cuda_registers: int = 168
    side_by_side: bool = False  # whether the CPU draws for all lanes of a thread at once
    # How it chooses where the FOD is made of peaks: "drawn" in proportion to their amplitudes, the
    # "largest" in the cone, the "nearest" to the direction, or "followed" up the gradient of an FOD
    # that is made of those nearest to it; "" where it needs an FOD all around, and gets the lobes
    # along peaks. Of tensors, "drawn" and "followed" get ODFs, and the others follow the main
    # eigenvector.
    among_vectors: str = ""
    starts_at_peak: bool = False  # whether along the peak that the start direction leads up to
    curved: bool = False  # whether steps are arcs
    # That suit an FOD which is known all around, or 0 for what suits most: the step, and the cone
    # where it is not to follow from the step and the smallest radius.
    step_voxels: float = 0.0
    cone_deg: float = 0.0
    # gamma_voxels, look_ahead_voxels: the drift, per voxel, and how far to look ahead, that suit an
    # FOD; 0 where they mean nothing.
    gamma_voxels: float = 0.0
    look_ahead_voxels: float = 0.0
    lobe_deg: float = 0.0  # that suits an FOD; 0 where it means nothing
    min_roundness: float = 0.0  # the same
    # Whether it keeps tckgen's default cutoff, where the FOD is scaled as MRtrix3's, in place of a
    # floor in proportion to the FOD.
    keeps_cutoff: bool = False
    draws: bool = True  # whether directions are drawn: tracking again from a point leads elsewhere
    own_parameters: tuple[str, ...] = ()  # that mean something to this algorithm and not to all
