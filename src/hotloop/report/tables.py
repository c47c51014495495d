"""Tables of a report as HTML: runs, groups, findings, options, machines. Every text that comes from a run is escaped
here, on its way in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from hotloop.report.curves import Group, differing
from hotloop.report.figures import NOTHING, mean_return, of, samples, shown
from hotloop.report.reading import Run, number, span, text

_LEARNING = {"same": "learning stays the same", "changes": "changes learning"}


def cell(value: Any) -> str:
    """Text of any origin as HTML."""
    return escape(str(value), quote=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", left: int = 1) -> str:
    """Cells are HTML already. All but the first `left` columns are figures."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(
            f'<{tag}{"" if k < left else " class=n"}>{c}</{tag}>' for k, c in enumerate(cells)
        ) + "</tr>"  # fmt: skip

    body = "".join(line("td", cells) for cells in rows)
    return (
        f'<div class=scroll><table class="{kind}"><thead>{line("th", head)}</thead><tbody>{body}</tbody></table></div>'
    )


def groups(found: Sequence[Group]) -> str:
    """One line for each setting."""
    rows = []
    for i, group in enumerate(found):
        mean = mean_return(group)
        value = f"{shown(mean[0])} {_span(mean[1])}" if mean else NOTHING
        speeds, windows = of(group.runs, "env_steps_per_s"), of(group.runs, "first_window_ratio")
        rows.append(
            [
                f'<i class="key c{i % 8}"></i>{cell(group.label)}',
                str(len(group.runs)),
                cell(value),
                cell(_median(speeds)),
                cell(samples(group.runs)),
                cell(_median(windows, 3)),
                cell(_median(of(group.runs, "cold_start_s"), 3)),
            ]
        )
    head = ["Setting", "Runs", "Greedy return", "Env steps/s", "Samples per step", "First window", "Cold start, s"]
    return table(head, rows)


def runs(found: Sequence[Run]) -> str:
    rows = []
    for run in found:
        get = run.summary.get
        exact = {True: "yes", False: "no"}.get(get("exact"), NOTHING) if isinstance(get("exact"), bool) else NOTHING
        value = f"{shown(number(get('return_mean')))} {_span(span(get('return_ci')))}"
        figures = ("env_steps_per_s", 4), ("samples_per_step", 4), ("first_window_ratio", 3), ("cold_start_s", 3)
        shares = [cell(shown(number(get(k)), d)) for k, d in figures]
        rows.append([cell(run.path), cell(run.seed), cell(shown(run.env_steps)), cell(value), *shares, exact])
    head = ["Run", "Seed", "Env steps", "Greedy return", "Env steps/s", "Samples per step", "First window"]
    return table([*head, "Cold start, s", "Exact"], rows)


def _span(bounds: tuple[float, float] | None) -> str:
    return f"[{shown(bounds[0])}, {shown(bounds[1])}]" if bounds else ""


def _median(values: Sequence[float], digits: int = 4) -> str:
    ordered = sorted(values)
    n = len(ordered)
    return shown((ordered[n // 2] + ordered[(n - 1) // 2]) / 2, digits) if n else NOTHING


# --- doctor ----------------------------------------------------------------------------------------------------------


def findings(found: Sequence[Mapping[str, Any]]) -> str:
    return "<div class=findings>" + "".join(map(_finding, found)) + "</div>"


def _finding(finding: Mapping[str, Any]) -> str:
    share, predicted, measured = (number(finding.get(k)) for k in ("share", "predicted_gain", "measured_gain"))
    figures = []
    if share is not None:
        width = f"{100 * min(max(share, 0.0), 1.0):.1f}%"
        figures.append(f'<span class=bar><i style="width:{width}"></i></span> {100 * share:.0f} % of the time')
    if predicted is not None:
        figures.append(f"predicted gain {predicted:.2f}×")
    if measured is not None:
        figures.append(f"<b>measured gain {measured:.2f}×</b> {_span(span(finding.get('interval')))}")
    if learning := text(finding.get("learning")):
        kind = "same" if learning == "same" else "changes"
        figures.append(f"<span class=tag-{kind}>{cell(_LEARNING.get(learning, learning))}</span>")
    place = text(finding.get("file")) + (f":{text(finding['line'])}" if finding.get("line") else "")
    evidence = finding.get("evidence")
    seen = "".join(f"<li>{cell(text(e))}</li>" for e in evidence) if isinstance(evidence, list | tuple) else ""
    return (
        f"<article><h3>{cell(text(finding.get('title')) or text(finding.get('name')))}</h3>"
        f"<p class=meta>{' · '.join(figures)}</p>"
        + (f"<p><code>{cell(place)}</code></p>" if place else "")
        + (f"<ul>{seen}</ul>" if seen else "")
        + (f"<p>{cell(remedy)}</p>" if (remedy := text(finding.get("remedy"))) else "")
        + "</article>"
    )


# --- options and machines --------------------------------------------------------------------------------------------


def options(found: Sequence[Group]) -> str:
    """Every option and its value; a column for each setting where they differ."""
    first = [g.runs[0] for g in found]
    differ = differing(first)
    out = ""
    if differ:
        rows = [[cell(k), *[cell(r.options.get(k, NOTHING)) for r in first]] for k in differ]
        head = ["Differs", *[f'<i class="key c{i % 8}"></i>{cell(g.label)}' for i, g in enumerate(found)]]
        out = table(head, rows, "options", left=1)
    same = [(k, v) for k, v in first[0].options.items() if k not in differ]
    if (seeds := ", ".join(dict.fromkeys(r.seed for g in found for r in g.runs))) and len(seeds) > 1:
        same = [(k, seeds if k == "seed" else v) for k, v in same]
    return out + table(["Option", "Value"], [[f"<code>{cell(k)}</code>", f"<code>{cell(v)}</code>"] for k, v in same],
                       "options", left=2)  # fmt: skip


def facts(found: Sequence[Run], key: str) -> list[tuple[str, str]]:
    """Versions or the machine, of all runs: what differs stands side by side."""
    held = [run.summary[key] for run in found if isinstance(run.summary.get(key), Mapping)]
    names = dict.fromkeys(str(k) for h in held for k in h)
    return [(name, " or ".join(dict.fromkeys(text(h[name]) for h in held if name in h))) for name in names]


def definitions(found: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<div><dt>{cell(k)}</dt><dd>{cell(v)}</dd></div>" for k, v in found) + "</dl>"
