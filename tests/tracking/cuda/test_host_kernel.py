"""The CUDA source, compiled for the host, gives the Numba backend's streamlines bit for bit.

What differs on a GPU is only the machine code; that it compiles for one is tested beside this.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from covering import covering_params
from host import HostDevice, compile_for_host, pointer, track_on_host
from plans import plan_of
from toys import SKEWED, arc_fod, bundles_that_cross, random_fod, straight_fod

from napari_tractography.fields.sh import MAX_LMAX
from napari_tractography.files.fods import load_fod
from napari_tractography.model.algorithms import ALGORITHMS, BY_NAME
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.roles import INCLUDE_RULES
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.scheduler import OutOfDeviceMemoryError
from napari_tractography.tracking.tables.cone_quadrature import cone_quadrature, turning


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def fod():
    return random_fod(6, shape=(7, 6, 5), affine=SKEWED, seed=21)


@pytest.fixture(scope="module")
def seeds(fod):
    """Some lie outside the volume, where they are rejected."""
    inside = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 400)
    around = Seeds.in_sphere(fod.grid.centre_mm, 12.0, 100)
    rng = np.random.default_rng(0)
    both = np.concatenate([inside.positions_mm, around.positions_mm])
    return Seeds.at(both, rng.normal(size=both.shape))


def short(**changes):
    return TrackingParameters(step_mm=0.4, max_length_mm=30.0).replace(**changes)


def on_cpu(plan, first_stream=0):
    """The streamlines of a plan whose seed 0 has streamline id `first_stream`."""
    cancelled, buffers = np.zeros(1, np.uint8), cpu.ThreadBuffers()
    return cpu.track_range(plan, 0, plan.n_seeds, cancelled, buffers, first_stream)[0]


def assert_same(one: Tractogram, other: Tractogram) -> None:
    assert one.tally == other.tally
    np.testing.assert_array_equal(one.seed_index, other.seed_index)
    np.testing.assert_array_equal(one.stop_reasons, other.stop_reasons)
    np.testing.assert_array_equal(one.lengths_mm, other.lengths_mm)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    np.testing.assert_array_equal(one.points.view(np.int32), other.points.view(np.int32))
    assert one.digest() == other.digest()
    assert one.n_seeds == other.n_seeds


NAMES = [row.name for row in ALGORITHMS]
LANGEVIN_ALGORITHMS = ["diffusion", "transport"]
KERNELS = {
    f"{algorithm}, {interpolation}": {"algorithm": algorithm, "interpolation": interpolation}
    for algorithm in NAMES
    for interpolation in ("nearest", "trilinear")
}
# Each option beside each other one, and with each kernel.
OPTIONS = {
    "kernel": KERNELS,
    "start": {
        "": {},
        "from the largest": {"start": "max"},
        "from given directions": {"start": "given"},
    },
    "direction": {
        "": {},
        "forward": {"direction": "forward"},
        "backward": {"direction": "backward"},
    },
    "output": {
        "": {},
        "endpoints": {"output": "endpoints"},
        "every seventh point": {"record_every": 7},
        "ends and seed": {"record_every": 1000},
    },
    "lengths": {
        "": {},
        "long": {"min_length_mm": 8.0},
        "lengths": {"min_length_mm": 5.0, "max_length_mm": 9.0},
    },
    "thresholds": {
        "": {},
        "no thresholds": {"min_amplitude": 0.0, "min_probability": 0.0},
        "strict thresholds": {"min_amplitude": 0.3, "min_probability": 0.15},
    },
    "cone": {"": {}, "narrow cone": {"max_angle_deg": 8.0}, "wide cone": {"max_angle_deg": 90.0}},
    "edge": {"": {}, "interpolated edge": {"edge": "interpolated"}},
    "positivity": {"": {}, "softplus": {"positivity": "softplus"}},
    "seed": {"": {}, "large seed": {"random_seed": 2**62 + 3}},
    "look": {
        "": {},
        "ahead": {"look_ahead_mm": 1.5},
        "lobe": {"lobe_deg": 10.0},
        "lobe and ahead": {"look_ahead_mm": 1.5, "lobe_deg": 5.0},
        "round": {"lobe_deg": 10.0, "min_roundness": 0.8},
        "round and ahead": {"look_ahead_mm": 1.5, "lobe_deg": 5.0, "min_roundness": 0.95},
    },
}
CASES = [
    pytest.param(
        {name: value for each in param.values for name, value in each.items()}, id=param.id
    )
    for param in covering_params(OPTIONS)
]


@pytest.mark.parametrize("changes", CASES)
def test_bits_agree(library, fod, seeds, changes):
    plan = plan_of(fod, seeds, short(**changes))
    wanted = on_cpu(plan)
    assert_same(track_on_host(library, plan), wanted)
    assert len(wanted.tally) > 1


def test_a_pool_that_is_full_is_told_of(library, fod, seeds):
    """What is asked for is counted on, so that the host knows how many blocks would do."""
    plan = plan_of(fod, seeds, short())
    device = HostDevice(library, plan)
    device.count(0, 0, plan.n_seeds)
    asked = int(device.slots[0]["totals"][2])
    few = HostDevice(library, plan, n_blocks=asked - 1)
    few.count(0, 0, plan.n_seeds)
    with pytest.raises(OutOfDeviceMemoryError):
        few.n_points(0)
    enough = HostDevice(library, plan, n_blocks=asked)
    enough.count(0, 0, plan.n_seeds)
    assert enough.n_points(0) == on_cpu(plan).n_points
    enough.write(0)
    assert enough.collect(0).digest() == on_cpu(plan).digest()


def test_directions_are_logged_where_steps_may_be_taken_back(fod, seeds):
    plan = plan_of(fod, seeds, short(step_mm=0.01))
    assert kernels.log_length(plan.settings, plan.regions.tissues) == 0


def test_these_comparisons_see_every_reason_that_a_field_alone_can_give(library, fod, seeds):
    seen: set[StopReason] = set()
    for case in CASES:
        seen |= set(track_on_host(library, plan_of(fod, seeds, short(**case.values[0]))).tally)
    assert {
        StopReason.LEFT_IMAGE,
        StopReason.LOW_AMPLITUDE,
        StopReason.LOW_PROBABILITY,
        StopReason.MAX_LENGTH,
        StopReason.NO_FOD,
        StopReason.SEED_OUTSIDE_IMAGE,
        StopReason.SEED_WITHOUT_FOD,
        StopReason.TOO_SHORT,
    } <= seen


@pytest.mark.parametrize("phantom", [straight_fod, arc_fod])
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("algorithm", NAMES)
def test_bits_agree_where_lines_are_long(library, phantom, algorithm, interpolation):
    fod = phantom(affine=SKEWED, lmax=6)
    mask = np.ones(fod.grid.shape)
    mask[-2:] = 0
    plan = plan_of(
        fod,
        Seeds.in_mask(fod.support, fod.grid, 60),
        short(algorithm=algorithm, interpolation=interpolation, max_length_mm=250.0),
        mask=mask,
    )
    wanted = on_cpu(plan)
    assert wanted.n_points > 1000
    assert StopReason.LEFT_MASK in wanted.tally
    assert_same(track_on_host(library, plan), wanted)


def ahead_only(current, units):
    return units @ current > 0.6


def both_ways(current, units):
    return np.abs(units @ current) > 0.8


def uneven(current, units):
    """The cones of antipodes are no antipodes."""
    return units @ current > 0.7 + 0.2 * current[2]


@pytest.mark.parametrize(
    ("cone", "threshold", "interpolation", "algorithm"),
    covering_params(
        {
            "cone": {each.__name__: each for each in (ahead_only, both_ways, uneven)},
            "threshold": {"": 0.0, "threshold": 0.02, "high threshold": 0.2},
            "interpolation": {each: each for each in ("nearest", "trilinear")},
            "algorithm": {each: each for each in NAMES},
        }
    ),
)
def test_bits_agree_with_cones_of_any_shape(
    library, fod, seeds, algorithm, interpolation, threshold, cone
):
    parameters = short(
        algorithm=algorithm,
        interpolation=interpolation,
        min_probability=threshold,
        n_directions=200,
    )
    plan = plan_of(fod, seeds, parameters, cone=cone)
    assert plan.field.allowed.size
    assert_same(track_on_host(library, plan), on_cpu(plan))


def regions_of(fod: Fod) -> dict[str, list[Region]]:
    low, high = fod.grid.bounds_mm()
    centre = (low + high) / 2
    left, right = (0.6 * centre + 0.4 * corner for corner in (low, high))
    shape = (9, 8, 7)
    affine = SKEWED @ np.diag([0.8, 0.8, 0.8, 1.0])
    slab = np.zeros(shape)
    slab[3:5] = 1
    return {
        "exclude": [Region.sphere(left, 1.5, "exclude"), Region.mask(slab, affine, "stop")],
        "stop and end": [
            Region.sphere(centre, 2.0, "stop"),
            Region.sphere(centre, 1.5, "end"),
            Region.sphere(left, 2.0, "end"),
        ],
        "end": [Region.mask(slab, affine, "end")],
        "include": [
            Region.sphere(left, 2.5, "include"),
            Region.mask(slab, affine, "include"),
            Region.sphere(right, 2.5, "include"),
        ],
        "overlapping": [
            Region.sphere(centre, 2.5, "include"),
            Region.sphere(centre, 1.5, "include"),
            Region.sphere(right, 4.0, "include"),
            Region.sphere(left, 1.0, "exclude"),
        ],
    }


REGIONS = {
    **{which: (which, "all") for which in ("exclude", "stop and end", "end")},
    **{
        f"{which}, {rule}": (which, rule)
        for which in ("include", "overlapping")
        for rule in INCLUDE_RULES
    },
}


@pytest.mark.parametrize(
    ("regions", "algorithm", "direction"),
    covering_params(
        {
            "regions": REGIONS,
            "algorithm": {each: each for each in NAMES},
            "direction": {each: each for each in ("both", "backward")},
        }
    ),
)
def test_bits_agree_among_regions(library, fod, seeds, regions, algorithm, direction):
    which, rule = regions
    plan = plan_of(
        fod,
        seeds,
        short(algorithm=algorithm, direction=direction, record_every=3),
        regions=regions_of(fod)[which],
        include_rule=rule,
    )
    wanted = on_cpu(plan)
    bare = on_cpu(plan_of(fod, seeds, short(algorithm=algorithm, direction=direction)))
    assert wanted.tally != bare.tally  # so that the regions matter
    assert_same(track_on_host(library, plan), wanted)


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_bits_agree_on_fibercup(library, shared_data, algorithm, interpolation):
    stored = load_fod(shared_data / "fibercup" / "fod.nii.gz")
    fod = Fod(np.asarray(stored.coefficients)[..., :28], stored.grid.affine)  # lmax 6
    plan = plan_of(
        fod,
        Seeds.from_fod(fod, 600),
        TrackingParameters(algorithm=algorithm, interpolation=interpolation, step_mm=0.25),
        mask=fod.support,
    )
    wanted = on_cpu(plan)
    assert wanted.n_points > 20_000
    assert_same(track_on_host(library, plan), wanted)


def test_a_kernel_compiled_for_one_algorithm_gives_the_same_bits(tmp_path, fod, seeds):
    defines = ("-DALGORITHM=DETERMINISTIC", "-DINTERPOLATION=NEAREST")
    special = compile_for_host(tmp_path, *defines)
    plan = plan_of(fod, seeds, short(algorithm="deterministic", interpolation="nearest"))
    other = plan_of(fod, seeds, short())
    assert_same(track_on_host(special, plan), on_cpu(plan))
    assert track_on_host(special, other).digest() == track_on_host(special, plan).digest()


@pytest.mark.parametrize(
    ("lmax", "algorithm", "interpolation"),
    [
        (8, "probabilistic", "trilinear"),
        (12, "probabilistic", "nearest"),
        # A minute of compiling, for the CPU and for the host.
        pytest.param(12, "deterministic", "nearest", marks=pytest.mark.slow),
    ],
)
def test_bits_agree_for_other_degrees(tmp_path, seeds, lmax, algorithm, interpolation):
    library = compile_for_host(tmp_path, f"-DLMAX={lmax}")
    fod = random_fod(lmax, shape=(7, 6, 5), affine=SKEWED, seed=22)
    plan = plan_of(fod, seeds, short(algorithm=algorithm, interpolation=interpolation))
    wanted = on_cpu(plan)
    assert len(wanted) > 50
    assert_same(track_on_host(library, plan), wanted)


@pytest.mark.parametrize("batch", [1, 7, 256, 257, 499])
def test_streamlines_depend_neither_on_batches_nor_on_the_number_of_threads(
    library, fod, seeds, batch
):
    plan = plan_of(fod, seeds, short())
    assert_same(track_on_host(library, plan, batch=batch), on_cpu(plan))
    assert_same(
        track_on_host(library, plan, batch=batch, first_stream=2**31),
        on_cpu(plan, first_stream=2**31),
    )


@pytest.mark.parametrize("batch", [7, 256, 500])
def test_random_numbers_are_those_of_the_streams_of_seeds(library, fod, batch):
    drawn = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 500, by="voxel")
    plan, listed = (plan_of(fod, s, short()) for s in (drawn, Seeds.at(drawn.positions_mm)))
    wanted = on_cpu(plan)
    assert len(wanted) > 50
    assert wanted.digest() != on_cpu(listed).digest()
    assert_same(track_on_host(library, plan, batch=batch), wanted)
    shifted = track_on_host(library, plan, batch=batch, first_stream=1000)
    assert shifted.digest() == wanted.digest()
    np.testing.assert_array_equal(shifted.seed_index, wanted.seed_index + 1000)


# ---------------------------------------------------------------------------- diffusion, transport

LANGEVIN = [
    pytest.param({}, id="plain"),
    pytest.param({"interpolation": "nearest"}, id="nearest"),
    pytest.param({"adaptive": True, "start": "max"}, id="adaptive"),
    pytest.param({"gamma": 0.5, "gamma_noise": 0.3, "record_every": 3}, id="less drift"),
    pytest.param({"edge": "interpolated", "positivity": "softplus"}, id="softplus"),
    pytest.param({"look_ahead_mm": 1.0}, id="look ahead"),
    pytest.param({"look_ahead_mm": 0.5, "positivity": "softplus"}, id="look ahead, softplus"),
    pytest.param({"min_probability": 0.2, "output": "endpoints"}, id="endpoints"),
    pytest.param({"direction": "backward", "start": "given"}, id="given, backward"),
    pytest.param({"gamma": 0.0}, id="no drift"),
    pytest.param({"gamma": 2.0, "max_angle_deg": 12.0, "min_amplitude": 0.0}, id="narrow cone"),
]
ADAPTIVE = [
    pytest.param({"interpolation": "nearest", "start": "max"}, id="nearest"),
    pytest.param({"look_ahead_mm": 1.0, "min_probability": 0.05}, id="look ahead"),
    pytest.param({"gamma": 20.0, "max_angle_deg": 12.0}, id="many parts"),
    pytest.param({"gamma": 0.0, "min_amplitude": 0.0}, id="no drift"),
    pytest.param({"positivity": "softplus", "look_ahead_mm": 0.5}, id="softplus"),
    pytest.param({"max_length_mm": 3.0, "record_every": 3}, id="short"),
    pytest.param({"min_length_mm": 1.0, "max_length_mm": 2.0, "start": "given"}, id="lengths"),
    pytest.param({"direction": "backward", "output": "endpoints"}, id="backward, endpoints"),
]


@pytest.mark.parametrize("changes", LANGEVIN)
@pytest.mark.parametrize("algorithm", LANGEVIN_ALGORITHMS)
def test_langevin_dynamics_are_the_cpus_bit_for_bit(library, fod, seeds, algorithm, changes):
    parameters = short(algorithm=algorithm, step_mm=0.2, **changes)
    plan = plan_of(fod, seeds, parameters)
    wanted, found = on_cpu(plan), track_on_host(library, plan)
    assert len(wanted) > 200
    assert found.digest() == wanted.digest()


@pytest.mark.parametrize("changes", ADAPTIVE)
@pytest.mark.parametrize("algorithm", LANGEVIN_ALGORITHMS)
def test_steps_by_the_slope_are_the_cpus_bit_for_bit(library, fod, seeds, algorithm, changes):
    parameters = short(algorithm=algorithm, step_mm=0.2, adaptive=True, **changes)
    plan = plan_of(fod, seeds, parameters)
    wanted = on_cpu(plan)
    assert len(wanted) > 200
    assert_same(track_on_host(library, plan), wanted)


# --------------------------------------------------------------------------------------- the parts


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("algorithm", ["probabilistic", "transport"])
def test_bits_agree_among_crossings(library, algorithm, interpolation):
    fod = bundles_that_cross(25.0, 6)
    parameters = TrackingParameters.for_fod(fod, algorithm=algorithm, interpolation=interpolation)
    assert parameters.min_roundness > 0
    plan = plan_of(fod, Seeds.in_sphere((0.0, 0.0, 0.0), 20.0, 200), parameters)
    wanted = on_cpu(plan)
    seen = plan.field.crossings
    among = (seen >= codes.AMONG_CROSSINGS) & (seen < codes.NOT_SEEN)
    assert 100 < among.sum() < 0.7 * len(seen)
    assert_same(track_on_host(library, plan), wanted)


def test_headers_have_the_constants_of_python_and_no_others():
    text = kernels.codes_header()
    numbers = dict(re.findall(r"^    (\w+) = (-?\d+),$", text, flags=re.MULTILINE))
    macros = dict(re.findall(r"^#define (\w+) (\S+)$", text, flags=re.MULTILINE))
    constants = kernels.constants()
    assert numbers.keys() | macros.keys() == constants.keys()
    assert len(constants) > 60
    for name, value in numbers.items():
        assert int(value) == constants[name]
    for name, value in macros.items():
        if value.startswith("0x"):
            assert int(value.removesuffix("u"), 16) == constants[name]
        else:
            assert type(constants[name])(value.removesuffix("f")) == constants[name]
            assert value.endswith("f") is isinstance(constants[name], np.float32)
    assert constants["LOW_AMPLITUDE"] == StopReason.LOW_AMPLITUDE
    assert constants["DIFFUSION"] == BY_NAME["diffusion"].code
    assert constants["SINE_0"] == codes.SINE[0]
    assert 2 ** constants["LEVELS"] == codes.POINTS_AT_ONCE
    assert kernels.batch_arrays(1, endpoints=False)["tally"][0] == (len(StopReason),)


def test_no_number_of_python_is_written_down_again_in_the_cuda_source():
    named = set(kernels.constants())
    for path in kernels.FOLDER.glob("*.[hc]*"):
        text = re.sub(r"//.*", "", path.read_text("utf-8"))
        defined = re.findall(r"#define ([A-Z]\w*)\b|^ *([A-Z]\w*) =", text, re.M)
        assert not named & {name for pair in defined for name in pair}, path
        # What has a default, which the compiler may be told otherwise, is the kernels' own.
        text = re.sub(r"#ifndef (\w+)\n#define \1 \d+\n#endif", "", text)
        assert not re.search(
            r"#define [A-Z]\w* (?!0x)[\d.]|^ *[A-Z]\w* = \d|D2511F53|65535\.", text, re.M
        ), path


@pytest.mark.parametrize("lmax", range(2, MAX_LMAX + 1, 2))
def test_numbers_that_turn_an_fod_are_in_the_source(lmax):
    block = re.search(rf"#if LMAX == {lmax}\n(.*?)#endif", kernels.source(), re.S)[1]
    found = dict(re.findall(r"(\w+)\[\] = \{(.*?)\}", block))
    wanted = {"TURNING": turning(lmax), "AXIS": cone_quadrature(20.0, lmax).axis.ravel()}
    assert found.keys() == wanted.keys()
    for name, text in found.items():
        numbers = [np.float32(number.removesuffix("f")) for number in text.split(", ")]
        np.testing.assert_array_equal(numbers, wanted[name])


@pytest.mark.parametrize("lmax", range(2, MAX_LMAX + 1, 2))
def test_there_is_room_for_the_points_of_the_widest_cone(lmax):
    room = re.search(r"MOST_POINTS = (\d) \* LMAX \* LMAX / (\d) \+ (\d),", kernels.source())
    times, parts, more = map(int, room.groups())
    n_points = cone_quadrature(90.0, lmax).points.shape[1]
    assert n_points <= times * lmax * lmax // parts + more <= n_points + 8


def test_each_header_is_put_into_a_source_once_and_none_is_left_to_include():
    text = kernels.source()
    assert "#include" not in text
    assert "#pragma once" not in text
    assert text.count("\nenum {\n") == text.count("struct Field {") == 1
    assert text.count("DEVICE Words philox_block(") == 1


def test_structures_lie_in_memory_as_the_compiler_lays_them(library):
    sizes = np.zeros(5, np.int32)
    library.size_of_structures(pointer(sizes))
    names = ("Field", "Settings", "Regions", "Batch")
    assert sizes.tolist()[:4] == [kernels.layout(name).itemsize for name in names]
    rows = kernels.layout_in("Rows", kernels.source(cuda_tables.SOURCE))
    assert sizes[4] == rows.itemsize
    assert set(kernels.layout("Settings").names) == set(codes.Settings._fields)
    assert set(kernels.TABLES) <= set(kernels.layout("Field").names)
    assert set(kernels.TABLES) <= set(codes.Field._fields)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        pytest.param((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8", id="zeros"),
        pytest.param(
            (2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd", id="ones"
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(library, counter, key, answer):
    words = np.zeros(4, np.uint32)
    arrays = [np.array(numbers, np.uint32) for numbers in (counter, key)]
    library.philox(*(pointer(array) for array in arrays), pointer(words))
    assert " ".join(f"{word:08x}" for word in words) == answer
