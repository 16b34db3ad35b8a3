"""The documents are true: every block of code runs, the site builds, pictures come from scripts."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from dipy.reconst.shm import real_sh_tournier
from PIL import Image, ImageSequence
from reading import ReadPage
from scipy.stats import chisquare

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.cli.command import make_parser
from napari_tractography.cli.track import chosen_parameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.recipes.codec import FORMAT_VERSION
from napari_tractography.tracking import devices

nbclient = pytest.importorskip("nbclient", reason="what runs notebooks is not installed")
nbformat = pytest.importorskip("nbformat", reason="what runs notebooks is not installed")
pytest.importorskip("mkdocs", reason="what builds the site is not installed")

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("**/*.md"))]
]
NEEDS_GPU = "needs a GPU"
# Run elsewhere: as a notebook, below, and in tests/plugin/test_scripting.py.
ELSEWHERE = {"docs/tutorials/python.md", "docs/tutorials/scripting.md"}
OTHER_PROGRAMS = {"dask", "tckgen", "dsi_studio", "napari"}  # shown beside ours
SCHEDULER = "tcp://HOST:8786"  # blocks that name it are compiled, not run
SMALLER = {"10_000_000": "200", "10000000": "200", "1_000_000": "100", "1000000": "200"}
MIDDLE_MM = np.array([-12.0, 4.0, 30.0])  # the documents' seed
LARGEST_FILM = 3_000_000  # bytes


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    code: str
    remark: str  # of the HTML comment in front of it


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of code of a page, in order."""
    found = re.findall(
        r"(?:^<!-- ([^>]*) -->\n)?^```(\w*)\n(.*?)^```",
        (ROOT / page).read_text("utf-8"),
        flags=re.M | re.S,
    )
    return [Block(language, code, remark) for remark, language, code in found]


def pages_with(language: str) -> list[str]:
    """Return the pages whose blocks of a language are run here."""
    languages = {page: {block.language for block in blocks_of(page)} for page in PAGES}
    return [page for page in PAGES if language in languages[page] and page not in ELSEWHERE]


def script(name: str) -> ModuleType:
    """Return a file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ----------------------------------------------------------------------------------- blocks of code


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documents name: fibres along x, everywhere."""
    folder = tmp_path_factory.mktemp("documents")
    coefficients, _, _ = real_sh_tournier(8, np.array([np.pi / 2]), np.array([0.0]), legacy=False)
    volume = np.broadcast_to(coefficients.astype(np.float32), (25, 25, 25, 45))
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = MIDDLE_MM - 24.0
    nib.save(nib.Nifti1Image(volume, affine), folder / "wmfod.nii.gz")
    write_mif(folder / "wmfod.mif", volume, affine)
    tissues = np.zeros((25, 25, 25, 5), np.float32)
    tissues[..., 2] = 1.0
    tissues[[0, 1, 2, -3, -2, -1]] = [1.0, 0.0, 0.0, 0.0, 0.0]  # cortex where the fibres end
    write_mif(folder / "5tt.mif", tissues, affine)
    fa = np.full((25, 25, 25), 0.5, np.float32)
    nib.save(nib.Nifti1Image(fa, affine), folder / "FA.nii.gz")
    for name, at in (("seed", 12), ("a", 20), ("b", 2)):
        mask = np.zeros((25, 25, 25), np.uint8)
        mask[at, 8:17, 8:17] = 1
        if name == "b":
            mask = np.roll(mask, 8, axis=1)  # beside the fibres from the seed
        nib.save(nib.Nifti1Image(mask, affine), folder / f"{name}.nii.gz")
    (folder / "sub-01").mkdir()
    shutil.copy(folder / "wmfod.nii.gz", folder / "sub-01")
    shutil.copy(folder / "wmfod.nii.gz", folder / "sub-01" / "own.nii.gz")
    np.savetxt(folder / "sub-01" / "to_template.txt", np.eye(4))
    shutil.copy(folder / "FA.nii.gz", folder / "sub-01" / "fa.nii.gz")
    at = np.moveaxis(np.indices((25, 25, 25)), 0, -1) @ affine[:3, :3] + affine[:3, 3]
    nib.save(nib.Nifti1Image(at.astype(np.float32), affine), folder / "sub-01" / "warp.nii.gz")
    fod = nt.load_fod(folder / "wmfod.nii.gz")
    seeds = nt.Seeds.in_sphere(MIDDLE_MM, 4.0, 60)
    lines = nt.track(fod, seeds, nt.TrackingParameters.for_fod(fod))
    for name in ("brain.tck", "others.tck", "CST_left.tck", "CST_right.tck"):
        lines.save(folder / name)
    lines.save(folder / "brain.trk", reference=fod)
    np.savetxt(folder / "sift2.txt", np.linspace(0.1, 2.0, len(lines)))
    words = f"-o {folder / 'named.tck'} --seed-sphere=-12,4,30,4 --n-seeds 60 --quiet"
    assert main(["track", str(folder / "wmfod.nii.gz"), *words.split()]) == 0
    project = nt.Project()
    project.add("CST left", nt.Recipe.load(folder / "named.json"))
    project.save(folder / "study.tracts.json")
    return folder


