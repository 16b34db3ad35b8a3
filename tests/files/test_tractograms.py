"""Tractogram files: the same points come back, other programs agree, and nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import zipfile

import nibabel as nib
import numpy as np
import pytest
from trx import trx_file_memmap
from trx.trx_file_memmap import load as load_trx_python

from napari_tractography.errors import FileError
from napari_tractography.files import formats
from napari_tractography.files.description import TractogramFormat
from napari_tractography.files.tractograms import open_stream
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.streamlines.streaming import save_chunks
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

ENDINGS = [".tck", ".trk", ".trx", ".vtk"]
# Oblique, anisotropic, left-handed and far from the origin.
GRID = Grid(
    (40, 50, 30),
    [[-1.9, 0.3, 0.1, 90.5], [0.4, 2.1, 0.2, -126.25], [-0.2, -0.1, 2.9, -72.0], [0, 0, 0, 1]],
)


def make(counts=(5, 2, 40, 1), first_seed=0):
    random = np.random.default_rng(7)
    n = len(counts)
    return Tractogram(
        random.uniform(-120, 120, size=(sum(counts), 3)),
        np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))]),
        seed_index=first_seed + 3 * np.arange(n),
        stop_reasons=random.integers(1, 9, size=(n, 2)),
        lengths_mm=random.uniform(1, 200, size=n),
    )


def run(program, *arguments):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} of MRtrix3 is not installed")
    done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("ending", [".tck", ".trx", ".vtk"])
def test_points_come_back_bit_for_bit(tmp_path, ending):
    tractogram = make()
    tractogram.points[0] = -0.0
    tractogram.save(tmp_path / f"t{ending}")
    assert load_tractogram(tmp_path / f"t{ending}").digest() == tractogram.digest()


def test_trk_points_come_back_to_a_ten_thousandth_mm(tmp_path):
    tractogram = make()
    tractogram.save(tmp_path / "t.trk", reference=GRID)
    back = load_tractogram(tmp_path / "t.trk")
    np.testing.assert_array_equal(back.offsets, tractogram.offsets)
    np.testing.assert_allclose(back.points, tractogram.points, rtol=0, atol=1e-4)


@pytest.mark.parametrize("ending", [".trk", ".trx"])
@pytest.mark.parametrize("first_seed", [0, 2**24 + 1, 2**32 - 20])
def test_seeds_reasons_and_lengths_come_back(tmp_path, ending, first_seed):
    tractogram = make(first_seed=first_seed)
    tractogram.save(tmp_path / f"t{ending}", reference=GRID)
    back = load_tractogram(tmp_path / f"t{ending}")
    np.testing.assert_array_equal(back.seed_index, tractogram.seed_index)
    np.testing.assert_array_equal(back.stop_reasons, tractogram.stop_reasons)
    np.testing.assert_array_equal(back.lengths_mm, tractogram.lengths_mm)


def tracked_lines(n=40):
    """Wavy lines of which every third point was recorded: their paths are longer than polylines."""
    at = np.linspace(0, 60, 121, dtype=np.float32)
    paths = [np.stack([at - 30, 3 * np.sin(at / 2 + i), i + 0 * at], axis=1) for i in range(n)]
    lengths = Tractogram.from_streamlines(paths).lengths_mm
    thinned = Tractogram.from_streamlines([path[::3] for path in paths])
    assert (thinned.lengths_mm < 0.998 * lengths).all()
    return Tractogram(thinned.points, thinned.offsets, lengths_mm=lengths)


@pytest.mark.parametrize("ending", [".trk", ".trx"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lengths_of_streamlines_that_another_program_left_alone_are_those_tracked(
    tmp_path, caplog, ending, dtype
):
    tractogram, path = tracked_lines(), tmp_path / f"t{ending}"
    if dtype == "float16" and ending == ".trk":
        pytest.skip("holds no float16")
    save_chunks([tractogram[:15], tractogram[15:]], path, reference=GRID, dtype=dtype)
    if ending == ".trk":
        other = nib.streamlines.load(path)
        nib.streamlines.save(other.tractogram[::-1], path, header=other.header)
    else:
        other = trx_file_memmap.load(str(path))
        trx_file_memmap.save(other.select(np.arange(40)[::-1]), str(path))
        other.close()
    caplog.clear()
    back = load_tractogram(path)
    np.testing.assert_array_equal(back.lengths_mm, tractogram.lengths_mm[::-1])
    assert not caplog.messages
    assert not back.data


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # of trx-python
@pytest.mark.parametrize("change", ["cut", "scale"])
@pytest.mark.parametrize("ending", [".trk", ".trx"])
def test_lengths_of_streamlines_that_another_program_changed_are_those_of_their_points(
    tmp_path, caplog, ending, change
):
    tractogram, path = tracked_lines(), tmp_path / f"t{ending}"
    tractogram.save(path, reference=GRID)
    if ending == ".trk":
        source = nib.streamlines.load(path)
        lines, values = source.streamlines, source.tractogram.data_per_streamline
    else:
        source = trx_file_memmap.load(str(path))
        lines = [np.array(line) for line in source.streamlines]
        values = {name: np.array(of) for name, of in source.data_per_streamline.items()}
        source.close()
    lines = [
        (line[:-1] if change == "cut" else 0.9 * line) if number < 10 else line
        for number, line in enumerate(lines)
    ]
    changed = nib.streamlines.Tractogram(lines, values, affine_to_rasmm=np.eye(4))
    if ending == ".trk":
        nib.streamlines.save(changed, path, header=source.header)
    else:
        nib.save(nib.Nifti1Image(np.zeros(GRID.shape), GRID.affine), tmp_path / "image.nii")
        made = trx_file_memmap.TrxFile.from_tractogram(changed, str(tmp_path / "image.nii"))
        trx_file_memmap.save(made, str(path))
        made.close()
    caplog.clear()
    back = load_tractogram(path)
    some = back.chosen([12, 3])
    _ = some.points
    expected = [tractogram.lengths_mm[12], polylines(back)[3]]
    np.testing.assert_allclose(some.lengths_mm, expected, rtol=1e-6)
    assert not caplog.messages
    np.testing.assert_array_equal(back.lengths_mm[10:], tractogram.lengths_mm[10:])
    np.testing.assert_allclose(back.lengths_mm[:10], polylines(back)[:10], rtol=1e-6)
    (told,) = caplog.messages
    assert told.startswith("10 of 40 streamlines have other points than when their lengths were")


def polylines(tractogram):
    return [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in tractogram]


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_tractograms_come_back_empty(tmp_path, ending):
    path = tmp_path / f"empty{ending}"
    Tractogram.empty().save(path, reference=GRID)
    back = load_tractogram(path)
    assert (back.n_streamlines, back.n_points) == (0, 0)


def test_empty_tck_is_read_by_mrtrix(tmp_path):
    Tractogram.empty().save(tmp_path / "empty.tck")
    assert "actual count in file: 0" in run("tckinfo", "-count", tmp_path / "empty.tck")


@pytest.mark.parametrize("ending", ENDINGS)
def test_older_file_is_replaced_and_nothing_else_is_left(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"older")
    make().save(path, reference=GRID)
    assert os.listdir(tmp_path) == [path.name]
    assert load_tractogram(path).n_streamlines == 4


def test_reference_may_be_an_fod(tmp_path):
    coefficients = np.ones((4, 5, 6, 1))
    make().save(tmp_path / "t.trk", reference=Fod(coefficients, GRID.affine))
    assert nib.streamlines.load(tmp_path / "t.trk").header["dimensions"].tolist() == [4, 5, 6]


def test_trk_header_describes_the_grid(tmp_path):
    make().save(tmp_path / "t.trk", reference=GRID)
    header = nib.streamlines.load(tmp_path / "t.trk").header
    assert header["dimensions"].tolist() == [40, 50, 30]
    np.testing.assert_allclose(header["voxel_sizes"], np.linalg.norm(GRID.affine[:3, :3], axis=0))
    np.testing.assert_allclose(header["voxel_to_rasmm"], GRID.affine, rtol=1e-6)
    assert header["voxel_order"] == b"LAS"
    assert header["nb_streamlines"] == 4


def test_trk_points_are_corner_based_voxel_millimetres(tmp_path):
    """TrackVis' definition, read from the raw bytes: the centre of voxel 0 is half a voxel in."""
    voxel = np.array([3.0, 4.0, 5.0])
    Tractogram(GRID.to_mm([voxel]), [0, 1]).save(tmp_path / "t.trk", reference=GRID)
    raw = (tmp_path / "t.trk").read_bytes()
    assert np.frombuffer(raw, "<i4", 1, offset=1000)[0] == 1
    stored = np.frombuffer(raw, "<f4", 3, offset=1004)
    np.testing.assert_allclose(stored, (voxel + 0.5) * GRID.voxel_sizes_mm, atol=1e-4)


