"""Memory that is used again: never while anything still looks at it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from napari_tractography.runtime import buffers
from napari_tractography.runtime.buffers import (
    POINT,
    SMALLEST,
    BufferPool,
    bytes_to_keep,
    copy_rows,
)

LARGE = SMALLEST // POINT + 1  # points


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("n", [0, 1, LARGE - 2, LARGE, LARGE + 1, 3 * LARGE])
def test_points_are_an_ordinary_array(n):
    points = BufferPool().points(n)
    assert (points.shape, points.dtype) == ((n, 3), np.float32)
    assert points.flags.c_contiguous
    points[:] = np.arange(3)
    np.testing.assert_array_equal(points.sum(axis=0), [0, n, 2 * n])


def test_what_was_let_go_is_used_again():
    pool = BufferPool()
    first = pool.points(2 * LARGE)
    place = address(first)
    assert pool.n_bytes == 0
    del first
    assert pool.n_bytes >= LARGE * POINT
    again = pool.points(2 * LARGE - 100)
    assert address(again) == place
    assert pool.n_bytes == 0
    assert again.shape == (2 * LARGE - 100, 3)


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda points: points[5:7], id="a slice"),
        pytest.param(lambda points: points[5:][::2].T[1:], id="a view of a view"),
        pytest.param(lambda points: memoryview(points[3:]), id="a buffer"),
        pytest.param(lambda points: np.frombuffer(points, np.uint8), id="other bytes"),
        pytest.param(lambda points: iter(points), id="an iterator"),
    ],
)
def test_memory_is_not_used_again_while_something_looks_at_it(look):
    pool = BufferPool()
    points = pool.points(LARGE)
    place = address(points)
    seen = look(points)
    del points
    gc.collect()
    assert pool.n_bytes == 0
    assert address(pool.points(LARGE)) != place
    del seen
    gc.collect()
    assert pool.n_bytes > 0


def test_no_more_waits_than_is_said():
    pool = BufferPool(limit=int(2.6 * LARGE * POINT))
    arrays = [pool.points(LARGE) for _ in range(4)]
    arrays.clear()
    assert LARGE * POINT <= pool.n_bytes <= 2.6 * LARGE * POINT
    nothing = BufferPool(limit=0)
    nothing.points(LARGE)
    assert nothing.n_bytes == 0


def test_those_that_waited_longest_make_room():
    pool = BufferPool(limit=int(6.5 * LARGE * POINT))
    arrays = [pool.points(n * LARGE) for n in (1, 2, 4)]
    place = address(arrays[2])
    while arrays:
        arrays.pop(0)
    assert pool.n_bytes >= 4 * LARGE * POINT
    pool.points(9 * LARGE)  # more than may wait: gone at once, and takes nothing with it
    assert address(pool.points(4 * LARGE)) == place


def test_a_block_is_not_wasted_on_a_few_points():
    pool = BufferPool()
    pool.points(40 * LARGE)
    waiting = pool.n_bytes
    small = pool.points(LARGE)
    assert pool.n_bytes == waiting
    assert len(small) == LARGE


def test_the_smallest_that_fits_is_taken():
    pool = BufferPool()
    blocks = [pool.points(n * LARGE) for n in (12, 10, 11)]
    places = [address(block) for block in blocks]
    blocks.clear()
    del blocks
    assert address(pool.points(int(9.5 * LARGE))) == places[1]


def test_threads_never_share_a_block():
    pool = BufferPool()
    wrong = []

    def work(number: int) -> None:
        for _ in range(60):
            points = pool.points(LARGE)
            points[:] = number
            points[::1000] += 1
            if not (points[::1000] == number + 1).all() or not (points[1::1000] == number).all():
                wrong.append(number)
            del points

    threads = [threading.Thread(target=work, args=(10 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 0 < pool.n_bytes <= 4 * 1.25 * LARGE * POINT


def test_blocks_may_come_from_elsewhere_small_ones_too():
    blocks = []

    def allocate(n):
        blocks.append(np.full((n, 3), 7, np.float32))
        return blocks[-1]

    pool = BufferPool(allocate=allocate)
    for n in (0, 1, LARGE // 2, LARGE - 2):
        points = pool.points(n)
        assert points.shape == (n, 3)
        assert (points == 7).all()
        assert pool.lent_bytes == blocks[0].nbytes >= n * POINT
        del points
    assert len(blocks) == 1
    assert (pool.lent_bytes, pool.n_bytes) == (0, blocks[0].nbytes)
    held = [pool.points(n * LARGE) for n in (1, 3)]
    assert pool.lent_bytes == sum(block.nbytes for block in blocks)
    held.clear()
    assert pool.lent_bytes == 0


def test_an_allocator_that_fails_leaves_the_pool_as_it_was():
    def allocate(n):
        raise MemoryError

    pool = BufferPool(allocate=allocate)
    with pytest.raises(MemoryError):
        pool.points(5)
    assert (pool.lent_bytes, pool.n_bytes) == (0, 0)


@pytest.mark.parametrize("n", [0, 1, 10, buffers.LARGE // POINT + 5])
@pytest.mark.parametrize("n_cpus", [None, 1, 3, 16])
def test_every_row_is_copied_by_as_many_threads_as_there_are(monkeypatch, n, n_cpus):
    monkeypatch.setattr("os.cpu_count", lambda: n_cpus)
    source = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    target = np.full_like(source, -1)
    copy_rows(target, source)
    np.testing.assert_array_equal(target, source)


@pytest.fixture
def physical(monkeypatch):
    """The memory of the machine: 12 GiB; None for a system that does not say."""
    answers = {"SC_PHYS_PAGES": 3 << 20, "SC_PAGE_SIZE": 1 << 12}
    monkeypatch.setattr("os.sysconf", answers.__getitem__, raising=False)
    return answers


def test_a_tenth_of_the_memory_may_wait(physical, tmp_path, monkeypatch):
    assert bytes_to_keep(tmp_path) == (3 << 32) // 10
    monkeypatch.delattr("os.sysconf")
    assert bytes_to_keep(tmp_path) == 1 << 29


@pytest.mark.parametrize(
    ("n_bytes", "kept"),
    [
        pytest.param(4 << 30, 1 << 29, id="half a gigabyte at least"),
        pytest.param(1 << 30, 1 << 28, id="but a quarter at most"),
    ],
)
def test_little_memory_is_not_filled_with_what_waits(physical, tmp_path, n_bytes, kept):
    physical["SC_PHYS_PAGES"] = n_bytes >> 12
    assert bytes_to_keep(tmp_path) == kept


def system(root, groups, limits):
    """Make the files of a system: the groups of this process, and the limits by path."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for path, limit in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n")


