"""One HTML file about one run or several: opens from disk, fetches nothing, needs no server. Reads run folders only."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hotloop.core.errors import UserError
from hotloop.report import tables
from hotloop.report.chart import Chart, Part
from hotloop.report.charts import parts
from hotloop.report.curves import Group, grouped
from hotloop.report.figures import figures, samples, shown
from hotloop.report.reading import Run, number, read
from hotloop.report.tables import cell

NAME = "report.html"
_FOOTER = (
    "made by hotloop from the run folder alone · curves have at most 2,000 points; where rows were left out, the "
    "lowest and highest of each stretch stay · drag to zoom, double-click to go back"
)
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write(runs: Sequence[Path], out: Path | None = None) -> Path:
    """The report of these runs -> where it stands: in the folder of the one run, or here for several."""
    if not runs:
        raise UserError("report needs a run: hotloop report RUN")
    folders = [Path(run) for run in runs]
    found = [read(folder, with_phases=len(folders) == 1) for folder in folders]
    target = Path(out) if out is not None else (folders[0] / NAME if len(folders) == 1 else Path(NAME))
    return put(page(found), target, "--out")


def put(text: str, target: Path, flag: str) -> Path:
    """Write a page whole; `flag` is how another place for it is named."""
    temporary = target.with_name(f".writing-{target.name}")
    try:
        temporary.write_text(text, "utf-8", errors="backslashreplace")
        os.replace(temporary, target)
    except OSError as why:
        raise UserError(f"cannot write {target}: {why.strerror}; free space or choose another with {flag}") from None
    return target


def page(runs: Sequence[Run], sections: Mapping[str, str] = MappingProxyType({})) -> str:
    """The whole file. sections: workload -> HTML that stands before its charts."""
    workloads = grouped(runs)
    drawn: list[Chart] = []
    among = len(workloads) > 1
    body = "".join(_workload(name, groups, drawn, among, sections.get(name, "")) for name, groups in workloads.items())
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return "".join(
        [
            "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n",
            f'<meta http-equiv=Content-Security-Policy content="{POLICY}">\n',
            '<meta name=viewport content="width=device-width, initial-scale=1">\n',
            '<meta name=color-scheme content="light dark">\n<link rel=icon href="data:,">\n',
            f"<title>{cell(', '.join(workloads))} · {cell(title)}</title>\n",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<main>\n",
            body,
            f"<footer>{_FOOTER}</footer>\n",
            "</main>\n",
            f"<script type=application/json id=charts>{embedded([c.plain() for c in drawn])}</script>\n",
            f"<script>{_plotly()}</script>\n",
            f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def embedded(value: Any) -> str:
    """JSON inside a page: no text in it can end the element that holds it."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


@cache
def _plotly() -> str:
    """The bundle that plotly's Python package brings along, found without importing it."""
    spec = importlib.util.find_spec("plotly")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = next((p for f in folders if (p := Path(f) / "package_data" / "plotly.min.js").is_file()), None)
    if path is None:
        raise UserError("plotly's plotly.min.js is not installed; pip install --force-reinstall plotly")
    # Nothing in today's bundle ends a script element; in a later one, the escape means the same in any string.
    return path.read_text("utf-8").replace("</script", "<\\/script")


# --- the body --------------------------------------------------------------------------------------------------------


def _workload(name: str, groups: Sequence[Group], drawn: list[Chart], among: bool, told: str) -> str:
    runs = [run for group in groups for run in group.runs]
    findings = [f for run in runs for f in run.findings]
    charts = "".join(_part(part, drawn) for part in parts(groups))
    return "".join(
        [
            f"<header><h1>{cell(name)}</h1>{_subtitle(runs)}</header>\n",
            _notes(runs, groups),
            _head(groups),
            told,
            _section("What the doctor found", tables.findings(findings)) if findings else "",
            charts,
            _section("Runs", tables.runs(runs)) if len(runs) > 1 else "",
            _configuration(groups),
            _origin(runs),
        ]
    ) + ("<hr>\n" if among else "")