def test_trx_is_read_by_trx_python(tmp_path):
    tractogram = make()
    tractogram.save(tmp_path / "t.trx", reference=GRID)
    trx = load_trx_python(str(tmp_path / "t.trx"))
    try:
        assert trx.streamlines._data.dtype == np.float32
        np.testing.assert_array_equal(trx.streamlines._data, tractogram.points)
        np.testing.assert_allclose(trx.header["VOXEL_TO_RASMM"], GRID.affine, rtol=1e-6)
        assert trx.header["DIMENSIONS"].tolist() == [40, 50, 30]
        assert [len(s) for s in trx.streamlines] == [5, 2, 40, 1]
        assert trx.data_per_streamline["seed_index"].ravel().tolist() == [0, 3, 6, 9]
    finally:
        trx.close()
    with zipfile.ZipFile(tmp_path / "t.trx") as archive:
        names = set(archive.namelist())
        assert {"header.json", "positions.3.float32", "offsets.uint32"} <= names


def test_trx_without_a_reference_says_identity(tmp_path):
    make().save(tmp_path / "t.trx")
    with zipfile.ZipFile(tmp_path / "t.trx") as archive:
        header = json.loads(archive.read("header.json"))
    np.testing.assert_array_equal(header["VOXEL_TO_RASMM"], np.eye(4))


