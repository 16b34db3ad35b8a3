"""The repository itself: manifest, versions, set-up, and that the documents are true."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import napari_tractography

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "napari_tractography"
DOCUMENTS = ["README.md", "docs/quickstart.md"]

# ------------------------------------------------------------------------------ manifest, metadata


def test_manifest_at_the_root_shows_the_one_in_the_package() -> None:
    link = ROOT / "napari.yaml"
    assert link.is_symlink()
    assert not os.readlink(link).startswith("/")
    assert link.resolve() == SOURCE / "napari.yaml"


def test_manifest_is_valid() -> None:
    from npe2 import PluginManifest

    manifest = PluginManifest.from_file(ROOT / "napari.yaml")
    assert manifest.name == "napari-tractography"
    commands = {command.id for command in manifest.contributions.commands or ()}
    assert len(commands) == len(manifest.contributions.commands or ())


def test_manifest_names_functions_that_exist() -> None:
    from npe2 import PluginManifest

    manifest = PluginManifest.from_file(ROOT / "napari.yaml")
    manifest.validate_imports()
    names = [command.python_name for command in manifest.contributions.commands or ()]
    assert names
    for module, name in (str(named).split(":") for named in names):
        assert callable(getattr(importlib.import_module(module), name))


def test_versions_agree() -> None:
    """pyproject.toml has none of its own; the other two are read by people and by machines."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    written = ROOT / settings["tool"]["hatch"]["version"]["path"]
    assert written == SOURCE / "version.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)
    assert newest is not None
    assert {str(citation["version"]), newest[1]} == {napari_tractography.__version__}


def test_archives_are_of_the_version(distributions: dict[str, Path]) -> None:
    names = {path.name.split("-")[1].removesuffix(".tar.gz") for path in distributions.values()}
    assert names == {napari_tractography.__version__}


def test_wheel_holds_all_that_is_needed_at_run_time(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["whl"]) as archive:
        held = set(archive.namelist())
    wanted = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.suffix not in {".pyc", ".nbc", ".nbi"} and path.is_file()
    }
    assert wanted <= held
    assert not [name for name in held if "__pycache__" in name]
    assert any(name.endswith("licenses/LICENSE") for name in held)


# --------------------------------------------------------------------------------- what is written


def _own_files() -> Iterator[Path]:
    # In a worktree .git is a file, which is no part of it.
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != ".git")
    for folder in (".ci", ".github", "benchmarks", "docs", "examples", "scripts", "src", "tests"):
        yield from (
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )


def test_no_file_names_a_registry_or_one_persons_folders() -> None:
    # Where packages come from is for each machine to say. Spelt so that this file passes too.
    forbidden = [
        "pypi" + ".org",
        "python" + "hosted",
        "anaconda" + ".org",
        "ghcr" + ".io",
        "docker" + ".io",
        "index" + "-url",
        "find" + "-links",
        "/" + "work/",
        "/" + "home/",
    ]
    found = []
    for path in _own_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.relative_to(ROOT)}: {word}" for word in forbidden if word in text]
    assert found == []


