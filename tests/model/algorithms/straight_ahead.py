"""A toy algorithm, all of it in this file: straight ahead until there is a reason to stop.

The tests put it into a copy of the package, as ``model/algorithms/straight_ahead.py``.
"""

from __future__ import annotations

from .row import Algorithm


def straight_ahead(field, settings, scratch, state, n_corners, lane):
    """Keep the current direction."""
    return 0


ROW = Algorithm(
    name="straight_ahead",
    code=77,
    help="keeps its direction",
    cpu="napari_tractography.model.algorithms.straight_ahead:straight_ahead",
    cuda="straight_ahead",
    cuda_source="""
DEVICE int straight_ahead(const Field&, const Settings&, Interpolant&, StreamlineState&,
                          unsigned int)
{
    return 0;
}
""",
)