def test_compressed_and_read_only_trx_are_read(tmp_path):
    tractogram = make()
    tractogram.save(tmp_path / "t.trx")
    packed = tmp_path / "packed.trx"
    with (
        zipfile.ZipFile(tmp_path / "t.trx") as source,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    packed.chmod(0o400)
    assert load_tractogram(packed).digest() == tractogram.digest()


def test_mrtrix_reads_our_tck(tmp_path):
    tractogram = make()
    tractogram.save(tmp_path / "t.tck")
    assert "actual count in file: 4" in run("tckinfo", "-count", tmp_path / "t.tck")
    run("tckconvert", "-quiet", tmp_path / "t.tck", tmp_path / "theirs.vtk")
    theirs = load_tractogram(tmp_path / "theirs.vtk")
    np.testing.assert_array_equal(theirs.offsets, tractogram.offsets)
    np.testing.assert_allclose(theirs.points, tractogram.points, rtol=1e-5)  # six digits of text


def test_mrtrix_reads_our_vtk(tmp_path):
    tractogram = make()
    tractogram.save(tmp_path / "t.vtk")
    run("tckconvert", "-quiet", tmp_path / "t.vtk", tmp_path / "theirs.tck")
    assert load_tractogram(tmp_path / "theirs.tck").digest() == tractogram.digest()


def test_values_of_tcksample_are_read(tmp_path):
    """Of an image whose value is x, at all points; tckedit notes the time that both files have."""
    x = 2 * np.indices((9, 9, 9))[0].astype(np.float32)
    nib.save(nib.Nifti1Image(x, np.diag([2.0, 2, 2, 1])), tmp_path / "x.nii")
    lines = [np.linspace((1, 2, 3), (14, 9, 8), n) for n in (5, 2, 9)]
    Tractogram.from_streamlines(lines).save(tmp_path / "ours.tck")
    run("tckedit", "-quiet", tmp_path / "ours.tck", tmp_path / "t.tck")
    run("tcksample", "-quiet", tmp_path / "t.tck", tmp_path / "x.nii", tmp_path / "t.x.tsf")
    back = load_tractogram(tmp_path / "t.tck")
    np.testing.assert_allclose(back.data.per_point["x"][:, 0], back.points[:, 0], atol=1e-4)


def test_ground_truth_bundles_are_read(shared_data):
    """Counts and the first points, from the text of the files."""
    arc = load_tractogram(shared_data / "yoga" / "arc1.vtk")
    assert (arc.n_streamlines, arc.n_points) == (100, 3197)
    first = np.float32([[0.83794272, 6.69678164, 1.00090528], [1.09854198, 6.59028292, 1.00092256]])
    np.testing.assert_array_equal(arc.points[:2], first)
    assert load_tractogram(shared_data / "yoga" / "cross60.vtk").n_streamlines == 200


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kept", [0, 3, 0.3, 0.7, -1])
def test_truncated_files_are_refused(tmp_path, ending, kept):
    """-1 cuts the last number off, not just a final newline."""
    make().save(tmp_path / f"whole{ending}", reference=GRID)
    raw = (tmp_path / f"whole{ending}").read_bytes()
    n = int(len(raw) * kept) if isinstance(kept, float) else kept if kept >= 0 else len(raw) - 4
    (tmp_path / f"cut{ending}").write_bytes(raw[:n])
    with pytest.raises(FileError, match="cut"):
        load_tractogram(tmp_path / f"cut{ending}")


def test_trk_cut_between_streamlines_is_refused(tmp_path):
    make((2, 2, 2)).save(tmp_path / "whole.trk", reference=GRID)
    raw = (tmp_path / "whole.trk").read_bytes()
    one = (len(raw) - 1000) // 3
    (tmp_path / "cut.trk").write_bytes(raw[: 1000 + 2 * one])
    with pytest.raises(FileError, match="says 3 streamlines, 2 are there"):
        load_tractogram(tmp_path / "cut.trk")


@pytest.mark.parametrize("ending", ENDINGS)
def test_flipped_bytes_give_an_error_or_a_tractogram(tmp_path, ending):
    """Corruption never lets an exception of a library out."""
    make((3, 2)).save(tmp_path / f"whole{ending}", reference=GRID)
    raw = (tmp_path / f"whole{ending}").read_bytes()
    path = tmp_path / f"broken{ending}"
    refused = 0
    for position in np.random.default_rng(3).permutation(len(raw))[:150]:
        broken = bytearray(raw)
        broken[position] ^= 0xFF
        path.write_bytes(broken)
        try:
            load_tractogram(path)
        except FileError:
            refused += 1
    assert refused > 0


def test_foreign_trk_without_our_columns_is_read(tmp_path):
    streamlines = nib.streamlines.ArraySequence([np.ones((3, 3), "f4"), np.zeros((2, 3), "f4")])
    theirs = nib.streamlines.Tractogram(
        streamlines,
        data_per_streamline={"stop_reasons": np.full((2, 2), 99.0), "weight": np.ones((2, 1))},
        data_per_point={"fa": [np.ones((3, 1)), np.ones((2, 1))]},
        affine_to_rasmm=np.eye(4),
    )
    nib.streamlines.TrkFile(theirs).save(tmp_path / "t.trk")
    back = load_tractogram(tmp_path / "t.trk")
    assert back.offsets.tolist() == [0, 3, 5]
    assert back.seed_index.tolist() == [0, 1]
    assert not back.stop_reasons.any()


def test_trk_without_a_reference_is_refused(tmp_path):
    with pytest.raises(FileError, match="as its reference; give it"):
        make().save(tmp_path / "t.trk")
    assert not os.listdir(tmp_path)


def test_reference_of_another_type_is_refused(tmp_path):
    with pytest.raises(FileError, match="of type str"):
        make().save(tmp_path / "t.trk", reference="wmfod.nii.gz")


def test_unknown_endings_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"write; use one of \.tck, \.trk, \.trx, \.vtk\.$"):
        make().save(tmp_path / "t.txt")
    (tmp_path / "t.fib").write_bytes(b"x")
    with pytest.raises(FileError, match=r"like a tractogram; use .* or convert it first\.$"):
        load_tractogram(tmp_path / "t.fib")