def test_no_file_is_left_out_by_mypy_and_those_without_signatures_exist() -> None:
    assert not [p.name for p in SOURCE.rglob("*.py") if "ignore-errors" in p.read_text("utf-8")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    (loose,) = (o for o in settings["overrides"] if o.get("disallow_untyped_defs") is False)
    for name in loose["module"]:
        path = (ROOT / "src").joinpath(*name.removesuffix(".*").split("."))
        assert path.is_dir() if name.endswith(".*") else path.with_suffix(".py").is_file(), name


@pytest.fixture(scope="module")
def docs_script(load_script: Any) -> ModuleType:
    return load_script("docs")


def test_pages_derived_from_the_code_are_up_to_date(docs_script: ModuleType) -> None:
    assert docs_script.stale_pages() == [], "run `make docs`"


def test_stale_page_is_noticed(docs_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert docs_script.stale_pages(tmp_path) == list(docs_script.PAGES)
    for name, write in docs_script.PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(write(), "utf-8")
    (tmp_path / "docs" / "parameters.md").write_text("# Parameters\n")
    assert docs_script.stale_pages(tmp_path) == ["docs/parameters.md"]


def test_links_lead_somewhere(docs_script: ModuleType) -> None:
    assert docs_script.broken_links() == []


def test_broken_links_are_noticed(docs_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Here we are\n[a](#here-we-are) [b](#there) [c](README.md) [d](gone.md) [e](https://x)\n"
    )
    assert docs_script.broken_links(tmp_path) == ["README.md: #there", "README.md: gone.md"]


# ------------------------------------------------------------------------------------- the set-up

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="system packages are Debian's")


def _plan_of_make(*arguments: str) -> str:
    """Return what make would do, without doing it."""
    return subprocess.run(
        ["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@needs_make
@pytest.mark.parametrize("document", [*DOCUMENTS, "CONTRIBUTING.md", "docs/install.md"])
def test_make_knows_every_target_of_the_documents(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    targets = set(re.findall(r"(?:^|`|python3 )make ([a-z-]+)", text, flags=re.M))
    for target in targets:
        assert _plan_of_make(target)
    assert targets or document == "docs/quickstart.md"


@needs_make
def test_demo_takes_a_path_with_spaces() -> None:
    assert '--fod "my data/fod.nii.gz"' in _plan_of_make("demo", "FOD=my data/fod.nii.gz")
    assert "--fod" not in _plan_of_make("demo")


def test_continuous_integration_calls_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == [
        "set -euo pipefail",
        'cd "$(dirname "${BASH_SOURCE[0]}")/.."',
        "exec make test",
    ]


def _workflow(name: str) -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert isinstance(workflow, dict)
    return workflow


def test_workflows_test_every_system_and_every_python_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = [name.rpartition(" ")[2] for name in project["classifiers"] if ":: 3." in name]
    matrix = _workflow("tests")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == stated
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "windows", "macos"}


@needs_make
@pytest.mark.parametrize("name", ["tests", "test-all", "site"])
def test_make_knows_every_target_of_the_workflows(name: str) -> None:
    jobs = _workflow(name)["jobs"].values()
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    called = [command.split()[1] for command in commands if command.startswith("make ")]
    assert called
    for target in called:
        assert _plan_of_make(target)


def test_a_release_is_tested_as_a_whole_and_published_without_a_token() -> None:
    jobs = _workflow("release")["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    texts = [path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.yml")]
    assert len(texts) > len(jobs)
    assert not [text for text in texts if "secrets." in text]


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Path:
    """A copy of what set-up reads, without an environment."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _set_up(checkout: Path, purpose: str, **environment: str) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, checkout / "scripts" / "setup.sh", purpose],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("purpose", ["demo", "python"])
def test_set_up_names_the_python_that_will_not_do(bare_checkout: Path, purpose: str) -> None:
    result = _set_up(bare_checkout, purpose, SKIP_SYSTEM_CHECK="1", PYTHON="/nowhere/python2")
    assert result.returncode == 1
    assert result.stderr == "setup: PYTHON=/nowhere/python2 is no Python 3.11 or newer.\n"
    assert result.stdout == ""
    assert not list(bare_checkout.glob(".venv*"))


def test_another_python_has_to_be_named(bare_checkout: Path) -> None:
    result = subprocess.run(
        [bare_checkout / "scripts" / "python.sh"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "make python PYTHON=python3.13" in result.stderr


@needs_linux
def test_set_up_names_what_is_missing_where_it_may_not_install(
    bare_checkout: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"  # a machine with next to nothing, and no apt
    programs.mkdir()
    for name in ("dirname", "uname", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "ldconfig").write_text("#!/bin/sh\necho '\tlibEGL.so.1 (libc6,x86-64) => x'\n")
    (programs / "ldconfig").chmod(0o755)
    result = _set_up(bare_checkout, "test", PATH=str(programs))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    named = set(result.stderr.partition("screen: ")[2].partition(". Those")[0].split())
    assert {"libgl1", "libxcb-cursor0", "libxkbcommon-x11-0", "xvfb", "xauth", "g++"} <= named
    assert "libegl1" not in named
    assert not (bare_checkout / ".venv").exists()


@needs_linux
def test_set_up_wants_no_virtual_screen_where_there_is_a_real_one(
    bare_checkout: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dirname", "uname", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "ldconfig").write_text("#!/bin/sh\n")
    (programs / "ldconfig").chmod(0o755)
    result = _set_up(bare_checkout, "demo", PATH=str(programs), DISPLAY=":0")
    assert "libgl1" in result.stderr
    assert "xvfb" not in result.stderr
    assert "g++" not in result.stderr
