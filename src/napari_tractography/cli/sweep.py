"""``napari-tractography sweep``: how the streamlines of a recipe depend on a parameter."""

from __future__ import annotations

import argparse
import math
from typing import Any

from ..errors import InvalidParameterError
from ..model.parameters import parameter_specs
from .flags import add_execution, add_path, add_regions, check_outputs, execution_of, region_sources
from .select import ROLES

HELP = "tell how the streamlines of a recipe depend on a parameter, and where that is flat"
DESCRIPTION = (
    "Track the seeds of a recipe with each of several values of a parameter, with "
    "common random numbers, and compare each with the recipe's own value: fraction of the "
    "seeds that is accepted, mean length, likeness and, where regions say what is valid, the "
    "fraction of the streamlines that is. Says around which values the answer is flat: where "
    "no number differs by more than twice its paired standard error."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "recipe", "RECIPE", ".json, as `track` writes it")
    parser.add_argument(
        "--vary",
        required=True,
        metavar="NAME=FROM:TO:N|NAME=A,B,...",
        help="parameter, by the name of its flag or of its field, and N values at equal distances, "
        "both ends counted, or values; the recipe's own is added",
    )
    add_path(parser, "-o --out", "OUT.csv", "table to write", required=True)
    add_path(parser, "--plot", "OUT", "also draw the numbers: .png, .svg or .pdf")
    add_regions(parser, ROLES)
    add_execution(parser)


def run(options: argparse.Namespace) -> int:
    """Write table and plot; return the exit code."""
    from ..maps.plots import plot_sweep, save_plot
    from ..maps.spreadsheets import sweep_table
    from ..maps.sweeps import swept
    from ..recipes.recipe import Recipe

    check_outputs((options.out,), plots=(options.plot,), read=(options.recipe,))
    name, values = varied(options.vary)
    valid = [source.make() for source in region_sources(options, ROLES)]
    inputs = Recipe.load(options.recipe).inputs()

    def say(_number: int, value: float, found: Any) -> None:
        if not options.quiet:
            print(f"{name} = {value:g}: {len(found)} streamlines")

    with execution_of(options) as execution:
        found = swept(
            inputs, name, values, execution, valid=valid, include_rule=options.include_rule,
            seen=say,
        )  # fmt: skip
    sweep_table(found).save(options.out)
    if options.plot:
        save_plot(plot_sweep(found), options.plot)
    print(found.text)
    print(f"written to {', '.join(filter(None, (options.out, options.plot)))}")
    return 0


def varied(text: str) -> tuple[str, list[float]]:
    """Return the name of a parameter and its values, of "max_angle_deg=10:60:11" or "step=0.5,1".

    Raises InvalidParameterError when it is neither.
    """
    import numpy as np

    name, _, rest = text.partition("=")
    by_flag = {spec.flag.removeprefix("--"): spec.name for spec in parameter_specs()}
    name = by_flag.get(name.removeprefix("--"), name)
    try:
        if ":" in rest:
            *ends, n = rest.split(":")
            low, high = (float(end) for end in ends)
            if math.isinf(high - low):
                raise ValueError(rest)
            return name, np.linspace(low, high, int(n)).tolist()
        return name, [float(value) for value in rest.split(",")]
    except ValueError:
        raise InvalidParameterError(
            f"--vary {text} says no values; give NAME=FROM:TO:N, such as max_angle_deg=10:60:11, "
            "or NAME=A,B,C."
        ) from None
