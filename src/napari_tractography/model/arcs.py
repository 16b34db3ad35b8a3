"""Steps as chords of a circle: the cone angle that follows from the smallest radius.

Called by :mod:`.parameters` and :mod:`.defaults`.
"""

from __future__ import annotations

import math

from ..errors import InvalidParameterError
from .specs import ParameterSpec

DIGITS = 9  # of angles in degrees: what rounding does to a sine is not seen


def radius_mm(step_mm: float, angle_deg: float) -> float:
    """Return the radius of the circle on which steps turn by an angle, mm."""
    return step_mm / (2 * math.sin(math.radians(angle_deg) / 2))


def angle_deg(step_mm: float, radius_mm: float) -> float:
    """Return the angle between steps that are chords of a circle, degrees.

    Steps longer than the diameter are no chords; they turn by 180 degrees here.
    """
    return round(math.degrees(2 * math.asin(min(step_mm / (2 * radius_mm), 1.0))), DIGITS)


def radius_limits_mm(step_mm: float, cone: ParameterSpec) -> tuple[float, float]:
    """Return the smallest and the largest radius whose cones are within limits, mm."""
    assert cone.minimum is not None
    assert cone.maximum is not None
    return radius_mm(step_mm, cone.maximum), radius_mm(step_mm, cone.minimum)


def cone_of_radius(step_mm: float, radius_mm: float, cone: ParameterSpec, cone_deg: float) -> float:
    """Return the cone angle that follows from the smallest radius and the step, degrees.

    Raises InvalidParameterError when the angle is out of the limits of `cone`, or the cone angle
    `cone_deg`, which was chosen beside the radius, is neither it nor the default.
    """
    angle = angle_deg(step_mm, radius_mm)
    try:
        cone.check(angle)
    except InvalidParameterError:
        smallest, largest = radius_limits_mm(step_mm, cone)
        raise InvalidParameterError(
            f"min_radius_mm = {radius_mm:g} mm is out of range with steps of {step_mm:g} mm; "
            f"choose {smallest:.3g} to {largest:.3g} mm, or other steps."
        ) from None
    if cone_deg != cone.default and abs(cone_deg - angle) > 1e-4:
        raise InvalidParameterError(
            f"max_angle_deg = {cone_deg:g} degrees and min_radius_mm = {radius_mm:g} mm contradict "
            f"each other: with steps of {step_mm:g} mm the radius gives a cone of {angle:.4g} "
            "degrees; leave one of them out."
        )
    return angle
