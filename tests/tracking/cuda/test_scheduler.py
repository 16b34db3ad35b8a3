"""The scheduler's decisions, on a fake device that runs out of memory on cue."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_tractography.errors import BackendError
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.cuda import scheduler
from napari_tractography.tracking.cuda.scheduler import (
    AT_ONCE,
    LAST_BATCH,
    MAX_POINTS,
    PLENTY,
    POINT_BYTES,
    SLOTS,
    OutOfDeviceMemoryError,
    SeedRanges,
    Sizing,
    run_device,
    run_devices,
)

SEEDS = 10  # of a batch


class FakeDevice:
    """Every seed gives a line of `length` points, whose coordinates are its number.

    `memory` is what the batches of all slots may hold, in bytes; a seed takes 10.
    """

    n_threads = 0

    def __init__(self, name="fake", length=5, memory=10**9, pause=0.0, fails_at=None):
        self.name, self.length, self.memory, self.pause = name, length, memory, pause
        self.fails_at = fails_at
        self.used = [0] * SLOTS
        self.ranges = [None] * SLOTS
        self.results = [None] * SLOTS
        self.parts = {}  # of the device that a batch was tracked on, by its seeds
        self.log = []

    def take(self, slot, n_bytes):
        if sum(self.used) + n_bytes > self.memory:
            raise OutOfDeviceMemoryError(f"{n_bytes} bytes")
        self.used[slot] += n_bytes

    def count(self, slot, first, last, parts=1):
        self.log.append(("count", slot, first, last))
        self.parts[first, last] = parts
        if self.fails_at is not None and first <= self.fails_at < last:
            raise BackendError("the device is gone")
        self.used[slot] = 0  # the last batch's
        self.take(slot, 10 * (last - first))
        self.ranges[slot] = first, last

    def n_points(self, slot):
        first, last = self.ranges[slot]
        time.sleep(self.pause)
        return (last - first) * self.length

    def count_seconds(self, slot):
        return self.pause

    def write(self, slot):
        assert self.results[slot] is None, "a batch was overwritten before it was collected"
        first, last = self.ranges[slot]
        self.log.append(("write", slot, first, last))
        self.take(slot, POINT_BYTES * (last - first) * self.length)
        lines = [np.full((self.length, 3), seed) for seed in range(first, last)]
        whole = Tractogram.from_streamlines(lines)
        self.results[slot] = Tractogram(
            whole.points, whole.offsets, seed_index=np.arange(first, last), n_seeds=last - first
        )

    def collect(self, slot):
        self.log.append(("collect", slot))
        result, self.results[slot] = self.results[slot], None
        return result

    def release(self):
        assert self.results == [None] * SLOTS, "a batch was thrown away"
        self.log.append(("release",))
        self.used = [0] * SLOTS


def everything(chunks):
    whole = Tractogram.concatenate(list(chunks))
    np.testing.assert_array_equal(whole.points[::5, 0], whole.seed_index)
    return whole.seed_index.tolist()


def plain(budget=10**9, n=16, largest=10**6):
    return Sizing(budget, 10, n_seeds=n, largest=largest)


def test_some_batches_are_tracked_at_once_while_others_wait_and_one_travels():
    device = FakeDevice()
    n = SLOTS + 2
    sizing = plain(n=SEEDS, largest=SEEDS)
    assert everything(run_devices([device], n * SEEDS, [sizing])) == list(range(n * SEEDS))
    log = [(*entry[:2], device.parts.get(entry[2:])) for entry in device.log]
    assert log == [
        ("count", 0, 1),
        ("write", 0, 1),
        *(("count", slot, AT_ONCE) for slot in range(1, SLOTS)),
        ("collect", 0, None),  # the first streamlines are shown at once
        ("write", 1, AT_ONCE),
        ("count", 0, AT_ONCE),
        ("write", 2, AT_ONCE),
        ("count", 1, AT_ONCE),  # queued before the slot's last batch is collected,
        ("collect", 1, None),
        ("write", 3, AT_ONCE),  # but not overwriting what that has on its way
        *(
            step
            for slot in range(2, SLOTS)
            for step in (("collect", slot, None), ("write", (slot + 2) % SLOTS, AT_ONCE))
        ),
        ("collect", 0, None),
        ("collect", 1, None),
    ]


class SimulatedDevice:
    """Says how long a run takes on a device, a link and a host that do one thing at a time.

    A batch's first pass lasts `tail` longer than it fills the device: that long its last
    streamlines leave room for what is queued in another slot. Times vary by `spread`.
    """

    name = "simulated"
    n_threads = 0

    def __init__(self, *, tracking, writing, copying, tail=0.0, host=0.0, spread=0.0):
        self.tracking, self.writing, self.copying = tracking, writing, copying
        self.tail, self.host = tail, host
        self.random = np.random.default_rng(3)
        self.spread = spread
        self.now = self.device_free = self.link_free = 0.0
        self.busy = {"device": 0.0, "link": 0.0, "host": 0.0}
        self.slot_free, self.counted, self.arrived = ([0.0] * SLOTS for _ in range(3))

    def take(self, what, seconds):
        seconds *= 1 + self.spread * self.random.uniform(-1, 1)
        self.busy[what] += seconds
        return seconds

    def count(self, slot, first, last, parts=1):
        begun = max(self.now, self.slot_free[slot], self.device_free)
        self.device_free = begun + self.take("device", self.tracking)
        self.slot_free[slot] = self.counted[slot] = self.device_free + self.tail

    def n_points(self, slot):
        self.now = max(self.now, self.counted[slot])
        return 1

    def count_seconds(self, slot):
        return self.tracking

    def write(self, slot):
        begun = max(self.now, self.slot_free[slot], self.device_free)
        self.device_free = begun + self.take("device", self.writing)
        self.link_free = max(self.device_free, self.link_free) + self.take("link", self.copying)
        self.slot_free[slot] = self.arrived[slot] = self.link_free

    def collect(self, slot):
        self.now = max(self.now, self.arrived[slot])

    def release(self):
        raise AssertionError("nothing was lacking")

    def run(self, n_batches):
        """Return the time when each batch was handed over; the caller takes `host` for it."""
        times = []
        for _ in run_devices([self], n_batches, [plain(n=1, largest=1)]):
            times.append(self.now)
            self.now += self.take("host", self.host)
        return times


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize(
    ("busiest", "seconds"),
    [
        ("device", {"tracking": 9, "writing": 1, "copying": 9, "host": 8}),
        ("device", {"tracking": 9, "writing": 1, "copying": 5, "host": 3, "tail": 8}),
        ("link", {"tracking": 5, "writing": 1, "copying": 10, "host": 6}),
        ("link", {"tracking": 5, "writing": 1, "copying": 10, "host": 8, "tail": 3}),
        ("host", {"tracking": 5, "writing": 1, "copying": 6, "host": 10, "tail": 2}),
    ],
)
def test_what_takes_longest_is_never_waiting(busiest, seconds, spread):
    device = SimulatedDevice(**seconds, spread=spread)
    device.run(300)
    assert device.busy[busiest] >= 0.9 * device.now


def test_the_first_streamlines_wait_for_no_other_batch():
    device = SimulatedDevice(tracking=9, writing=1, copying=2, tail=1)
    assert device.run(50)[0] == 9 + 1 + 1 + 2


@given(
    n_seeds=st.integers(1, 400),
    first=st.integers(1, 64),
    largest=st.integers(1, 64),
    memory=st.integers(70, 20_000),
)
def test_no_seed_is_lost_doubled_or_out_of_order_whatever_the_memory(
    n_seeds, first, largest, memory
):
    device = FakeDevice(memory=memory)
    sizing = plain(n=first, largest=largest)
    assert everything(run_devices([device], n_seeds, [sizing])) == list(range(n_seeds))


def test_lack_of_memory_halves_the_batch_and_goes_on():
    device = FakeDevice(memory=70 * 20)
    sizing = plain(n=64, largest=64)
    assert everything(run_devices([device], 200, [sizing])) == list(range(200))
    assert sizing.largest < 20  # and what failed is not tried again
    written = [last - first for kind, _, first, last in (e for e in device.log if e[0] == "write")]
    assert max(written[2:]) <= 16
    assert device.log.count(("release",)) >= 2


def test_a_seed_that_does_not_fit_ends_the_run_in_one_sentence():
    device = FakeDevice(memory=69)
    with pytest.raises(BackendError, match=r"fake has too little memory: even 1 seeds .*60 bytes"):
        list(run_devices([device], 50, [plain()]))
    assert sum(device.used) <= 69


def test_halving_has_an_end():
    device = FakeDevice(memory=69)
    with pytest.raises(BackendError, match="raise memory_limit"):
        list(run_devices([device], 10**7, [Sizing(10**12, 10, n_seeds=10**6, largest=10**6)]))
    counted = [e for e in device.log if e[0] == "count"]
    assert len(counted) == scheduler.MAX_HALVINGS + 1


def test_what_was_tracked_before_memory_ran_out_is_not_lost():
    class Shrinking(FakeDevice):
        def count(self, slot, first, last, parts=1):
            if first >= 400:
                self.memory = 69
            super().count(slot, first, last, parts)

    seen = []

    def take_all():
        for chunk in run_devices([Shrinking()], 800, [plain(n=20, largest=20)]):
            seen.extend(chunk.seed_index.tolist())

    with pytest.raises(BackendError):
        take_all()
    # Others were counted, but there is no room for their points.
    assert seen == list(range(20 * (400 // 20 - SLOTS + 2)))


def test_batches_keep_to_the_budget():
    device = FakeDevice()
    sizing = Sizing(budget=7000, seed_bytes=10, n_seeds=1000)  # 70 bytes a seed with its points
    assert sizing.n_seeds == 700
    assert everything(run_devices([device], 1000, [sizing])) == list(range(1000))
    written = [last - first for kind, _, first, last in (e for e in device.log if e[0] == "write")]
    assert max(written) <= 100


def test_sizes_follow_speed_and_memory():
    sizing = Sizing(budget=10**9, seed_bytes=10, n_seeds=1000)
    sizing.learn(1000, 5000, seconds=0.001)
    assert sizing.n_seeds == 8000  # grows by eight at most
    sizing.learn(1000, 5000, seconds=0.1)
    assert sizing.n_seeds == 500
    sizing.learn(10**6, 10**6, seconds=0.01)
    assert sizing.n_seeds == scheduler.MAX_BATCH
    small = Sizing(budget=10**6, seed_bytes=10, n_seeds=1000)
    small.learn(1000, 100_000, seconds=0.001)
    assert small.need(small.n_seeds, 100 * small.n_seeds) < 10**6
    assert not small.fits(1000, 100_000)
    assert small.fits(1, 10**9)  # there is nothing smaller to try


def test_a_batch_fills_the_device_several_times_as_far_as_memory_goes():
    def points_of_next(n_threads, each, **bounds):
        sizing = Sizing(budget=10**11, seed_bytes=10, **bounds)
        sizing.learn(10**5, each * 10**5, seconds=0.01, n_threads=n_threads)
        assert sizing.fits(sizing.n_seeds, each * sizing.n_seeds)
        return each * sizing.n_seeds

    assert 0.6 * PLENTY < points_of_next(10**3, 567) < PLENTY  # few threads: soon filled
    assert points_of_next(15_000, 300) == scheduler.FILLS * 15_000 * 300
    assert 0.6 * MAX_POINTS < points_of_next(10**6, 567) < MAX_POINTS
    assert points_of_next(50_000, 567, max_points=10**7) < 10**7


def test_closing_cancels_and_collects_nothing_more():
    device = FakeDevice()
    chunks = run_devices([device], 1000, [plain(n=10, largest=10)])
    next(chunks)
    n = len(device.log)
    chunks.close()
    assert len(device.log) == n


# ------------------------------------------------------------------------------------ many devices


@pytest.mark.parametrize("pauses", [(0.0, 0.0), (0.002, 0.0), (0.0, 0.001, 0.003)])
def test_devices_share_the_seeds_and_chunks_come_in_seed_order(pauses):
    devices = [FakeDevice(f"device {n}", pause=pause) for n, pause in enumerate(pauses)]
    sizings = [plain(n=10, largest=10) for _ in devices]
    assert everything(run_devices(devices, 503, sizings)) == list(range(503))
    ranges = sorted(e[2:] for device in devices for e in device.log if e[0] == "write")
    assert [first for first, _ in ranges] == list(range(0, 503, 10))


def test_a_faster_device_does_more():
    slow, fast = FakeDevice(pause=0.02), FakeDevice(pause=0.0)
    everything(run_devices([slow, fast], 400, [plain(n=10, largest=10) for _ in range(2)]))
    done = [sum(e[0] == "write" for e in device.log) for device in (slow, fast)]
    assert done[1] > done[0] > 0


def test_memory_may_run_out_on_one_device_of_several():
    devices = [FakeDevice(memory=70 * 3), FakeDevice()]
    sizings = [plain(n=32, largest=32) for _ in devices]
    assert everything(run_devices(devices, 500, sizings)) == list(range(500))


def test_a_failure_of_one_device_reaches_the_caller_and_stops_the_others():
    devices = [FakeDevice(), FakeDevice(fails_at=200)]
    devices[0].fails_at = 200  # whoever comes to that seed
    with pytest.raises(BackendError, match="the device is gone"):
        everything(run_devices(devices, 10**6, [plain(n=10, largest=10) for _ in devices]))
    assert not [t for t in threading.enumerate() if t.name.startswith("tractography-cuda")]


def test_a_slow_taker_does_not_fill_memory_with_what_others_tracked():
    devices = [FakeDevice(), FakeDevice()]
    chunks = run_devices(devices, 10**4, [plain(n=10, largest=10) for _ in devices])
    next(chunks)
    limit = 2 * (scheduler.AHEAD + 1)
    for _ in range(50):
        time.sleep(0.002)
        assert sum(e[0] == "count" for device in devices for e in device.log) <= limit
    chunks.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("tractography-cuda")]


def test_ranges_are_handed_out_once_from_any_thread():
    ranges = SeedRanges(10_000)
    taken = []

    def work():
        for seeds in iter(lambda: ranges.take(7), None):
            taken.append(seeds)  # noqa: PERF402

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*(range(*seeds) for seeds in taken))) == list(range(10_000))


@pytest.mark.parametrize("n_devices", [1, 3])
def test_the_last_ranges_are_smaller_so_that_all_parts_end_together(n_devices):
    n_seeds = 10**6
    ranges = SeedRanges(n_seeds, n_devices)
    sizes = [last - first for first, last in iter(lambda: ranges.take(100_000), None)]
    assert sum(sizes) == n_seeds
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == min(100_000, -(-n_seeds // (AT_ONCE * n_devices)))
    assert set(sizes[-AT_ONCE:-1]) == {LAST_BATCH}
    left = n_seeds - np.cumsum([0, *sizes[:-1]])
    assert np.all(sizes <= np.maximum(LAST_BATCH, -(-left // AT_ONCE)))


def test_a_device_goes_through_its_ranges_in_order():
    ranges = SeedRanges(100)
    found = [seeds for seeds, _ in run_device(FakeDevice(), ranges.take, plain(n=30, largest=30))]
    assert found == [(0, 30), (30, 60), (60, 90), (90, 100)]
