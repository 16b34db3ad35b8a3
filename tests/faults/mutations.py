"""Ways to damage a file: bytes, numbers of its header, values of its JSON."""

from __future__ import annotations

import copy
import gzip
import io
import json
import re
import warnings
import zipfile
from typing import Any

from hypothesis import strategies as st

# What people, other programs and broken discs write where a number or a name should be.
WORDS = [
    b"", b"-1", b"0", b"nan", b"-inf", b"inf", b"1e308", b"2147483648", b"-9223372036854775809",
    b"1" * 5000, b"9" * 30, b"\xff\xfe\x00", b"x" * 5000, b"../../" * 900, b"\n\n", b",,,", b"1,2",
    b"3.5", b"a\0b", b"END", b"True", b"1099511627776",
]  # fmt: skip
NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
HEADER_BYTES = 1000  # in which numbers are replaced: what follows are data


def deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES = [
    None, -1, 0, 1, 2**31, 2**63, 10**400, 0.5, 1e308, -1e308, float("inf"), float("nan"), "nan",
    "", "x" * 5000, "../../" * 900, "a\0b", "\ud800", True, [], {}, [1], [[1]], {"a": 1}, deep(900),
    [float("inf")] * 3, [1e308] * 3, [10**30] * 3, "bits:eJxjYAAAAAEAAQ==", "0-999999999999999",
    "9-1", "/", "fod.nii", "study.tracts.json", "recipe.json",
]  # fmt: skip

share = st.floats(0, 1, exclude_max=True)
bytes_changed = st.tuples(st.just("byte"), share, st.integers(0, 255))
cut = st.tuples(st.just("cut"), share, st.just(0))
doubled = st.tuples(st.just("doubled"), share, st.integers(1, 4000))
inserted = st.tuples(st.just("inserted"), share, st.sampled_from(WORDS))
number = st.tuples(st.just("number"), share, st.sampled_from(WORDS))
header_changed = st.tuples(st.just("header"), st.floats(0, 0.99), st.binary(min_size=1, max_size=8))
# Damage of bytes; several on one file.
of_bytes = st.lists(
    st.one_of(bytes_changed, cut, doubled, inserted, number, header_changed), min_size=1, max_size=4
)
# Values of JSON: the place as a share of all places, and what is put there; or left out.
of_json = st.lists(st.tuples(share, st.sampled_from([*VALUES, "LEFT OUT"])), min_size=1, max_size=3)

# Which member of an archive, and damage of its bytes, of its JSON, or another name.
NAMES = [
    "../out", "/", "x" * 300, "header.json", "positions.2.float32", "positions.3.float64",
    "positions.3.object", "positions.3.int8", "offsets.uint8", "offsets.float32", "offsets.object",
    "offsets.nothing", "dps/a.uint64", "dps/a.9.float32", "dps/a.object", "dpv/a.float32", "dpv/",
    "groups/a.uint32",
]  # fmt: skip
of_archives = st.tuples(share, st.one_of(of_bytes, of_json, st.sampled_from(NAMES)))


def damaged(raw: bytes, damage: list[tuple[str, float, Any]]) -> bytes:
    """Return bytes with some damage."""
    for kind, where, what in damage:
        at = int(where * len(raw))
        if kind == "byte" and raw:
            raw = raw[:at] + bytes([what]) + raw[at + 1 :]
        elif kind == "cut":
            raw = raw[:at]
        elif kind == "doubled":
            raw = raw[:at] + raw[at : at + what] + raw[at:]
        elif kind == "inserted":
            raw = raw[:at] + what + raw[at:]
        elif kind == "header" and raw:
            at = int(where * min(len(raw), HEADER_BYTES))
            raw = raw[:at] + what + raw[at + len(what) :]
        elif found := list(NUMBER.finditer(raw, 0, HEADER_BYTES)):
            chosen = found[int(where * len(found))]
            raw = raw[: chosen.start()] + what + raw[chosen.end() :]
    return raw


def damaged_inside(raw: bytes, damage: list[tuple[str, float, Any]]) -> bytes:
    """Return a gzip file whose content has some damage."""
    return gzip.compress(damaged(gzip.decompress(raw), damage), 1)


def damaged_archive(raw: bytes, damage: tuple[float, Any]) -> bytes:
    """Return a zip archive with one member damaged, and with checksums that fit."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    where, what = damage
    at = int(where * len(members))
    if isinstance(what, str):
        members[at] = what, members[at][1]
    elif len(what[0]) == 3:
        members[at] = members[at][0], damaged(members[at][1], what)
    else:
        at = next(k for k, (name, _) in enumerate(members) if name.endswith(".json"))
        members[at] = members[at][0], damaged_json(members[at][1].decode(), what).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def damaged_json(text: str, damage: list[tuple[float, Any]]) -> str:
    """Return JSON with other values at some places."""
    content = json.loads(text)
    for where, value in damage:
        places = list(_places(content))
        if not places:
            break
        holder, key = places[int(where * len(places))]
        if value == "LEFT OUT":
            del holder[key]
        else:
            holder[key] = copy.deepcopy(value)
    return json.dumps(content)


def _places(value: Any) -> Any:
    """Yield (list or dict, key) of every value within a value, but for what is put there deep."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list) and not (len(value) == 1 and isinstance(value[0], list)):
        pairs = enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)
