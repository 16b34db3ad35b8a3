"""Why a streamline ended, as data: the text people read and whether its last point is kept.

The engine writes these codes, tractograms carry them, and the command and the panel print them.
The idea of one table for all reasons is that of MRtrix3's ``tracking/types.h``.
"""

from __future__ import annotations

from enum import IntEnum


class StopReason(IntEnum):
    """Code of the end of one half of a streamline, or of what became of the whole.

    Attributes
    ----------
    text : str
        What a person reads.
    keeps_point : bool
        Whether the point at which the reason was found belongs to the streamline.
    rejects : bool
        Whether the reason throws the whole streamline away.
    remedy : str
        What to change when a run gave nothing and this was the commonest reason.
    """

    text: str
    keeps_point: bool
    rejects: bool
    remedy: str

    def __new__(
        cls, code: int, text: str, keeps_point: bool, rejects: bool, remedy: str
    ) -> StopReason:
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.keeps_point = keeps_point
        member.rejects = rejects
        member.remedy = remedy
        return member

    @property
    def seed_text(self) -> str:
        """What a person reads of a seed that gave no streamline for this reason."""
        return self.text if self.rejects else f"{self.text}, at the first step"

    SEED = 0, "starts at the seed", True, False, ""
    LEFT_IMAGE = 1, "left the image", False, False, "seed further inside the image"
    LEFT_MASK = 2, "left the mask", False, False, "use a larger mask"
    NO_FOD = 3, "reached a voxel without fibres", True, False, "seed in white matter"
    LOW_AMPLITUDE = (
        4, "the fibre fades: FOD amplitude below the minimum", True, False,
        "lower the minimum amplitude or seed in white matter",
    )  # fmt: skip
    LOW_PROBABILITY = (
        5, "no fibre ahead: too little of the FOD lies in the cone", True, False,
        "lower the probability threshold or widen the cone angle",
    )  # fmt: skip
    MAX_LENGTH = 6, "reached the maximum length", True, False, "raise the maximum length"
    STOP_REGION = 7, "entered a stop region", True, False, "move or shrink the stop region"
    END_REGION = 8, "ended in an end region", True, False, "move or shrink the end region"
    EXCLUDED = 9, "entered an exclude region", False, True, "move or shrink the exclude region"
    NOT_INCLUDED = (
        10, "missed an include region", False, True,
        "enlarge the include regions or relax their rule",
    )  # fmt: skip
    NOT_ENDED = 11, "did not end in an end region", False, True, "enlarge the end regions"
    TOO_SHORT = 12, "shorter than the minimum length", False, True, "lower the minimum length"
    SEED_OUTSIDE_IMAGE = 13, "seed outside the image", False, True, "move the seeds into the image"
    SEED_OUTSIDE_MASK = 14, "seed outside the mask", False, True, "move the seeds into the mask"
    SEED_WITHOUT_FOD = (
        15, "no fibre orientation at the seed", False, True,
        "seed in white matter or lower the minimum amplitude",
    )  # fmt: skip
    SHARP_TURN = (
        16, "the fibre turns more sharply than the cone allows", True, False,
        "widen the cone angle or take smaller steps",
    )  # fmt: skip
    # With a tissue image, see tissues.py.
    ENTERED_CORTEX = 17, "ended in cortical grey matter", True, False, ""
    ENDED_IN_DEEP_GREY = 18, "ended in deep grey matter", True, False, ""
    LEFT_DEEP_GREY = (
        19, "left deep grey matter, and was cut where the FOD is smallest there", True, False, "",
    )  # fmt: skip
    LEFT_TISSUES = (
        20, "left the brain, as the tissue image has it", False, False,
        "check that tissue image and FOD are in the same space",
    )  # fmt: skip
    ENTERED_FLUID = (
        21, "entered cerebrospinal fluid", True, True,
        "backtrack, or check that tissue image and FOD are in the same space",
    )  # fmt: skip
    ENDED_IN_WHITE = (
        22, "ended in white matter", True, True,
        "backtrack, lower the minimum amplitude or widen the cone angle",
    )  # fmt: skip
    TOO_LONG = (
        23, "reached the maximum length before grey matter", True, True, "raise the maximum length",
    )  # fmt: skip
    NO_WHITE = (
        24, "began in deep grey matter and never left it for white matter", True, True,
        "seed in white matter",
    )  # fmt: skip
    SEED_IN_WRONG_TISSUE = (
        25, "seed neither in white matter nor in deep grey matter", False, True,
        "seed in white matter, or check that tissue image and FOD are in the same space",
    )  # fmt: skip


N_REASONS = len(StopReason)
