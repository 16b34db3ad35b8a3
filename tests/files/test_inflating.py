"""Reading gzip in large pieces, against the standard library's own compressor."""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np
import pytest

from napari_tractography.files.inflating import GzipStream

CONTENT = np.random.default_rng(0).integers(0, 9, 3_000_000).astype(np.uint8).tobytes()
CONTENT += bytes(9_000_000)  # zeros, as around a brain: a little input gives much output


def read_all(raw, size):
    stream, parts = GzipStream(io.BytesIO(raw)), []
    while part := stream.read(size):
        assert len(part) <= size
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [1 << 16, 1 << 22, 1 << 25])
def test_the_content_is_what_was_compressed(size):
    assert read_all(gzip.compress(CONTENT, 1), size) == CONTENT


def test_members_follow_each_other_and_zeros_are_padding():
    members = [gzip.compress(part) for part in (b"one", b"", b"two")]
    for padding in (b"", bytes(7), bytes(3 << 20)):
        assert read_all(padding.join(members) + padding, 100) == b"onetwo"


def test_a_buffer_is_filled_from_its_beginning():
    buffer = bytearray(b"xxxxxxxx")
    stream = GzipStream(io.BytesIO(gzip.compress(b"abc")))
    assert stream.readinto(memoryview(buffer)) == 3
    assert buffer == b"abcxxxxx"
    assert stream.readinto(memoryview(buffer)) == 0


def test_a_file_that_is_cut_or_corrupt_is_refused():
    raw = gzip.compress(CONTENT[:5000])
    for kept in (0, 5, 100, len(raw) - 9, len(raw) - 1):
        with pytest.raises(EOFError):
            read_all(raw[:kept], 1 << 20)
    wrong_checksum = raw[:-8] + bytes([raw[-8] ^ 1]) + raw[-7:]
    with pytest.raises(zlib.error):
        read_all(wrong_checksum, 1 << 20)
    with pytest.raises(zlib.error):
        read_all(b"no gzip at all, but text", 1 << 20)
