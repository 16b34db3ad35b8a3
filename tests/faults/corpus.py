"""Small whole files of every kind that people open, and what opens them.

The fuzz suite damages them; every loader must end in a result or in one of our own errors.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import tifffile

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.cli.subjects import KEYS, PROOFS, ResultsTable
from napari_tractography.errors import FileError
from napari_tractography.files import trx
from napari_tractography.files.image_files import ZARR_MARKS, image_sha256, open_image
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.files.tissue_files import load_tissues
from napari_tractography.files.tractograms import iter_streamlines, read_streamlines
from napari_tractography.files.volume_files import load_mask, load_volume
from napari_tractography.files.weights import load_weights
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

GRID = nt.Grid((3, 4, 2), np.diag([2.0, 2.0, 3.0, 1.0]))


@dataclass(frozen=True)
class Case:
    """One kind of file.

    Attributes
    ----------
    name : str
        Of the file.
    make : callable
        Writes it at a path.
    loaders : tuple of callables
        Whatever people open such a file with.
    """

    name: str
    make: Callable[[Path], None]
    loaders: tuple[Callable[[Path], Any], ...]


def volume(n: int) -> np.ndarray:
    """Like an FOD of lmax 2 where n is 6: a large first coefficient, smaller others."""
    values = np.random.default_rng(n).normal(0, 0.05, (*GRID.shape, n))
    values[..., 0] = 0.3
    return values.astype(np.float32)


def lines() -> Tractogram:
    rng = np.random.default_rng(5)
    return Tractogram.from_streamlines([rng.normal(0, 9, (n, 3)) for n in (5, 2, 9)])


def save_nifti(path: Path, n: int = 6) -> None:
    nib.save(nib.Nifti1Image(np.squeeze(volume(n)), GRID.affine), path)


def mif(n: int = 6, file: str = ". 400") -> bytes:
    values = volume(n)
    axes = ",".join(f"+{axis}" for axis in range(4))
    header = (
        f"mrtrix image\ndim: 3,4,2,{n}\nvox: 2,2,3,nan\nlayout: {axes}\ndatatype: Float32LE\n"
        "transform: 1,0,0,-2\ntransform: 0,1,0,-3\ntransform: 0,0,1,-1.5\nscaling: 0,1\n"
        f"file: {file}\nEND\n"
    )
    if not file.startswith("."):
        return header.encode()
    return header.encode().ljust(400, b"\0") + values.tobytes(order="F")


def save_mih(path: Path) -> None:
    path.write_bytes(mif(file="numbers.dat 8"))
    path.with_name("numbers.dat").write_bytes(bytes(8) + volume(6).tobytes(order="F"))


def save_beside(path: Path) -> None:
    """Write values beside a .tck file, of which `path` is one of those files."""
    found = lines()
    data = StreamlineData({"p": np.arange(3)}, {"FA": found.points[:, 0]})
    named = Tractogram(found.points, found.offsets, data=data)
    named.save(path.with_name("beside.tck"), data_beside=True)
    assert path.exists()


def load_beside(path: Path) -> Tractogram:
    """Read the .tck file; what is wrong with one beside it is told, and the others are read."""
    remarks: list[str] = []
    found = read_streamlines(path.with_name("beside.tck"), warn=remarks.append)
    if remarks:
        raise FileError(remarks[0])
    return Tractogram.of_arrays(found)


def save_text_vtk(path: Path) -> None:
    """As ParaView writes it, by hand."""
    points = lines().points
    rows = "\n".join(" ".join(f"{x:.3f}" for x in point) for point in points)
    path.write_text(
        f"# vtk DataFile Version 3.0\nlines\nASCII\nDATASET POLYDATA\nPOINTS {len(points)} float\n"
        f"{rows}\nLINES 3 19\n5 0 1 2 3 4\n2 5 6\n9 7 8 9 10 11 12 13 14 15\n"
    )


def recipe() -> Recipe:
    mask = VolumeSource.of_array(np.ones((2, 2, 2)), nt.Grid((2, 2, 2), np.eye(4)))
    return Recipe(
        fod=FodSource(phantom="letter", phantom_lmax=2),
        seeds=(
            SeedSource("sphere", 20, 7, (10.0, 10.0, 10.0), 2.0),
            SeedSource("points", positions_mm=((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))),
        ),
        parameters=nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0),
        regions=(
            RegionSource("include", "ball", (1.0, 2.0, 3.0), 4.0),
            RegionSource("exclude", volume=mask),
        ),
        edits=(Edit.keep([0, 1, 2, 7]), Edit.cut((0, 0, 0), (1, 0, 0)), Edit.lengths(3, 50)),
    )


def save_project(path: Path) -> None:
    """One bundle of a recipe, one of a file."""
    lines().save(path.with_name("bundle.tck"))
    project = nt.Project()
    project.add("made", recipe())
    project.add("read", path.with_name("bundle.tck"), colour="#ff8800")
    project.views = {"camera": {"angles": [0, 0, 90], "zoom": 2.5}}
    project.save(path)


def load_recipe(path: Path) -> Any:
    """Read a recipe and all that it takes to track, but track nothing."""
    loaded = Recipe.load(path)
    numbers = [edit.chosen for edit in loaded.edits]
    return loaded.inputs(), numbers, [edit.text for edit in loaded.edits]


def load_project(path: Path) -> Any:
    """Read a project and what its bundles take; files are read, recipes are not tracked."""
    project = nt.Project.load(path)
    for bundle in project.bundles.values():
        if bundle.is_tracked:
            bundle.source.inputs()
        else:
            bundle.tractogram()
    return project.as_python(), project.changed_files()


IMAGE = np.random.default_rng(8).normal(size=(12, 10, 9)).astype(np.float32)


def save_chunk(path: Path) -> None:
    """Write an image as Zarr, of which `path` is the chunk in one corner."""
    import zarr

    zarr.create_array(path.parents[3], data=IMAGE, chunks=(6, 5, 9), overwrite=True)
    assert path.exists()


def save_tiff(path: Path) -> None:
    tifffile.imwrite(path, IMAGE, compression="zlib", rowsperstrip=4)


def save_big_tiff(path: Path) -> None:
    """Whose offsets have 64 bits."""
    tifffile.imwrite(path, IMAGE, bigtiff=True, tile=(16, 16))


def save_ome_tiff(path: Path) -> None:
    """As microscopes' programs write them: a page a plane, and XML that says what they are."""
    sizes = {f"PhysicalSize{axis}": size for axis, size in zip("XYZ", (0.5, 0.5, 2), strict=True)}
    tifffile.imwrite(
        path, IMAGE, ome=True, photometric="minisblack", metadata={"axes": "ZYX", **sizes}
    )