@pytest.mark.parametrize("ending", ENDINGS)
def test_streamlines_without_points_keep_their_numbers(tmp_path, ending):
    """Warping leaves them; weights of another file belong to all."""
    tractogram = make((0, 3, 0, 0, 1, 2, 0))
    tractogram.save(tmp_path / f"t{ending}", reference=GRID)
    back = load_tractogram(tmp_path / f"t{ending}")
    np.testing.assert_array_equal(back.offsets, tractogram.offsets)
    np.testing.assert_allclose(back.points, tractogram.points, rtol=0, atol=1e-4)
    with open_stream(tmp_path / f"parts{ending}", GRID) as append:
        for numbers in ([0], [1, 2, 3], [4, 5], [6]):
            append(tractogram[numbers].arrays())
    assert load_tractogram(tmp_path / f"parts{ending}").digest() == back.digest()


def test_missing_and_impossible_places_are_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist; create it first"):
        make().save(tmp_path / "absent" / "t.tck")
    (tmp_path / "folder.tck").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        make().save(tmp_path / "folder.tck")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match="does not exist"):
        make().save(tmp_path / "file" / "t.tck")
    with pytest.raises(FileError, match="does not exist"):
        load_tractogram(tmp_path / "absent.tck")
    with pytest.raises(FileError, match="does not exist; create it first"):
        make().save("~nobody-of-that-name/t.tck")
    with pytest.raises(FileError):
        make().save("a\0b.tck")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileError, match="cannot be written"):
            make().save(tmp_path / "t.tck")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("ending", ENDINGS)
