"""What MkDocs does beyond mkdocs.yml: pages from outside docs/, and links to them.

Loaded by ``mkdocs build``, see ``hooks`` in mkdocs.yml.
"""

from __future__ import annotations

import logging
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

logger = logging.getLogger("mkdocs.hooks.site")  # whose warnings end a strict build
ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside docs/."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=in_site(text, "")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links that lead out of docs/ to where they lead in the site."""
    return in_site(markdown, posixpath.join("docs", posixpath.dirname(page.file.src_uri)))


def on_page_content(html: str, **_: Any) -> str:
    """Show the roles of docstrings (``:class:`~a.b.C```) as what they name."""

    def named(match: re.Match[str]) -> str:
        name = match[2].rpartition(".")[2] if match[1] else match[2]
        return f"<code>{name}</code>"

    return re.sub(r":(?:attr|class|data|exc|func|meth|mod):<code>(~?)([\w.]+)</code>", named, html)


def in_site(markdown: str, folder: str) -> str:
    """Return a page with its links out of docs/ changed, as read from `folder` of the repository.

    Pages of the site are linked as such, other files of the repository at its address.
    """

    def changed(match: re.Match[str]) -> str:
        target, fragment = match[1], match[2] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        inside = OUTSIDE.get(path) or (path[len("docs/") :] if path.startswith("docs/") else None)
        if inside is None:
            if not (ROOT / path).exists():
                logger.warning("'%s' is linked from '%s', and is not there.", path, folder or ".")
            return f"]({source_address()}/blob/main/{path}{fragment})"
        here = folder[len("docs") :].strip("/")
        return f"]({posixpath.relpath(inside, here or '.')}{fragment})"

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)  # every other one is code
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)", changed, parts[k])
    return "".join(parts)


def source_address() -> str:
    """Return the address of the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["urls"]["Source"])
