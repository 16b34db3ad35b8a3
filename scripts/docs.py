"""Write the pages of docs/ that are derived from the code, or check them and every link.

``python scripts/docs.py`` writes, ``python scripts/docs.py --check`` changes nothing and exits
with 1 when a page is out of date or a link leads nowhere. Called by ``make docs`` and
``make docs-check``, and by the tests.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from napari_tractography.cli.command import make_parser
from napari_tractography.fields.kinds import IMAGE
from napari_tractography.files.formats import (
    fod_endings,
    read_tractogram_endings,
    tractogram_endings,
)
from napari_tractography.model import purposes
from napari_tractography.model.algorithms import ALGORITHMS
from napari_tractography.model.parameters import ParameterSpec, parameter_specs
from napari_tractography.model.stop import StopReason

ROOT = Path(__file__).resolve().parent.parent

PARAMETERS_HEAD = f"""\
# Parameters

<!-- Written by `make docs` from parameters.py, defaults.py, stop.py and model/algorithms of
src/napari_tractography: edit those. -->

The fields of `TrackingParameters`, the controls of the panel and the flags of
`napari-tractography track` are one and the same list. What the thresholds mean is explained in
[Concepts](concepts.md).

The column *default* is `TrackingParameters()`, on which scripts rely; *for an FOD* is what
`TrackingParameters.for_fod(fod)` chooses, from which the panel and `napari-tractography track`
start, and `nt.track(fod, seeds)` where it is given no parameters: see
[Concepts](concepts.md#defaults-that-suit-an-fod). For an [image](from_images.md), whose
orientations are averaged over some voxels, it chooses a step of {IMAGE.step:g} voxels, a smallest
radius of {IMAGE.radius:g} voxel, lengths from {IMAGE.min_length:g} to {IMAGE.max_length:g} voxels
and a minimum amplitude, there a linearity, of {IMAGE.floor:g}.

| parameter | flag | default | for an FOD | values | what it does |
|---|---|---|---|---|---|
"""

ALGORITHMS_HEAD = """
## Algorithms

| algorithm | what it does | parameters of its own |
|---|---|---|
"""

REASONS_HEAD = """
## Why streamlines end

Every run counts these, per half streamline or per seed, and a run that gives nothing names the
commonest of them and its remedy.

| code | name | reason | last point | streamline | remedy |
|---|---|---|---|---|---|
"""

COMMANDS_HEAD = """\
# The command

<!-- Written by `make docs` from the help of src/napari_tractography/cli/. -->

`napari-tractography COMMAND --help` says what is on this page. When something is wrong with the
input, one line says what and how to put it right, the exit code is 2, and no file is left
half-written. Older files are replaced, but never one that the command reads.

- **Seeds** are drawn in spheres, in a mask, or in proportion to the FOD; **regions** steer. The
  seeds of several spheres are numbered as one list, so that no two share a random offset.
- **Recipes.** `track` writes, beside `bundle.trk`, the recipe `bundle.json`: input files with their
  SHA-256, seeds, regions, parameters, versions, backend and device, and the digest of the
  streamlines. `replay` makes them again from it, says which input has changed, and proves by the
  digest that the streamlines are the same, bit for bit. When they are not, its exit code is 1 and
  it says what differs: backend, device or versions. Diffusion and transport are the same on another
  backend or device only to a [tolerance](gpu.md#same-streamlines). Files that have moved are also
  sought beside the recipe. One recipe serves `bundle.trk` and `bundle.tck` of the same streamlines;
  others need another name. In Python: `nt.Recipe.load("bundle.json").run()`.
- **Projects.** `replay study.tracts.json -o folder` makes all
  [bundles](concepts.md#bundles-and-projects) of a project and compares each; names of files come
  from names of bundles. With `--fod` they are tracked in another subject's FOD, in the same space:
  nothing is compared then, and bundles from files, weights and edits by streamline number are left
  out. A pattern, `--fod "sub-*/wmfod.nii.gz"`, is [many subjects](scale.md#many-subjects).
- **Scale.** Streamlines are written as they come; `--cluster` tracks on the workers of a
  [Dask cluster](scale.md). Ctrl-C and SIGTERM end the command with one line and the exit codes 130
  and 143: files that were finished stay, and no others are left.
- **Selection.** `select` takes streamlines of a file by
  [regions on their whole path](concepts.md#selecting-without-tracking), lengths and weights.
- **Maps.** `density` counts each streamline once in every voxel that it enters, following its
  segments exactly; `connectome` counts the streamlines between labels, by their two ends. With
  `--weights` both sum what each streamline stands for. `density --by-reason` maps where streamlines
  [ended, and why](parameters.md#why-streamlines-end): a volume for each reason.
- **Coherence.** `coherence` reads the FOD file in each basis, frame, flip and swap of its direction
  axes, peaks and tensors in each of their axes. *Symmetry* tells the bases apart: a fibre's lobe
  looks the same from all sides, unless the harmonics are the wrong ones. *Coherence* tells how the
  axes lie: along a fibre, neighbouring voxels agree on its direction. Readings within three
  standard errors of the best cannot be distinguished by the data, and are named: in a thin slab of
  fibres within its plane, for one, a flip across it cannot be seen.
  Both are judged on voxels that were not fitted, so that noise favours no reading. Where peaks,
  tensors, diffusion-weighted images or noise are read as an FOD, the answer is that the voxels do
  not tell.

The tracking parameters, which `track` takes as flags too, have a page of their own:
[Parameters](parameters.md).
"""


def _values(spec: ParameterSpec) -> str:
    if spec.choices:
        return ", ".join(f"`{choice}`" for choice in spec.choices)
    unit = f" {spec.unit}" if spec.unit else ""
    if isinstance(spec.default, bool):
        return "`True`, `False`"
    if spec.minimum is not None and spec.maximum is not None:
        # In words, since Python would write nineteen digits.
        top = "2^63 - 1" if spec.maximum == 2**63 - 1 else f"{spec.maximum:g}"
        return f"{spec.minimum:g} to {top}{unit}"
    return spec.type.__name__ + unit


def parameters_page() -> str:
    """Return docs/parameters.md as it should be."""
    rows = []
    for spec in parameter_specs():
        unit = f" {spec.unit}" if spec.unit else ""
        default = "none" if spec.default is None else f"{spec.default}{unit}"
        cells = (f"`{spec.name}`", f"`{spec.flag}`", default, spec.by_fod or "the same")
        rows.append(f"| {' | '.join((*cells, _values(spec), spec.help))} |\n")
    reasons = [
        f"| {reason.value} | `{reason.name}` | {reason.text} | "
        f"{'kept' if reason.keeps_point else 'left out'} | "
        f"{'discarded' if reason.rejects else 'kept'} | {reason.remedy} |\n"
        for reason in StopReason
    ]
    algorithms = [
        f"| `{row.name}` | {row.help} | {', '.join(f'`{name}`' for name in row.own_parameters)} |\n"
        for row in ALGORITHMS
    ]
    page = PARAMETERS_HEAD + "".join(rows) + ALGORITHMS_HEAD + "".join(algorithms)
    return page + REASONS_HEAD + "".join(reasons)


def commands_page() -> str:
    """Return docs/commands.md as it should be.

    Not by format_help(), whose layout changes with the version of Python.
    """
    (commands,) = [
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    summaries = {action.dest: action.help or "" for action in commands._choices_actions}
    text = COMMANDS_HEAD
    for name, parser in commands.choices.items():
        rows = [
            f"| {_spelling(action)} | {_cell(action.help or '')} |\n"
            for action in parser._actions
            if not isinstance(action, argparse._HelpAction)
            and not action.dest.startswith("parameter_")
        ]
        summary = summaries[name]
        about = parser.description or f"{summary[0].upper()}{summary[1:]}."
        text += f"\n## {name}\n\n{about}\n\n| | |\n|---|---|\n" + "".join(rows)
    return text


def _spelling(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    names = ", ".join(action.option_strings)
    return _cell(f"`{' '.join(filter(None, (names, value)))}`")


def _cell(text: str) -> str:
    return text.replace("%%", "%").replace("|", "\\|")


MANIFEST = "src/napari_tractography/napari.yaml"
LARGEST = 2**31 - 1  # that napari's Preferences can show
SETTINGS_HEAD = "  # What the panel remembers. Written by `make docs` from panel/settings.py.\n"


def _with_endings(manifest: str) -> str:
    """Return the manifest with the endings that napari asks us for, as the formats have them."""
    rows = (
        ("read_fod", "filename_patterns", [f"*{ending}" for ending in fod_endings()]),
        ("read_tractogram", "filename_patterns", [f"*{end}" for end in read_tractogram_endings()]),
        ("write_streamlines", "filename_extensions", list(tractogram_endings())),
    )
    for command, key, endings in rows:
        manifest, n = re.subn(
            rf"(- command: napari-tractography\.{command}\n(?:      .*\n)*?      ){key}: .*",
            rf"\g<1>{key}: {json.dumps(endings)}",
            manifest,
        )
        assert n == 1, f"{MANIFEST} has no {key} of {command}"
    return manifest


PALETTE_HEAD = (
    "    # What the panel does, for the palette. Written by `make docs` from panel/keys.py.\n"
)


def _with_commands(manifest: str) -> str:
    """Return the manifest with the commands that napari's palette lists."""
    from napari_tractography.plugin.panel.keys import COMMANDS

    before, _, rest = manifest.partition("  widgets:\n")
    rows = [
        f"    - id: napari-tractography.{name}\n"
        f"      title: {json.dumps(command.title, ensure_ascii=False)}\n"
        f"      python_name: napari_tractography.plugin.panel.keys:{name}\n"
        for name, command in COMMANDS.items()
    ]
    own, _, _ = before.partition(PALETTE_HEAD)
    return f"{own}{PALETTE_HEAD}{''.join(rows)}  widgets:\n{rest}"


KEYS_HEAD = """\
# Keys

<!-- Written by `make docs` from plugin/panel/keys.py and plugin/streamlines/commands.py. -->

As long as the panel is open. napari lists them under Preferences > Shortcuts, *Viewer key
bindings*, where each can be changed, and those without a key can get one. All that the panel does
at a key is in the command palette as well, which opens the panel where it is not there yet. On a
Mac Ctrl is Cmd. Clicks and keys of the list of bundles are in [the panel](panel.md#bundles), those
of seeds in [Seeds](panel.md#seeds).

| key | command | what it does |
|---|---|---|
"""

LAYER_KEYS_HEAD = """
## Streamlines

While a Streamlines layer is selected in the layer list.

| key | button | what it does |
|---|---|---|
"""


def keys_page() -> str:
    """Return docs/keys.md as it should be."""
    from napari.utils.key_bindings import coerce_keybinding

    from napari_tractography.plugin.panel.keys import COMMANDS
    from napari_tractography.plugin.streamlines import commands

    def named(key: object) -> str:
        parts = str(coerce_keybinding(key)).split("+")
        return f"`{'+'.join({'Meta': 'Ctrl', 'Cmd': 'Ctrl'}.get(part, part) for part in parts)}`"

    rows = [
        f"| {named(each.key) if each.key else ''} | {each.title} | {each.help} |\n"
        for each in COMMANDS.values()
    ]
    of_layer = [
        f"| {', '.join(map(named, each.keys))} | {each.name} | {each.help} |\n"
        for each in commands.COMMANDS
    ]
    return KEYS_HEAD + "".join(rows) + LAYER_KEYS_HEAD + "".join(of_layer)


def manifest_page() -> str:
    """Return the manifest with the endings of files and the settings of the panel as they are."""
    import yaml

    from napari_tractography.plugin.panel.settings import kept_specs, setting_name

    settings = {
        key: {"title": title, "properties": {setting_name(s.name): _setting(s) for s in specs}}
        for key, (title, specs) in kept_specs().items()
    }
    text = yaml.safe_dump({"configurations": settings}, sort_keys=False, width=96)
    own, _, _ = (ROOT / MANIFEST).read_text("utf-8").partition(SETTINGS_HEAD)
    own = _with_commands(_with_endings(own))
    return own + SETTINGS_HEAD + "".join(f"  {line}\n" for line in text.splitlines())


def _setting(spec: ParameterSpec) -> dict[str, object]:
    unit = f" ({spec.unit})" if spec.unit else ""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    setting: dict[str, object] = {
        "type": kinds[spec.type],
        "default": 0 if spec.default is None else spec.default,  # no setting can be empty
        "title": spec.label + unit,
        "description": spec.help,
    }
    if spec.choices:
        setting["enum"] = list(spec.choices)
    if spec.minimum is not None and spec.maximum is not None:
        minimum = 0 if spec.default is None else spec.minimum
        setting |= {"minimum": minimum, "maximum": min(spec.maximum, LARGEST)}
    return setting


PANEL = "docs/panel.md"
COLOURS_HEAD = "<!-- Written by `make docs` from MODES in plugin/streamlines/colours.py. -->\n"
COLOURS_FOOT = "<!-- Up to here. -->\n"


def panel_page() -> str:
    """Return docs/panel.md with the table of colours as it should be."""
    from napari_tractography.plugin.panel.display.appearance import colour_help

    before, _, rest = (ROOT / PANEL).read_text("utf-8").partition(COLOURS_HEAD)
    _, _, after = rest.partition(COLOURS_FOOT)
    rows = "".join(f"| {name} | {text} |\n" for name, text in colour_help().items())
    table = f"| colour by | what the colours mean |\n|---|---|\n{rows}"
    return f"{before}{COLOURS_HEAD}\n{table}\n{COLOURS_FOOT}{after}"


CONCEPTS = "docs/concepts.md"
MEASURED_HEAD = "<!-- Written by `make docs` from model/purposes.py and model/measured.json. -->\n"


TRUTH_WORDS = {
    "crossing20": "crossing at 20 degrees",
    "crossing30": "crossing at 30 degrees",
    "crossing45": "crossing at 45 degrees",
    "crossing60": "crossing at 60 degrees",
    "crossing3": "three bundles that cross",
    "kissing150": "kissing at 150 degrees",
    "kissing90": "kissing at 90 degrees",
    "fanning": "a fan",
    "fanning3": "three fans",
    "tee": "ends at the side of another bundle",
}
KIND_WORDS = {"exact": "lobes with some noise", "csd20": "CSD at SNR 20"}
SETTING_WORDS = {
    "in their lobe": "probabilistic",
    "all lobes round": "probabilistic, not by roundness",
    "of all lobes": "probabilistic, all lobes",
    "keeps its side": "transport",
    "turns in all lobes": "transport, in all lobes",
}
SHARES_HEAD = "| valid / invalid, % of streamlines |"
MEASURED_WHERE = re.compile(
    rf"(`{re.escape(purposes.MEASURED_BY)} --algorithms ([^`]*)`,) [^.]*?\d{{4}}-\d\d-\d\d"
)


def measured_cells(text: str) -> str:
    """Return a text with the figures of its tables of truths as they were measured."""
    truths = {}
    for truth in purposes.measured()["probabilistic"].shares:
        name, kind = truth.split(", ")
        is_phantomas, name = name.startswith("phantomas-"), name.removeprefix("phantomas-")
        words = f"{TRUTH_WORDS.get(name, name)}, {KIND_WORDS[kind]}"
        truths[f"phantomas, {words}" if is_phantomas else words] = truth
    columns: list[str] = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith(SHARES_HEAD) and set(cells[1:]) <= set(SETTING_WORDS):
            columns = cells[1:]
        elif not line.startswith("|"):
            columns = []
        elif columns and not line.startswith("|---"):
            rows = [purposes.measured()[SETTING_WORDS[each]] for each in columns]
            own = [row.shares[truths[cells[0]]] if cells[0] in truths else row.mean for row in rows]
            n_fods = len(rows[0].shares)
            name = cells[0] if cells[0] in truths else f"mean of {n_fods} FODs"
            lines[i] = f"| {' | '.join([name, *map(str, own)])} |"
    text = "\n".join(lines) + "\n"
    return MEASURED_WHERE.sub(lambda m: f"{m[1]} {purposes.measured_where(*m[2].split())}", text)


def measured_words(text: str) -> str:
    """Return a text with the means that its sentences name as they were measured."""
    means = {name: row.mean for name, row in purposes.measured().items()}
    n_fods = len(purposes.measured()["probabilistic"].shares)
    ours, theirs, transport = (means[x] for x in ("probabilistic", "tckgen iFOD1", "transport"))
    floor = means["probabilistic, a floor of 0.1"]
    tee = [
        purposes.measured()[name].shares["tee, csd20"].valid
        for name in ("probabilistic", "probabilistic, a floor of 0.1")
    ]
    page = (ROOT / "docs" / "validation.md").read_text("utf-8")
    density = [
        re.search(rf"^\| fod_template.*?\| {setting} \|[^|]*\| ([\d.]+) \|", page, flags=re.M)[1]
        for setting in ("for_fod", "for_fod, neither")
    ]
    for pattern, figures in (
        (r"(?<=drawn )\d+ % are joined rightly and \d+ % wrongly", (ours.valid, ours.invalid)),
        (r"(?<=iFOD1 joins )\d+ and \d+ %", (theirs.valid, theirs.invalid)),
        (r"(?<=joins most, )\d+ and \d+ %", (transport.valid, transport.invalid)),
        (r"\d+ % of streamlines are valid with it and \d+ %", (ours.valid, floor.valid)),
        (r"\d+ and \d+ % where a bundle ends at", tee),
        (r"(?<=as the mean of )\d+(?=\s+FODs)", (n_fods,)),
        (r"(?<=is as iFOD2's \(r )0\.\d+", density[:1]),
        (r"(?<=without \(r )0\.\d+", density[:1]),
        (r"(?<=r )0\.\d+ beside 0\.\d+(?= for lines that neither)", density),
    ):
        text = re.sub(pattern, functools.partial(_with_figures, figures), text)
    return text


def _with_figures(figures: Sequence[object], found: re.Match[str]) -> str:
    left = iter(figures)
    return re.sub(r"[\d.]+", lambda _: str(next(left)), found[0])


def concepts_page() -> str:
    """Return docs/concepts.md with what was measured of the algorithms as it should be."""
    text = measured_words(measured_cells((ROOT / CONCEPTS).read_text("utf-8")))
    before, _, rest = text.partition(MEASURED_HEAD)
    _, _, after = rest.partition(COLOURS_FOOT)
    rows = [
        f"| valid / invalid, % of streamlines | {' | '.join(purposes.TABLE_HEADINGS)} |",
        "|---|" + "---:|" * len(purposes.TABLE_HEADINGS),
        *(f"| {' | '.join(row)} |" for row in purposes.measured_table()),
    ]
    how = f"{purposes.MEASURED_HOW} ({purposes.measured_where()}, `{purposes.MEASURED_BY}`.)"
    table = "\n".join(rows)
    return (
        f"{before}{MEASURED_HEAD}\n{how}\n\n{table}\n\n{purposes.reading()}\n\n"
        f"{COLOURS_FOOT}{after}"
    )


def source_address() -> str:
    """Return the address of the repository, which pyproject.toml alone says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["urls"]["Source"])


def site_address() -> str:
    """Return the address at which .github/workflows/site.yml publishes the site."""
    owner, name = source_address().split("/")[-2:]
    return f"https://{owner}.github.io/{name}"


def readdressed(text: str) -> str:
    """Return a text with the addresses of a repository of this name, and its site, made ours."""
    address = source_address()
    raw = address.replace("https://github.com/", "https://raw.githubusercontent.com/")
    name = r"[\w-]+/napari-tractography(?=[/\"])"
    text = re.sub(r"https://github\.com/" + name, address, text)
    text = re.sub(r"https://[\w-]+\.github\.io/napari-tractography(?=/)", site_address(), text)
    return re.sub(r"https://raw\.githubusercontent\.com/" + name, raw, text)


SPEED = re.compile(r"\d+ to \d+ times as many steps a second")
MEASURED = re.compile(
    r"^\| probabilistic, trilinear, \d+ degrees \|[^|]*\| MRtrix3 iFOD1[^|]*\|[^|]*\| ([\d.]+)x",
    flags=re.M,
)


def readme_page() -> str:
    """Return README.md with the addresses and the figures as they should be."""
    measured = MEASURED.findall((ROOT / "docs" / "benchmarks.md").read_text("utf-8"))
    ratios = [round(float(ratio)) for ratio in measured]
    speed = f"{min(ratios)} to {max(ratios)} times as many steps a second"
    return measured_words(SPEED.sub(speed, readdressed((ROOT / "README.md").read_text("utf-8"))))


def citation_page() -> str:
    """Return CITATION.cff with the address as it should be."""
    return readdressed((ROOT / "CITATION.cff").read_text("utf-8"))


TUTORIAL = "docs/tutorials/python.md"
SHOWN = "<!-- shown, not run"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_page() -> str:
    """Return the notebook of the tutorial in Python: its blocks of code as cells."""
    page = (ROOT / TUTORIAL).read_text("utf-8")
    parts = re.split(r"^```python\n(.*?)^```\n", page, flags=re.M | re.S)
    cells = []
    for k in range(0, len(parts), 2):
        text, code = parts[k], parts[k + 1] if k + 1 < len(parts) else ""
        is_shown = SHOWN in text
        text = re.sub(r"<!--.*?-->\n*", "", text, flags=re.S).strip()
        if is_shown:
            text, code = f"{text}\n\n```python\n{code}```", ""
        cells += [_cell_of("markdown", text)] if text else []
        cells += [_cell_of("code", code.strip())] if code else []
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    notebook = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell_of(kind: str, text: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": text.splitlines(keepends=True)}


PAGES = {
    MANIFEST: manifest_page,
    PANEL: panel_page,
    CONCEPTS: concepts_page,
    "docs/commands.md": commands_page,
    "docs/keys.md": keys_page,
    "docs/parameters.md": parameters_page,
    "docs/tutorials/python.ipynb": notebook_page,
    "README.md": readme_page,
    "CITATION.cff": citation_page,
}


def _anchor(heading: str) -> str:
    """Return the fragment by which Markdown viewers link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(root: Path = ROOT) -> list[str]:
    """Return "file: target" for each relative link of the Markdown pages that leads nowhere."""
    own = re.compile(
        re.escape(source_address()).replace(
            r"github\.com", "(?:github|raw.githubusercontent)\\.com"
        )
        + "(?:/blob)?/main/"
    )
    broken = []
    for page in [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]:
        prose = re.sub(r"^```.*?^```|<!--.*?-->", "", page.read_text("utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path, _, fragment = own.sub("", target).partition("#")
            file = (page.parent / path) if path else page
            if own.match(target):
                file = root / path
            elif re.match(r"[a-z]+:", target):
                continue
            found = file.exists()
            if found and fragment:
                headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), flags=re.M)
                found = fragment in {_anchor(heading) for heading in headings}
            if not found:
                broken.append(f"{page.relative_to(root)}: {target}")
    return broken


def stale_pages(root: Path = ROOT) -> list[str]:
    """Return the derived pages that are absent or differ from what the code says."""
    return [
        name
        for name, write in PAGES.items()
        if not (root / name).exists() or (root / name).read_text("utf-8") != write()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, only tell")
    if not parser.parse_args(arguments).check:
        for name, write in PAGES.items():
            (ROOT / name).write_text(write(), "utf-8")
        return 0
    problems = [f"{name} is out of date; run `make docs`." for name in stale_pages()]
    problems += [f"{link} leads nowhere." for link in broken_links()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