def test_full_disk_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch, ending):
    """The writer fails after its file is written, as when the disk fills up at the end."""
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"older")
    form = formats.tractogram_format(path)

    def write(tractogram, temporary, grid):
        temporary.write_bytes(b"the new one")
        assert len(os.listdir(tmp_path)) == 2
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    broken = TractogramFormat((ending,), form.read, write=write)
    others = [each for each in formats.FORMATS if each is not form]
    monkeypatch.setattr(formats, "FORMATS", (*others, broken))
    with pytest.raises(FileError, match="No space left"):
        make().save(path, reference=GRID)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"older"


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.tck").symlink_to(tmp_path / "real" / "t.tck")
    make().save(tmp_path / "link.tck")
    assert (tmp_path / "link.tck").is_symlink()
    assert load_tractogram(tmp_path / "real" / "t.tck").n_streamlines == 4


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_axes_that_are_none_of_the_body_come_back(tmp_path, ending, is_streamed):
    small = np.diag([0.001, 0.001, 0.001, 1]) @ GRID.affine
    grid = Grid(GRID.shape, small, unit="um", is_anatomical=False)
    path, tractogram = tmp_path / f"t{ending}", make()
    if is_streamed:
        with open_stream(path, grid) as append:
            append(tractogram.arrays())
    else:
        tractogram.save(path, reference=grid)
    found = load_tractogram(path).grid
    assert not found.is_anatomical
    assert found.unit == "um"
    assert found.shape == grid.shape
    np.testing.assert_allclose(found.affine, grid.affine, rtol=1e-6)
    again = tmp_path / f"again{ending}"
    load_tractogram(path)[:2].save(again)
    assert not load_tractogram(again).grid.is_anatomical
    if ending in (".tck", ".trk"):  # other programs read them as before
        assert len(nib.streamlines.load(path).streamlines) == len(tractogram)


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_that_belong_to_a_body_say_nothing_of_axes(tmp_path, ending):
    make().save(tmp_path / f"t{ending}", reference=GRID)
    content = (tmp_path / f"t{ending}").read_bytes()
    assert b"AXES" not in content
    assert b"axes" not in content
    found = load_tractogram(tmp_path / f"t{ending}").grid
    assert found is None or found.is_anatomical


def test_a_field_of_axes_that_makes_no_sense_is_left_alone(tmp_path):
    grid = Grid((4, 5, 6), np.eye(4), is_anatomical=False)
    make().save(tmp_path / "t.tck", reference=grid)
    content = (tmp_path / "t.tck").read_bytes()
    for wrong in (b"GRID=4x5x0,1,", b"GRID=4x5,1,00", b"NONE=4x5x6,1,"):
        (tmp_path / "t.tck").write_bytes(content.replace(b"GRID=4x5x6,1,", wrong))
        assert load_tractogram(tmp_path / "t.tck").grid is None
