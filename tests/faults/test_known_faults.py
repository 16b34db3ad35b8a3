"""What once went wrong: exceptions of other libraries, long sentences, memory without end."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile
import zlib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from corpus import (
    GRID,
    add_to_table,
    image_in,
    lines,
    load_by_blocks,
    load_mapped,
    load_project,
    load_recipe,
    mif,
    recipe,
    save_nifti,
    save_project,
    save_table,
    save_zarr,
    volume,
)
from guards import MACHINE_BYTES, outcome
from mutations import damaged_archive, deep

import napari_tractography as nt
from napari_tractography.errors import MOST_CHARACTERS, FileError, MissingPackageError
from napari_tractography.files.volume_files import load_mask, load_volume
from napari_tractography.files.weights import load_weights
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.numbers import BITS, MOST_NUMBERS, numbers_of
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.volume_sources import VolumeSource
from napari_tractography.streamlines.tractogram import load_tractogram
from napari_tractography.tracking.costs import PerformanceModel

VOX_OFFSET, DIM = 108, 40  # bytes in a NIfTI-1 header


@pytest.mark.parametrize("offset", [np.inf, -np.inf, np.nan, 1e30, -1.0])
def test_an_offset_that_is_none(tmp_path: Path, offset: float) -> None:
    path = tmp_path / "fod.nii"
    save_nifti(path)
    raw = path.read_bytes()
    path.write_bytes(raw[:VOX_OFFSET] + struct.pack("<f", offset) + raw[VOX_OFFSET + 4 :])
    assert "fod.nii" in outcome(nt.load_fod, path)


@pytest.mark.parametrize("ending", [".mif", ".mih"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"dim: 3,4", b"dim: " + b"1" * 5000 + b",4", id="size of 5,000 digits"),
        pytest.param(b"dim: 3,4", b"dim: 1" + b"0" * 400 + b",4", id="size of 400 digits"),
        pytest.param(b"dim: 3,4,2,6", b"dim: " + b",".join([b"2"] * 70), id="seventy axes"),
        pytest.param(b"layout: +0", b"layout: +" + b"1" * 5000, id="layout"),
        pytest.param(b"Float32LE", b"Float" + b"3" * 5000, id="datatype"),
        pytest.param(b"file: . 400", b"file: . " + b"4" * 5000, id="offset"),
        pytest.param(b"file: . 400", b"file: . 9" + b"0" * 30, id="offset beyond any file"),
        pytest.param(b"file: . 400", b"file: " + b"x" * 5000, id="name of 5,000 characters"),
        pytest.param(b"file: . 400", b"file: a\0b", id="name with NUL"),
        pytest.param(b"vox: 2,2", b"vox: " + b"2" * 5000 + b",2", id="voxel size"),
        pytest.param(b"scaling: 0,1", b"scaling: " + b"0" * 5000 + b"x,1", id="scaling"),
    ],
)
def test_numbers_and_names_of_a_mif_that_are_too_long(
    tmp_path: Path, ending: str, old: bytes, new: bytes
) -> None:
    path = tmp_path / f"fod{ending}"
    assert old in mif()
    path.write_bytes(mif().replace(old, new))
    assert "fod" in outcome(nt.load_fod, path)


def test_a_sentence_is_one_line_however_much_it_quotes() -> None:
    begin, end = "The file a.mif holds ", "; write it again with mrconvert."
    for quoted in ("x" * 5000, "a\nb\r\nc " * 900):
        text = str(FileError(begin + quoted + end))
        assert len(text) <= MOST_CHARACTERS
        assert text.startswith(begin)
        assert text.endswith(end)
        assert len(text.splitlines()) == 1
    assert str(FileError("short")) == "short"
    missing = MissingPackageError("x" * 5000)
    assert len(str(missing)) == MOST_CHARACTERS


def changed(path: Path, place: tuple[str | int, ...], value: object) -> Path:
    """Write a recipe with another value at a place."""
    recipe().save(path)
    content = json.loads(path.read_text("utf-8"))
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("versions",), None),
        (("fod", "path"), None),
        (("fod", "sha256"), -1),
        (("fod", "phantom_lmax"), 10**400),
        (("parameters", "step_mm"), "nan"),
        (("parameters", "random_seed"), -(10**400)),
        (("regions", 1, "volume", "shape"), [float("inf")] * 3),
        (("regions", 1, "volume", "shape"), [2**40] * 3),
        (("regions", 1, "volume", "affine"), [[1e308] * 4] * 4),
        (("seeds", 0, "radius_mm"), 1e308),
        (("seeds", 0, "n"), 2**31),
        (("seeds", 1, "positions_mm"), [[1e308, 0, 0]]),
        (("edits", 0, "numbers"), "0-999999999999"),
        (("edits", 0, "numbers"), "1" * 5000),
        (("edits", 0, "numbers"), BITS + "AAAA"),
        (("edits",), deep(900)),
        (("fod",), {"path": "../" * 3000}),
        (("fod",), {"path": "a\0b"}),
        (("fod",), {"path": "\ud800.nii"}),
    ],
)
def test_impossible_values_of_a_recipe(
    tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    assert outcome(load_recipe, changed(tmp_path / "recipe.json", place, value))


def test_json_that_is_deep_or_no_json(tmp_path: Path) -> None:
    for name, load in (("recipe.json", Recipe.load), ("study.tracts.json", nt.Project.load)):
        path = tmp_path / name
        for text in ("[" * 100_000, '{"a":' * 100_000, "9" * 5000, '"\\ud800"', "", "\0"):
            path.write_text(text, "utf-8")
            assert name in outcome(load, path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format_version",), deep(900)),
        (("format_version",), 10**400),
        (("bundles",), {}),
        (("bundles", 0, "name"), ""),
        (("bundles", 0, "name"), "x" * 5000),
        (("bundles", 0, "recipe"), None),
        (("bundles", 0, "recipe"), deep(900)),
        (("bundles", 0, "recipe", "format_version"), deep(900)),
        (("bundles", 1, "name"), "made"),
        (("bundles", 1, "file", "path"), "x" * 5000),
        (("bundles", 1, "file", "path"), "a\0b"),
        (("bundles", 1, "file", "path"), "study.tracts.json"),
        (("bundles", 1, "file", "sha256"), -1),
        (("bundles", 1, "colour"), deep(900)),
        (("bundles", 1, "look"), None),
        (("views",), []),
    ],
)
def test_impossible_values_of_a_project(
    tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    path = tmp_path / "study.tracts.json"
    save_project(path)
    content = json.loads(path.read_text("utf-8"))
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(content), "utf-8")
    told = outcome(load_project, path)
    assert told or place == ("bundles", 0, "name")  # a long name is a name


def zeros_of(path: Path, shape: tuple[int, ...], value: float = 0.0) -> int:
    """Write a NIfTI file that is small and unpacks to a lot; return to how much."""
    header = nib.Nifti1Image(np.zeros((1, 1, 1), np.float32), GRID.affine).header.copy()
    header.set_data_shape(shape)
    header["vox_offset"] = 352
    n_bytes = int(np.prod(shape)) * 4
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(path, "wb") as stream:
        stream.write(packing.compress(header.binaryblock + bytes(4)))
        piece = np.full(1 << 20, value, np.float32).tobytes()
        for first in range(0, n_bytes, len(piece)):
            stream.write(packing.compress(piece[: n_bytes - first]))
        stream.write(packing.flush())
    return n_bytes


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(load_volume, id="volume"),
        pytest.param(load_mask, id="mask"),
    ],
)
def test_a_small_file_that_unpacks_to_more_than_there_is_is_refused_by_its_header(
    tmp_path: Path, load: object
) -> None:
    path = tmp_path / "bomb.nii.gz"
    n_bytes = zeros_of(path, (256, 256, 300))
    assert path.stat().st_size < 100_000 < MACHINE_BYTES < n_bytes
    told = outcome(load, path)
    assert "0.1 GB of memory" in told
    assert "bomb.nii.gz" in told


def test_an_fod_is_refused_where_what_is_kept_of_it_is_more_than_there_is(tmp_path: Path) -> None:
    """Empty voxels are not kept: of zeros nothing is, of ones all."""
    full, empty = tmp_path / "full.nii.gz", tmp_path / "empty.nii.gz"
    assert zeros_of(full, (110, 110, 300, 6), 0.5) > MACHINE_BYTES
    zeros_of(empty, (110, 110, 300, 6))

    def as_sh(path: Path) -> nt.Fod:
        return nt.load_fod(path, kind="sh")

    assert "of memory and this machine has 0.1 GB" in outcome(as_sh, full)
    assert "of memory" not in outcome(as_sh, empty)


def test_an_fod_stored_voxel_by_voxel_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "full.mif"
    shape = (110, 110, 300, 6)
    header = "mrtrix image\ndim: 110,110,300,6\nvox: 1,1,1,1\nlayout: +1,+2,+3,+0\n"
    header += "datatype: UInt8\nfile: . 400\nEND\n"
    path.write_bytes(header.encode().ljust(400, b"\0") + bytes([1]) * int(np.prod(shape)))
    told = outcome(lambda path: nt.load_fod(path, kind="sh"), path)
    assert "of memory and this machine has 0.1 GB" in told


@pytest.mark.parametrize("numbers", ["0-134217727", BITS + "full"])
def test_numbers_beyond_the_last_streamline_are_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: str
) -> None:
    if numbers == BITS + "full":
        bits = zlib.compress(bytes([255]) * (MOST_NUMBERS // 8), 9)
        numbers = BITS + b64encode(bits).decode("ascii")
    edit = Edit("keep", numbers)
    monkeypatch.setattr("napari_tractography.recipes.edits.numbers_of", None)
    assert "names streamline 134217727, but there are 3" in outcome(
        lambda path: edit.apply(lines()), tmp_path
    )
    assert edit.text == "keep 134,217,728 streamlines"


def test_a_recipe_of_more_seeds_than_anyone_places_is_refused_at_once() -> None:
    many = replace(recipe(), seeds=recipe().seeds[:1] * 100_000)
    with pytest.raises(FileError, match="has 100,000 sources of seeds, more than 10,000"):
        many.inputs()


def test_a_mask_in_a_recipe_larger_than_memory_is_refused(tmp_path: Path) -> None:
    text = b64encode(zlib.compress(bytes(1 << 27), 9)).decode("ascii")
    source = VolumeSource(voxels=text, shape=(1024,) * 3, affine=tuple(map(tuple, np.eye(4))))
    assert "of memory and this machine has 0.1 GB; crop it" in outcome(
        lambda path: source.load(), tmp_path
    )


def test_text_in_a_recipe_that_unpacks_to_gigabytes_is_damaged() -> None:
    bits = zlib.compress(bytes(60 << 20), 9)
    with pytest.raises(FileError, match="damaged"):
        numbers_of(BITS + b64encode(bits).decode("ascii"))


def test_an_archive_that_unpacks_to_more_than_there_is_is_refused_by_its_sizes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines.trx"
    n = 2 * MACHINE_BYTES // 12
    header = {"NB_STREAMLINES": 1, "NB_VERTICES": n, "DIMENSIONS": [1, 1, 1],
              "VOXEL_TO_RASMM": np.eye(4).tolist()}  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("offsets.uint32", bytes(4))
        archive.writestr("positions.3.float32", bytes(12 * n))
    assert "takes 0.1 GB of memory and this machine has 0.1 GB; check the file" in outcome(
        load_tractogram, path
    )


def test_a_trk_that_counts_more_points_than_there_are(tmp_path: Path) -> None:
    """Room for gigabytes was made before they were missed."""
    path = tmp_path / "lines.trk"
    lines().save(path, reference=GRID)
    raw = path.read_bytes()
    assert struct.unpack("<i", raw[1000:1004]) == (5,)  # points of the first streamline
    for count in (2**30, -(2**30)):
        path.write_bytes(raw[:1000] + struct.pack("<i", count) + raw[1004:])
        assert "lines.trk" in outcome(load_tractogram, path)


def test_a_trx_whose_offsets_lead_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "lines.trx"
    lines().save(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    raw, where = path.read_bytes(), names.index("offsets.uint32") / len(names) + 1e-6
    for at in (0.2, 0.4, 0.6, 0.8):
        path.write_bytes(damaged_archive(raw, (where, [("header", at, b"\xff\xff\xff\xf0")])))
        for load in (load_tractogram, load_mapped):
            assert "lines.trx" in outcome(load, path)


def test_a_trx_that_counts_more_streamlines_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "lines.trx"
    lines().save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    assert header["NB_STREAMLINES"] == 3
    members["header.json"] = json.dumps(header | {"NB_STREAMLINES": 2**31}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    for load in (load_tractogram, load_mapped):
        assert "lines.trx" in outcome(load, path)


@pytest.mark.parametrize("row", ["01,x", "01,x,x,1.5,x,x,x,too,much"])
def test_a_table_of_results_with_a_row_of_another_length(tmp_path: Path, row: str) -> None:
    path = tmp_path / "table.csv"
    save_table(path)
    path.write_text(f"{path.read_text('utf-8')}{row}\n", "utf-8")
    assert "longer or shorter than its header" in outcome(add_to_table, path)


@pytest.mark.parametrize(
    ("shape", "chunks", "words"),
    [
        ([12, 2**31, 9], [6, 5, 9], "cannot be read as Zarr"),
        ([12, 2**62, 9], [6, 5, 9], "cannot be read as Zarr"),
        ([10**6] * 3, [100] * 3, "more than 4,194,304"),
        ([10**6] * 3, [10**6] * 3, "of memory and this machine has 0.1 GB"),
    ],
)
def test_a_zarr_that_says_it_is_endless(
    tmp_path: Path, shape: list[int], chunks: list[int], words: str
) -> None:
    """Dask lists all chunks, and reads whole ones."""
    pytest.importorskip("zarr", reason="zarr is not installed")
    path = tmp_path / "image.zarr" / "zarr.json"
    save_zarr(path)
    content = json.loads(path.read_text("utf-8"))
    content["shape"] = shape
    content["chunk_grid"]["configuration"]["chunk_shape"] = chunks
    path.write_text(json.dumps(content), "utf-8")
    assert words in outcome(image_in, path)


def test_weights_that_unpack_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.txt.gz"
    path.write_bytes(gzip.compress(bytes(MACHINE_BYTES + (32 << 20)), 1))
    assert "unpacks to more than" in outcome(load_weights, path)
    path.write_bytes(gzip.compress(b"0.5\n1\n"))
    assert load_weights(path).tolist() == [0.5, 1]


@pytest.mark.parametrize("ending", [".tck", ".trk"])
def test_streamlines_that_unpack_without_end_are_refused(tmp_path: Path, ending: str) -> None:
    lines().save(tmp_path / f"a{ending}", reference=GRID)
    content = (tmp_path / f"a{ending}").read_bytes()[: -12 if ending == ".tck" else None]
    path = tmp_path / f"b{ending}.gz"
    path.write_bytes(gzip.compress(content + bytes(2 * MACHINE_BYTES), 1))
    for load in (load_tractogram, load_by_blocks):
        assert "machine has 0.1 GB; check the file" in outcome(load, path)


@pytest.mark.parametrize("name", ["fod.mif.gz", "fod.nii.gz"])
def test_a_flipped_bit_is_seen_where_something_follows_the_image(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".mif.gz"):
        raw = mif() + b"and more" * 100
    else:
        save_nifti(tmp_path / "fod.nii")
        raw = (tmp_path / "fod.nii").read_bytes() + b"and more" * 100
    packed = bytearray(gzip.compress(raw, 0))  # stored as it is
    at = packed.index(raw[500:540])
    path.write_bytes(packed)
    assert not outcome(load_sh, path)
    packed[at] ^= 1
    path.write_bytes(packed)
    assert f"{name} is truncated or corrupt" in outcome(load_sh, path)


def load_sh(path: Path) -> nt.Fod:
    return nt.load_fod(path, kind="sh")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a": {"start_s": 1%s, "upload_s_per_byte": 1, "s_per_step": 1, '
                     '"mm_per_seed": 1}}' % ("0" * 400), id="endless"),
        pytest.param('{"a": {"start_s": "nan"}}', id="text"),
        pytest.param('["a"]', id="list"),
    ],
)  # fmt: skip
def test_costs_that_are_damaged_are_measured_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text, "utf-8")
    assert PerformanceModel(path).get("a") is None


def test_gzip_is_what_it_says(tmp_path: Path) -> None:
    """Volumes of one value: nothing is lost where nothing is wrong."""
    path = tmp_path / "fod.nii.gz"
    save_nifti(path)
    np.testing.assert_array_equal(nt.load_fod(path, kind="sh").coefficients, volume(6))
    assert gzip.decompress(path.read_bytes())[344:348] == b"n+1\0"