TEN = 10 << 30
VERSION_1 = "12:cpu,cpuacct:/docker/a1\n4:memory:/docker/a1\n1:name=systemd:/docker/a1\n"


@pytest.mark.parametrize(
    ("groups", "limits", "whole"),
    [
        pytest.param("0::/\n", {"memory.max": TEN}, TEN, id="version 2, in a container"),
        pytest.param("0::/a/b\n", {"a/b/memory.max": TEN}, TEN, id="version 2, of its group"),
        pytest.param(
            "0::/a/b\n",
            {"a/b/memory.max": "max", "a/memory.max": TEN, "memory.max": 11 << 30},
            TEN,
            id="version 2, of a group around it",
        ),
        pytest.param(
            "0::/a\n", {"a/memory.max": TEN, "b/memory.max": 1 << 30}, TEN, id="another's is not"
        ),
        pytest.param("0::/a\n", {"a/memory.max": "max"}, 3 << 32, id="no limit"),
        pytest.param("0::/a\n", {"a/memory.max": 1 << 50}, 3 << 32, id="more than there is"),
        pytest.param(
            VERSION_1,
            {"memory/docker/a1/memory.limit_in_bytes": TEN},
            TEN,
            id="version 1, of its group",
        ),
        pytest.param(
            VERSION_1, {"memory/memory.limit_in_bytes": TEN}, TEN, id="version 1, in a container"
        ),
        pytest.param(
            VERSION_1, {"memory/memory.limit_in_bytes": (1 << 63) - 4096}, 3 << 32, id="unlimited"
        ),
        pytest.param(VERSION_1, {"memory.max": TEN}, 3 << 32, id="of the other version"),
        pytest.param("nonsense\n", {"memory.max": "nonsense"}, 3 << 32, id="nonsense"),
    ],
)
def test_the_limit_of_a_container_counts(physical, tmp_path, groups, limits, whole):
    system(tmp_path, groups, limits)
    assert bytes_to_keep(tmp_path) == whole // 10