def _subtitle(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        seeds = ", ".join(dict.fromkeys(run.seed for run in runs))
        return f"<p>{len(runs)} runs · seeds {cell(seeds)}</p>"
    run = runs[0]
    told = [run.path, f"seed {run.seed}", f"{shown(run.env_steps)} env steps"]
    if trained := shown(_seconds(run)).replace("–", ""):
        told.append(f"{trained} s of training")
    return f"<p>{' · '.join(map(cell, told))}</p>"


def _seconds(run: Run) -> float | None:
    rows = run.columns.get("seconds", np.empty(0))
    return number(run.summary.get("train_s")) or (float(rows[-1]) if len(rows) else None)


def _notes(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    notes = [f"{run.path}: {note}" if len(runs) > 1 else note for run in runs for note in run.notes]
    if " or " in (found := samples(runs)):
        notes.append(
            f"Samples per step differ ({found}): these settings do not learn alike, and their speeds do not compare."
        )
    if len(tables.facts(runs, "machine")) and any(" or " in v for _, v in tables.facts(runs, "machine")):
        notes.append("The runs were made on different machines: their speeds do not compare.")
    if any(len(group.seeds) < len(group.runs) for group in groups):
        notes.append("Some runs share setting and seed: for learning each seed counts once.")
    return "".join(f"<p class=note>{cell(note)}</p>\n" for note in notes)


def _head(groups: Sequence[Group]) -> str:
    if len(groups) > 1:
        return f"<section>{tables.groups(groups)}</section>\n"
    found = figures(groups[0])
    tiles = "".join(
        f"<div><dt>{cell(f.title)}</dt><dd><b>{cell(f.value)}</b> <span>{cell(f.unit)}</span>"
        f"<p>{cell(f.words)}</p></dd></div>"
        for f in found
    )
    return f"<dl class=figures>{tiles}</dl>\n" if found else ""


def _section(title: str, content: str, note: str = "") -> str:
    told = f"<p class=how>{cell(note)}</p>" if note else ""
    return f"<section><h2>{cell(title)}</h2>{told}{content}</section>\n"


def _part(part: Part, drawn: list[Chart]) -> str:
    figures_ = []
    for chart in part.charts:
        note = f"<small>{cell(chart.note)}</small>" if chart.note else ""
        figures_.append(
            f"<figure class={chart.size}><figcaption>{cell(chart.title)} {note}</figcaption>{_keys(chart)}"
            f'<div class=plot data-chart="{len(drawn)}"></div></figure>'
        )
        drawn.append(chart)
    return _section(part.title, f"<div class=grid>{''.join(figures_)}</div>", part.note)


def _keys(chart: Chart) -> str:
    """The legend. A click on a key hides its colour, and shows it again."""
    keys = dict.fromkeys((s.kind, s.colour, "hatched" in s.colours, s.name) for s in chart.series if s.legend)
    buttons = "".join(
        f'<button type=button data-colour="{colour}"><i class="{kind} {_class(colour)}{" hatched" * hatched}"></i>'
        f"{cell(name)}</button>"
        for kind, colour, hatched, name in keys
    )
    return f"<div class=keys>{buttons}</div>" if buttons else ""


def _class(colour: int | str) -> str:
    return f"c{colour % 8}" if isinstance(colour, int) else colour


def _configuration(groups: Sequence[Group]) -> str:
    if not any(run.options for group in groups for run in group.runs):
        return ""
    search = "<input type=search placeholder=Filter aria-label='Filter options'>"
    many = len(groups[0].runs[0].options)
    return (
        f"<section><details><summary><h2>Configuration</h2> <span>{many} options</span></summary>"
        f"{search}{tables.options(groups)}</details></section>\n"
    )


def _origin(runs: Sequence[Run]) -> str:
    found: Mapping[str, list[tuple[str, str]]] = {k: tables.facts(runs, k) for k in ("machine", "versions")}
    rows = [*found["machine"], *found["versions"]]
    if len(runs) == 1 and (digest := runs[0].summary.get("weights_sha256")):
        rows.append(("weights, SHA-256", str(digest)[:16]))
    return _section("Machine and versions", tables.definitions(rows)) if rows else ""