def write_mif(path: Path, values: np.ndarray, affine: np.ndarray) -> None:
    """Write a volume as MRtrix3 does, by its description of the format."""
    head = [
        "mrtrix image",
        f"dim: {','.join(map(str, values.shape))}",
        "vox: 2,2,2,nan",
        "layout: +0,+1,+2,+3",
        "datatype: Float32LE",
        *(
            f"transform: {','.join(f'{x:g}' for x in row)}"
            for row in np.c_[np.eye(3), affine[:3, 3]]
        ),
        "file: . 1024",
        "END",
    ]
    text = "\n".join(head).encode() + b"\n"
    body = np.asarray(values, "<f4").tobytes(order="F")
    path.write_bytes(text.ljust(1024, b"\0") + body)


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of the page's own, with the files that the documents name."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_in_documents() -> dict[str, Any]:
    """Return what blocks of Python name without making it: what the text before them is about."""
    from napari_tractography.recipes.edits import Edit

    fod = nt.load_fod("wmfod.nii.gz")
    mask = np.ones(fod.grid.shape, bool)
    return {
        "nt": nt,
        "np": np,
        "Edit": Edit,
        "affine": fod.grid.affine,
        "coefficients": fod.coefficients,
        "fod": fod,
        "grid": fod.grid,
        "labels": np.asarray(nib.load("a.nii.gz").dataobj)
        + np.asarray(nib.load("seed.nii.gz").dataobj),
        "mask": mask,
        "parameters": nt.TrackingParameters.for_fod(fod),
        "points_mm": np.array([MIDDLE_MM]),
        "recipe": nt.Recipe.load("named.json"),
        "seed_positions": np.array([MIDDLE_MM]),
        "seeds": nt.Seeds.in_sphere(MIDDLE_MM, 4.0, 60),
        "white_matter": mask,
    }


def test_every_block_says_what_it_is_and_is_run() -> None:
    blocks = {page: blocks_of(page) for page in PAGES}
    assert sum(map(len, blocks.values())) > 30
    languages = {page: {b.language for b in found} for page, found in blocks.items()}
    assert {p: n for p, n in languages.items() if not n <= {"python", "sh", "text"}} == {}
    remarks = {b.remark for found in blocks.values() for b in found}
    assert {r for r in remarks if not r.startswith("shown, not run: ")} <= {"", NEEDS_GPU}
    shown = [p for p, found in blocks.items() if any(b.remark.startswith("shown") for b in found)]
    assert shown == ["docs/scale.md", "docs/tutorials/python.md"]
    assert [p for p in ELSEWHERE if not blocks[p]] == []


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_of_the_documents_runs(page: str, here: Path) -> None:
    names = names_in_documents()
    for block in blocks_of(page):
        if block.language == "python" and not block.remark:
            code = compile(here_and_now(block.code), page, "exec")
            if SCHEDULER not in block.code:
                exec(code, names)  # the documents are ours
    if page in {"README.md", "docs/quickstart.md"}:
        streamlines = nib.streamlines.load(here / "bundle.trk").streamlines
        assert len(streamlines) == 1000
        assert np.ptp(streamlines.get_data(), axis=0)[0] > 40  # from end to end of the 50 mm
    if page == "docs/tutorials/sweep.md":
        found = names["found"]
        assert [f"{value:.2f}" for value in found.flat] == ["30.00", "40.00"]
        assert f"{found.values[found.chosen]:.2f}" == "31.92"
        lengths = dict(zip(found.values, found.measured["mean_length_mm"], strict=True))
        assert np.ptp([length for value, length in lengths.items() if value >= 20]) < 1.0
        likeness = dict(zip(found.values, found.measured["likeness"], strict=True))
        assert f"{likeness[25.0]:.2f}, {likeness[found.values[found.chosen]]:.2f}" == "0.86, 0.90"
        assert f"{lengths[60.0] - lengths[found.values[found.chosen]]:.1f}" == "0.7"


@pytest.mark.gpu
def test_python_for_a_gpu_runs(here: Path) -> None:
    problem = devices.cuda_problem()
    if problem:
        pytest.skip(problem)
    import cupy

    names = names_in_documents()
    for name in ("coefficients", "points_mm"):
        names[name] = cupy.asarray(names[name])
    blocks = [b for b in blocks_of("docs/gpu.md") if b.remark == NEEDS_GPU]
    assert blocks
    for block in blocks:
        exec(compile(block.code, "docs/gpu.md", "exec"), names)


