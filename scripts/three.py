"""Bring three.js, which draws interactive pages, as the one file that the package keeps.

``python scripts/three.py`` asks npm, which knows where its registry is, for the pinned version,
compares it with the pinned integrity, and joins its two minified modules to one plain script that
defines THREE; ``--check`` writes nothing and exits with 1 where the file in the package is another.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.184.0"
INTEGRITY = (  # of the archive, as the registry states it
    "sha512-wtTRjG92pM5eUg/KuUnHsqSAlPM296brTOcLgMRqEeylYTh/CdtvKUvCyyCQTzFuStieWxvZb8mVTMvdPyUpxg=="
)
SHA256 = "3702a1bf8298bb9832587f297e28051cec4b774c200ac2733451b50e2a4fceb1"  # of the joined file
PAGES = Path(__file__).resolve().parent.parent / "src" / "napari_tractography" / "pages"
KEPT, LICENCE = PAGES / "three.js", PAGES / "three.LICENSE"


def brought() -> tuple[str, str]:
    """Return the joined script and the licence of the pinned version."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"three@{VERSION}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        digest = hashlib.sha512(archive.read_bytes()).digest()
        found = f"sha512-{base64.b64encode(digest).decode('ascii')}"
        if found != INTEGRITY:
            sys.exit(f"three: the archive has the integrity {found}, not {INTEGRITY}.")
        with tarfile.open(archive) as opened:
            core, module, licence = (
                opened.extractfile(f"package/{name}").read().decode("utf-8")  # type: ignore[union-attr]
                for name in ("build/three.core.min.js", "build/three.module.min.js", "LICENSE")
            )
    return joined(core, module), licence


def joined(core: str, module: str) -> str:
    """Return two modules, of which the second imports the first, as a script that defines THREE."""
    core, n_core = re.subn(r"export\{([^}]*)\};?\s*$", lambda found: _returned(found[1]), core)
    module, n_imports = re.subn(
        r'import\{([^}]*)\}from"\./three\.core\.min\.js";',
        lambda found: f"const{{{found[1].replace(' as ', ':')}}}=core;",
        module,
    )
    module, n_passed = re.subn(r'export\{[^}]*\}from"\./three\.core\.min\.js";', "", module)
    module, n_module = re.subn(
        r"export\{([^}]*)\};?\s*$", lambda found: _returned(found[1], "...core,"), module
    )
    if (n_core, n_imports, n_passed, n_module) != (1, 1, 1, 1):
        sys.exit("three: its modules are not written as they were; look at them.")
    return (
        f'const THREE=(()=>{{"use strict";const core=(()=>{{{core.strip()}\n}})();\n'
        f"{module.strip()}\n}})();\n"
    )


def _returned(exported: str, before: str = "") -> str:
    """Return "return{Name:a,...}" for "a as Name, ..."."""
    pairs = [pair.strip().partition(" as ") for pair in exported.split(",")]
    return f"return{{{before}{','.join(f'{name or own}:{own}' for own, _, name in pairs)}}};"


def main() -> int:
    """Write the script and its licence, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    script, licence = brought()
    found = hashlib.sha256(script.encode()).hexdigest()
    if found != SHA256:
        print(f"three: the joined file has the SHA-256 {found}, not {SHA256}.", file=sys.stderr)
        return 1
    if options.check:
        is_kept = KEPT.read_text("utf-8") == script and LICENCE.read_text("utf-8") == licence
        return 0 if is_kept else 1
    KEPT.write_text(script, "utf-8", newline="\n")
    LICENCE.write_text(licence, "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