def fibres_in(array: Any) -> Any:
    """Work out the fibres in an image that was opened, all of it."""
    fod = nt.Fod.from_image(array, name="image")
    assert fod.blocks is not None
    return fod.blocks.whole()


def fibres_in_zarr(path: Path) -> Any:
    """Whether it can be opened napari tells; what can be is read where it is tracked."""
    import zarr

    return fibres_in(zarr.open_array(path.parents[3], mode="r"))


def fibres_in_tiff(path: Path) -> Any:
    import zarr

    with ExitStack() as stack:
        try:
            file = stack.enter_context(tifffile.TiffFile(path))
            array = zarr.open_array(file.aszarr(), mode="r")
        except Exception as error:
            raise FileError("napari tells") from error
        return fibres_in(array)


def image_in(path: Path) -> Any:
    """Open an image as recipes do, of a Zarr by its folder, and look at voxels in many places."""
    folder = path.parent if path.name in ZARR_MARKS else path
    image = open_image(folder)
    return image_sha256(folder, image), np.asarray(image[2:9, 2:9, 2:9])


def save_zarr(path: Path) -> None:
    """Write an image as Zarr, of which `path` is the description."""
    import zarr

    zarr.create_array(path.parent, data=IMAGE, chunks=(6, 5, 9), overwrite=True)
    assert path.exists()


def save_old_zarr(path: Path) -> None:
    """Write an image as Zarr of version 2, of which `path` is the description."""
    import zarr

    zarr.create_array(path.parent, data=IMAGE, chunks=(6, 5, 9), zarr_format=2, overwrite=True)
    assert path.exists()


def save_pyramid(path: Path) -> None:
    """Write an image as OME-Zarr, at two sizes, of which `path` is the description."""
    import zarr

    axes = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    scales = [[{"type": "scale", "scale": [size] * 3}] for size in (0.5, 1.0)]
    levels = [{"path": str(k), "coordinateTransformations": of} for k, of in enumerate(scales)]
    attributes = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}}
    group = zarr.open_group(path.parent, mode="w", attributes=attributes)
    for number, image in enumerate((IMAGE, IMAGE[::2, ::2, ::2])):
        group.create_array(str(number), data=image, chunks=(6, 5, 5))
    assert path.exists()


def save_zarr_zip(path: Path) -> None:
    import zarr

    path.unlink(missing_ok=True)
    with zarr.storage.ZipStore(path, mode="w") as store:
        zarr.create_array(store, data=IMAGE, chunks=(6, 5, 9))


ATLAS = np.arange(np.prod(GRID.shape), dtype=np.int32).reshape(GRID.shape) % 7 + 576_073_730


def save_labels(path: Path) -> None:
    image = nib.MGHImage if path.suffix in (".mgh", ".mgz") else nib.Nifti1Image
    nib.save(image(ATLAS, GRID.affine), path)


def use_labels(path: Path) -> Any:
    """Count between labels, and take one of them as a region, as the command does."""
    labels, grid = load_volume(path)
    connections = nt.connectome(lines(), labels, grid)
    region = RegionSource("include", volume=VolumeSource.file(path, label=int(ATLAS.max())))
    return connections, region.make()


def save_directions(path: Path) -> None:
    """As FSL writes them: one unit vector a voxel."""
    vectors = np.random.default_rng(3).normal(size=(*GRID.shape, 3))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    nib.save(nib.Nifti1Image(vectors.astype(np.float32), GRID.affine), path)


