"""Who takes part in the speed comparison, and which of ours is compared with which peer."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Contestant
from .ours import Ours
from .peers.cuslines import Cuslines
from .peers.dipy import Dipy
from .peers.mrtrix import MRtrix
from .peers.tractography_jl import TractographyJl


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: which of ours against which peer, and the ratio we aim for."""

    what: str
    ours: str
    peer: str
    target: float


PROBABILISTIC_NEAREST = Ours("probabilistic, nearest", interpolation="nearest")
PROBABILISTIC_TRILINEAR = Ours("probabilistic, trilinear")
DETERMINISTIC_NEAREST = Ours(
    "deterministic, nearest", algorithm="deterministic", interpolation="nearest"
)
DETERMINISTIC_TRILINEAR = Ours("deterministic, trilinear", algorithm="deterministic")
ENDPOINTS_NEAREST = Ours("endpoints only, nearest", interpolation="nearest", output="endpoints")
CONTESTANTS: tuple[Contestant, ...] = (
    PROBABILISTIC_NEAREST,
    PROBABILISTIC_TRILINEAR,
    DETERMINISTIC_NEAREST,
    DETERMINISTIC_TRILINEAR,
    ENDPOINTS_NEAREST,
    MRtrix("iFOD1"),
    MRtrix("SD_STREAM"),
    Dipy("probabilistic_tracking"),
    Dipy("deterministic_tracking"),
    Cuslines(),
    TractographyJl(),
)
ROWS = (
    Row("probabilistic, nearest", PROBABILISTIC_NEAREST.label, "MRtrix3 iFOD1", 100),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "MRtrix3 iFOD1", 40),
    Row(
        "probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "DIPY probabilistic_tracking", 50
    ),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, Cuslines.label, 15),
    Row("deterministic, nearest", DETERMINISTIC_NEAREST.label, "MRtrix3 SD_STREAM", 50),
    Row(
        "deterministic, trilinear", DETERMINISTIC_TRILINEAR.label, "DIPY deterministic_tracking", 15
    ),
    Row("endpoints only, nearest", ENDPOINTS_NEAREST.label, TractographyJl.label, 8),
)
