"""What regions are for: the names alone, for help texts and checks. Needs nothing."""

from __future__ import annotations

ROLES = ("seed", "include", "exclude", "stop", "end", "resect")
ROLE_HELP = {
    "seed": "Streamlines start here.",
    "include": "Streamlines must pass here; by the rule, through all, any, or all in order.",
    "exclude": "Streamlines that enter are discarded.",
    "stop": "Streamlines that enter stop there.",
    "end": "Streamlines that enter stop there, and those of which a tracked end lies elsewhere are "
    "discarded.",
    "resect": "A cavity: says which streamlines would be lost, and changes none. Research only.",
}
INCLUDE_RULES = ("all", "any", "ordered")