def save_pam5(path: Path) -> None:
    """As DIPY writes them, by hand."""
    with h5py.File(path, "w") as file:
        file.attrs["version"] = "0.0.1"
        group = file.create_group("pam")
        for name, shape in (
            ("peak_dirs", (*GRID.shape, 2, 3)), ("peak_values", (*GRID.shape, 2)),
            ("peak_indices", (*GRID.shape, 2)), ("sphere_vertices", (6, 3)),
        ):  # fmt: skip
            values = np.random.default_rng(4).uniform(0.1, 1, shape).astype(np.float32)
            group.create_dataset(name, data=values, chunks=shape, compression="gzip")
        group.create_dataset("affine", data=GRID.affine)


def describe(path: Path) -> None:
    """Run the command, which prints what it finds, or one line and ends with code 2."""
    assert main(["info", str(path)]) in (0, 2)


def fod_as(kind: str) -> Callable[[Path], Any]:
    return lambda path: nt.load_fod(path, kind=kind)


def load_mapped(path: Path) -> Tractogram:
    """Read a .trx as if it were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trx, "MAPPED_FROM", 0)
        return load_tractogram(path)


def load_by_blocks(path: Path) -> list[Any]:
    return list(iter_streamlines(path, 2))


def save_table(path: Path) -> None:
    """A table of results as the command writes it, with two rows."""
    path.unlink(missing_ok=True)
    for subject in ("01", "02"):
        ResultsTable(path).add(
            dict.fromkeys((*KEYS, *PROOFS), "x") | {"subject": subject, "volume_mm3": "1.5"}
        )


def add_to_table(path: Path) -> Any:
    table = ResultsTable(path)
    table.has("01", "x", "x", path)
    table.add(dict.fromkeys((*KEYS, *PROOFS), "y"))
    return ResultsTable(path).rows


VOLUMES = (
    nt.load_fod,
    fod_as("sh"),
    fod_as("peaks"),
    fod_as("tensor"),
    load_volume,
    load_mask,
    load_tissues,
    describe,
)
TRACTOGRAMS = (load_tractogram, load_by_blocks, describe)
CASES = (
    Case("fod.nii", save_nifti, VOLUMES),
    Case("fod.nii.gz", save_nifti, VOLUMES),
    Case("mask.nii", lambda path: save_nifti(path, 1), VOLUMES),
    Case("five.nii.gz", lambda path: save_nifti(path, 5), VOLUMES),
    Case("fod.mif", lambda path: path.write_bytes(mif()) and None, VOLUMES),
    Case("fod.mif.gz", lambda path: path.write_bytes(gzip.compress(mif())) and None, VOLUMES),
    Case("fod.mih", save_mih, VOLUMES),
    Case("labels.mgz", save_labels, (load_volume, load_mask, use_labels, describe)),
    Case("labels.mgh", save_labels, (load_volume, load_tissues, use_labels, describe)),
    Case("labels.nii.gz", save_labels, (load_volume, load_mask, use_labels)),
    Case("dyads1.nii.gz", save_directions, (nt.load_fod, fod_as("peaks"), describe)),
    Case("peaks.pam5", save_pam5, (nt.load_fod, describe)),
    Case("lines.tck", lambda path: lines().save(path), TRACTOGRAMS),
    Case("beside.FA.tsf", save_beside, (load_beside,)),
    Case("beside.p.txt", save_beside, (load_beside,)),
    Case("lines.trk", lambda path: lines().save(path, reference=GRID), TRACTOGRAMS),
    Case("lines.trx", lambda path: lines().save(path), (*TRACTOGRAMS, load_mapped, load_weights)),
    Case("lines.vtk", lambda path: lines().save(path), TRACTOGRAMS),
    Case("text.vtk", save_text_vtk, TRACTOGRAMS),
    Case("recipe.json", lambda path: recipe().save(path), (load_recipe, nt.Project.load)),
    Case("study.tracts.json", save_project, (load_project, Recipe.load)),
    Case("image.npy", lambda path: np.save(path, IMAGE), (image_in,)),
    Case("table.csv", save_table, (add_to_table,)),
    Case(
        "weights.txt", lambda path: path.write_text("0.5\n1.25e-3\n2\n") and None, (load_weights,)
    ),
)
if find_spec("zarr"):  # which opens large images, of TIFF as well
    CASES += (
        Case("image.zarr/c/0/0/0", save_chunk, (fibres_in_zarr,)),
        Case("image.zarr/zarr.json", save_zarr, (image_in,)),
        Case("old.zarr/.zarray", save_old_zarr, (image_in,)),
        Case("pyramid.zarr/zarr.json", save_pyramid, (image_in,)),
        Case("image.zarr.zip", save_zarr_zip, (image_in,)),
        Case("image.tif", save_tiff, (fibres_in_tiff, image_in)),
        Case("big.tif", save_big_tiff, (fibres_in_tiff, image_in)),
        Case("image.ome.tif", save_ome_tiff, (fibres_in_tiff, image_in)),
    )
