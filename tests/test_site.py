"""A site with a broken link, a missing page or a broken anchor is not built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="what builds the site is not installed")

pytestmark = pytest.mark.slow  # test_docs.py builds our own site
ROOT = Path(__file__).resolve().parents[1]
# Each with what a warning has to name.
BROKEN_LINKS = {
    "[a page](nowhere.md)": "nowhere.md",
    "[a part of another page](other.md#no-such-part)": "other.md#no-such-part",
    "[a part of the page](#no-part-of-mine)": "no-part-of-mine",
    "![a picture](images/nowhere.png)": "images/nowhere.png",
    "[a file of the repository](../src/nowhere.py)": "src/nowhere.py",
    "[an address of the site](/nowhere.html)": "/nowhere.html",
}


def build_small_site(root: Path, text: str, nav: str) -> list[str]:
    """Build a repository with two pages as `make site` does; return the warnings that end it."""
    pages = {
        "docs/index.md": f"# One\n\n## Part\n\n{text}\n",
        "docs/other.md": "# Other\n\n[one](index.md#part)\n",
        "CHANGELOG.md": "# Changelog\n",
        "CONTRIBUTING.md": "# Contributing\n",
        "LICENSE": "",
        "pyproject.toml": '[project.urls]\nSource = "https://x.y/z"\n',
        "scripts/site_hooks.py": (ROOT / "scripts" / "site_hooks.py").read_text("utf-8"),
        "mkdocs.yml": f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        "hooks: [scripts/site_hooks.py]\n"
        f"nav: [index.md, changelog.md, contributing.md, {nav}]\n",
    }
    for name, content in pages.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert bool(done.returncode) == ("strict mode" in said), said
    warnings = [line for line in said.splitlines() if line.startswith("WARNING")]
    assert bool(done.returncode) == bool(warnings), said
    return warnings


def test_a_site_without_faults_is_built(tmp_path: Path) -> None:
    links = "[o](other.md#other) [p](#part) [l](../LICENSE) [c](../CHANGELOG.md#changelog)"
    assert build_small_site(tmp_path, links, "other.md") == []


def test_every_broken_link_and_page_ends_the_build_of_the_site(tmp_path: Path) -> None:
    warnings = build_small_site(tmp_path, "\n\n".join(BROKEN_LINKS), "third.md")
    faults = [*BROKEN_LINKS.values(), "other.md", "third.md"]  # left out, and not there
    assert [x for x in faults if not any(f"{x}" in warning for warning in warnings)] == []
    assert len(warnings) == len(faults)
