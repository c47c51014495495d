"""The report as one small HTML file: no script, nothing fetched, every word escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hotloop.doctor import telling

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a1d21;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}code,pre{font:13px/1.45 ui-monospace,monospace}
dl{display:grid;grid-template-columns:9rem 1fr;gap:.2rem 1rem}dt{color:#667}dd{margin:0}
.bar{display:flex;height:1.6rem;border-radius:4px;overflow:hidden}.bar span{overflow:hidden;white-space:nowrap;
padding:0 .3rem;color:#fff;font-size:12px;line-height:1.6rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .6rem .35rem 0;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}tr.f{border-top:1px solid #ccd}.remedy{color:#145a32}.dim{color:#667}
@media(prefers-color-scheme:dark){body{background:#16181b;color:#e4e6e9}dt,.dim{color:#9aa}.remedy{color:#7fd6a4}}
"""
COLOURS = {
    "update": "#3b6fb6", "act": "#b5651d", "env": "#3c8d5a", "replay": "#7a5195", "transport": "#a23b52",
    "logging": "#8a6d1b", "other": "#6b7280",
}  # fmt: skip


def html(report: Mapping[str, Any]) -> str:
    title = escape(f"hotloop doctor {report['script']}")
    parts = [f"<h1>{title} {escape(' '.join(report['args']))}</h1>", _facts(report)]
    if report.get("shares"):
        parts += [
            "<h2>Where time goes</h2>",
            _bar(report["shares"]),
            f"<p>{escape(telling.shares(report['shares']))}</p>",
        ]
    if "throughput" in report and len(report["throughput"]["pieces"]) > 1:
        parts += [f"<h2>Throughput, {escape(report['throughput']['unit'])} per second</h2>"]
        parts += [_line(report["throughput"]["pieces"])]
    if "does" in report:
        parts += ["<h2>Findings</h2>", _findings(report["findings"])]
    if report.get("hottest"):
        parts += ["<h2>The script's lines with most of the time</h2>", _hottest(report["hottest"])]
    if report.get("output"):
        parts += ["<h2>The last it printed</h2>", f"<pre>{escape(chr(10).join(report['output']))}</pre>"]
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f"{head}</head><body>{''.join(parts)}</body></html>\n"


def _facts(report: Mapping[str, Any]) -> str:
    rows = [("verdict", report["verdict"])]
    if "ending" in report:
        rows.append(("the script", report["ending"]))
    if "does" in report:
        rows += [("what it does", " · ".join(telling.does(report["does"])))]
        rows += [("throughput", telling.throughput(report["throughput"], report["does"]))]
        rows += [("doctor's cost", telling.cost(report))]
    return f"<dl>{''.join(f'<dt>{escape(a)}</dt><dd>{escape(str(b))}</dd>' for a, b in rows)}</dl>"


def _bar(shares: Mapping[str, Mapping[str, float]]) -> str:
    whole = {role: sum(parts.values()) for role, parts in shares.items()}
    cells = [
        f'<span style="width:{100 * share:.2f}%;background:{COLOURS.get(role, COLOURS["other"])}" '
        f'title="{escape(role)} {100 * share:.1f} %">{escape(role)}</span>'
        for role, share in sorted(whole.items(), key=lambda x: -x[1])
        if share >= 0.002
    ]
    return f'<div class="bar">{"".join(cells)}</div>'


def _line(pieces: Sequence[tuple[float, float]]) -> str:
    first, last, top = pieces[0][0], pieces[-1][0], max(rate for _, rate in pieces) or 1.0
    points = " ".join(f"{600 * (x - first) / max(last - first, 1e-9):.1f},{100 - 96 * y / top:.1f}" for x, y in pieces)
    line = f'<polyline points="{points}" fill="none" stroke="#3b6fb6" stroke-width="2"/>'
    ends = f"from {first:.1f} s to {last:.1f} s; 0 to {top:,.4g}"
    return f'<svg viewBox="0 0 600 102" role="img" aria-label="{ends}">{line}</svg><p class="dim">{ends}</p>'


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "<p>Nothing found that takes much time and could be saved.</p>"
    head = "<tr><th></th><th>finding</th><th class=n>share</th><th class=n>predicted</th><th class=n>measured</th>"
    return f"<table>{head}<th>learning</th></tr>{''.join(_finding(i, f) for i, f in enumerate(findings, 1))}</table>"


def _finding(number: int, f: Mapping[str, Any]) -> str:
    share = f"{100 * f['share']:.0f} %" if f["share"] else ""
    cells = "".join(f"<td class=n>{x}</td>" for x in (share, _gain(f["predicted_gain"]), _gain(f["measured_gain"])))
    said = [f"<code>{escape(f['where'])} {escape(f['code'])}</code>", *map(escape, f["evidence"])]
    if f["measured_gain"] is not None:
        low, high = f["interval"]
        said.append(f"tried: {escape(f['trial'] or '')} ({low:.2f}–{high:.2f}, {f['rounds']} rounds)")
    said.append(f'<span class="remedy">→ {escape(f["remedy"])}</span>')
    body = f"<strong>{escape(f['title'])}</strong><br>{'<br>'.join(said)}"
    return f"<tr class=f><td>{number}</td><td>{body}</td>{cells}<td>{escape(f['learning'])}</td></tr>"


def _gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}×"


def _hottest(spots: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td class=n>{100 * s['share']:.0f} %</td><td class=n>{s['line']}</td>"
        f"<td><code>{escape(s['code'])}</code></td></tr>"
        for s in spots
    )
    return f"<table>{rows}</table>"