def here_and_now(code: str) -> str:
    """Return code with fewer streamlines."""
    for number, smaller in SMALLER.items():
        code = re.sub(rf"(?<!\d){number}(?!\d)", smaller, code)
    return code


def commands_of(page: str) -> Iterator[str]:
    """Yield the commands of a page, one a line; a loop is one."""
    for block in blocks_of(page):
        if block.language != "sh":
            continue
        code = block.code.replace("\\\n", " ")
        yield from [code] if code.startswith("for ") else filter(None, code.splitlines())


@pytest.mark.parametrize("page", pages_with("sh"))
def test_commands_of_the_documents_run(
    page: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    commands = list(commands_of(page))
    assert commands
    for command in commands:
        if SCHEDULER in command:  # which nobody has
            continue
        if command.startswith("for "):
            done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            continue
        is_ours = command.startswith("napari-tractography")
        words = shlex.split(here_and_now(command) if is_ours else command, comments=True)
        while re.match(r"[A-Z_]+=", words[0]):  # of the environment
            words = words[1:]
        check_command(words, capsys)


def check_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command of ours; of others look whether what they name is there."""
    program = Path(words[0]).name
    if program == "napari-tractography":
        if words[1] not in {"demo", "bench"}:  # which open a window, or take long
            assert main(words[1:]) == 0, capsys.readouterr().err
    elif program == "pip":
        extras = re.findall(r"\[(\w+)\]", " ".join(words))
        assert set(extras) <= set(PROJECT["optional-dependencies"])
    elif program == "make":
        assert re.search(rf"^{words[1]}:", MAKEFILE, flags=re.M), words[1]
    elif program == "python":
        named = [w for w in words if w.endswith(".py")] or ["tests"]
        assert all((ROOT / w).exists() for w in named), named
    elif program == "pre-commit" or words[1:2] == ["&&"]:
        assert (ROOT / ".pre-commit-config.yaml").exists()
    else:
        assert program in OTHER_PROGRAMS, words


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(DOCS / "tutorials" / "python.ipynb", as_version=4)
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=600, resources=where)
    client.execute()
    said = "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert re.search(r"^\d+ streamlines from 500 seeds", said, flags=re.M)
    (selected,) = re.findall(r"^(\d+) of (\d+)$", said, flags=re.M)
    assert 0.95 * int(selected[1]) < int(selected[0]) <= int(selected[1])


# --------------------------------------------------------------------------------------- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.glob("**/*.md")}
    pages |= {Path("changelog.html"), Path("contributing.html")}
    assert {path for path in pages if not (site / path).exists()} == set()


@pytest.mark.parametrize(
    ("name", "bundles", "is_live"),
    [
        ("live", ["Crossing"], True),
        ("phantom", ["Arch", "Bowl", "Straight", "Spiral", "Fan"], False),
    ],
)
def test_the_front_page_shows_interactive_pages(
    site: Path, name: str, bundles: list[str], is_live: bool
) -> None:
    front = (site / "index.html").read_text("utf-8")
    shown = re.findall(rf'<iframe src="try/{name}\.html" title="[^"]+" height="\d+" loading', front)
    assert len(shown) == 1
    assert front.count(f'<a href="try/{name}.html">') == 1
    page = ReadPage(site / "try" / f"{name}.html")
    assert [bundle["name"] for bundle in page.content["bundles"]] == bundles
    assert all(bundle["digest"] for bundle in page.content["bundles"])
    assert bool(page.content["live"]) is is_live
    assert (page.content["volume"] is None) is is_live


def test_the_readme_leads_to_where_it_is_tried(site: Path) -> None:
    address = script("docs").site_address()
    readme = (ROOT / "README.md").read_text("utf-8")
    ((page, part),) = re.findall(rf"\({re.escape(address)}/([\w.]+)#([\w-]+)\)", readme)
    assert f'id="{part}"' in (site / page).read_text("utf-8")


def test_links_out_of_the_docs_lead_into_the_site_or_to_the_repository() -> None:
    hooks = script("site_hooks")
    text = "[a](../CHANGELOG.md#b) [c](files.md) [d](../LICENSE) [e](https://x.y/z) [f](#g)"
    assert hooks.in_site(text, "docs") == (
        f"[a](changelog.md#b) [c](files.md) [d]({PROJECT['urls']['Source']}/blob/main/LICENSE) "
        "[e](https://x.y/z) [f](#g)"
    )
    assert hooks.in_site("[a](docs/panel.md)", "") == "[a](panel.md)"
    assert hooks.in_site("[a](../../CHANGELOG.md)", "docs/tutorials") == "[a](../changelog.md)"
    assert hooks.in_site("```python\nf[0](x)\n```", "docs") == "```python\nf[0](x)\n```"


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = set()
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        fetched |= set(
            re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(https?:[^\s\">]+)", text)
        )
        fetched |= {
            link
            for link in re.findall(r"<link\b[^>]*>", text)
            if re.search(r"href=\"?https?:", link) and "canonical" not in link
        }
    assert fetched == set()


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    told = set(re.findall(r"^::: napari_tractography\.(\w+)$", page, flags=re.M))
    assert told == {*nt.__all__, "errors"} - {"__version__"}
    built = (site / "api.html").read_text("utf-8")
    assert re.findall(r":[a-z]+:<code>", built) == []
    for name in told - {"errors"}:
        assert f'id="napari_tractography.{name}"' in built, name


# ------------------------------------------------------------------------------------- the README


def test_the_readme_stands_alone() -> None:
    """In napari's list of plugins nothing lies beside it."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text("utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 15
    assert [target for target in targets if not target.startswith("https://")] == []


def test_the_address_is_said_in_one_place() -> None:
    docs = script("docs")
    moved = docs.readdressed('see "https://github.com/someone/napari-tractography/issues"')
    assert moved == f'see "{PROJECT["urls"]["Source"]}/issues"'
    raw = docs.readdressed(
        "https://raw.githubusercontent.com/someone/napari-tractography/main/a.gif"
    )
    assert raw.endswith("/napari-tractography/main/a.gif")
    site = docs.readdressed("https://someone.github.io/napari-tractography/index.html")
    owner, name = PROJECT["urls"]["Source"].split("/")[-2:]
    assert site == f"https://{owner}.github.io/{name}/index.html"
    assert "someone" not in raw


# ----------------------------------------------------------------------------------- the pictures


def test_the_page_on_files_names_the_format_of_recipes() -> None:
    text = (DOCS / "files.md").read_text("utf-8")
    last = FORMAT_VERSION - 1
    assert f"Recipes have format {FORMAT_VERSION}; formats 1 to {last} are read, too." in text


def test_what_tckgens_page_gives_for_ifod1_is_its_chain() -> None:
    """Nothing but the cone and the floor decides which directions are drawn."""
    found = re.search(r"^\| `iFOD1` \| `([^`]*)`", (DOCS / "tckgen.md").read_text("utf-8"), re.M)
    assert found is not None
    words = ["track", "fod.mif", "-o", "out.tck", *found[1].split()]
    chosen = chosen_parameters(make_parser().parse_args(words))
    fod = make_phantom("cross", lmax=4)
    seeds = nt.Seeds.from_fod(fod, 20)
    named = nt.TrackingParameters.for_fod(fod, **chosen)
    plain = replace(named, look_ahead_mm=0.0, lobe_deg=0.0, min_roundness=0.0)
    assert nt.track(fod, seeds, named).digest() == nt.track(fod, seeds, plain).digest()


def test_every_picture_is_made_by_a_script_and_shown() -> None:
    scripts = "".join(path.read_text("utf-8") for path in (ROOT / "scripts").glob("*.py"))
    text = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    pictures = [p for p in (DOCS / "images").iterdir() if p.is_file()]
    assert pictures
    for picture in pictures:
        assert f'"{picture.name}"' in scripts, picture.name
        assert f"images/{picture.name}" in text, picture.name


def test_the_film_is_small_and_moves() -> None:
    path = DOCS / "images" / "drag.gif"
    assert path.stat().st_size <= LARGEST_FILM
    with Image.open(path) as film:
        frames = [np.asarray(frame.convert("RGB"), int) for frame in ImageSequence.Iterator(film)]
    assert len(frames) >= 20
    lit = [(frame.max(axis=2) > 100).mean() for frame in frames]
    assert min(lit) > 0.02
    changed = [(np.abs(b - a).max(axis=2) > 60).mean() for a, b in pairwise(frames)]
    assert min(changed) > 0.001


@pytest.mark.slow  # it is drawn again
def test_the_figure_of_the_sampler_is_true() -> None:
    """Draws of the program follow the density that is drawn beside them."""
    figure = script("sampler_figure")
    figure.N_DRAWS = 20_000
    fod = figure.make_phantom("cross")
    edges = np.linspace(-figure.CONE_DEG, figure.CONE_DEG, 31)
    counts = np.histogram(figure.draws_deg(fod), edges)[0]
    wanted = figure.expected(fod, edges)
    assert counts.sum() == 20_000
    # One fixed random seed: right draws fail once in ten thousand changes of it.
    assert chisquare(counts, wanted * counts.sum()).pvalue > 1e-4
    shifted = np.roll(wanted, 1)
    assert chisquare(counts, shifted * counts.sum()).pvalue < 1e-4
