"""The report as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

WIDTH = 118
LABEL = 17
DISTURBED = 0.05
MANY = 3  # parts of a section that are said


def text(report: Mapping[str, Any]) -> str:
    lines = [f"hotloop doctor {report['script']} {' '.join(report['args'])}".rstrip(), ""]
    if "does" not in report:
        return "\n".join([*lines, *_unjudged(report)])
    lines += _labelled("verdict", f"{report['verdict']}; {report['ending']}")
    lines += _labelled("what it does", " · ".join(does(report["does"])))
    lines += _labelled("throughput", throughput(report["throughput"], report["does"]))
    lines += _labelled("where time goes", shares(report["shares"]))
    lines += _labelled("doctor's cost", cost(report))
    return "\n".join([*lines, "", *_findings(report), *_output(report)])


def _unjudged(report: Mapping[str, Any]) -> list[str]:
    lines = _labelled("verdict", report["verdict"])
    if "ending" in report and report["ending"] not in report["verdict"]:
        lines += _labelled("the script", report["ending"])
    if report.get("events"):
        lines += _labelled("seen", " · ".join(f"{n} × {what}" for what, n in report["events"].items()))
    if report.get("shares"):
        lines += _labelled("where time goes", shares(report["shares"]))
    for spot in report.get("hottest", [])[:3]:
        lines += _labelled("", f"{100 * spot['share']:.0f} % at line {spot['line']}: {spot['code'][:70]}")
    return [*lines, *_output(report)]


def _output(report: Mapping[str, Any]) -> list[str]:
    if not report.get("output"):
        return []
    return ["", "the last it printed", *("  " + line[: WIDTH - 2] for line in report["output"])]


def _labelled(label: str, words: str) -> list[str]:
    rows = textwrap.wrap(words, WIDTH - LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label if i == 0 else '':{LABEL}}{row}" for i, row in enumerate(rows)]


def does(done: Mapping[str, Any]) -> list[str]:
    out = []
    if done["environments"]:
        number, lanes = done["environments"], done["lanes"]
        out.append(f"{number} environment{'s' * (number != 1)}" + (f" with {lanes} lanes" if lanes != number else ""))
    out.append(f"{done['env_steps']:,} env steps")
    if done["updates"]:
        out.append(f"{done['updates']:,} updates" + (f" of {done['batch']:.0f}" if done["batch"] else ""))
    if done["samples_per_step"] is not None:
        out.append(f"{done['samples_per_step']:.3g} samples per step")
    if done["target_every_updates"]:
        out.append(f"target every {done['target_every_updates']:,.0f} updates")
    if done["act_forwards_per_step"]:
        out.append(
            f"{done['act_forwards_per_step']:.2g} forwards per env step to act, {done['act_rows']:.0f} rows each"
        )
    if done["host_copies_per_step"] and done["host_copies_per_step"] >= 0.01:
        out.append(f"{done['host_copies_per_step']:.2g} copies to the host per env step")
    if done["epsilon"]:
        out.append(f"{done['epsilon'][0]} {done['epsilon'][1]:.3g}")
    early, late = done["steps_per_episode"]
    if early and late:
        out.append(f"{early:,.0f} → {late:,.0f} steps per episode")
    if done["memory_mb"] and done["memory_mb"][1] > 1.1 * done["memory_mb"][0]:
        out.append(f"memory {done['memory_mb'][0]:,.0f} → {done['memory_mb'][1]:,.0f} MB")
    return out


def throughput(t: Mapping[str, Any], done: Mapping[str, Any]) -> str:
    if not t["per_s"]:
        return "too short to say"
    out = (
        f"{t['per_s']:,.4g} {t['unit']}/s, {t['trend']}"
        if t["per_s"] < 1000
        else f"{t['per_s']:,.0f} {t['unit']}/s, {t['trend']}"
    )
    if t["trend"] != "flat" and t["change"]:
        out += f" {t['change']:.2g}×" + (f", in {t['behind']}" if t["behind"] else "")
    out += f" (first window {t['first_ratio']:.2f} of the median)"
    if t["before_learning_per_s"]:
        out += f"; before learning {t['before_learning_per_s']:,.0f}"
    first = done["first_update_s"] if done["first_update_s"] is not None else done["first_step_s"]
    return out + (f"; {first:.1f} s until it {'learns' if done['updates'] else 'steps'}" if first is not None else "")


def shares(by_role: Mapping[str, Mapping[str, float]]) -> str:
    out = []
    for role, parts in sorted(by_role.items(), key=lambda x: -sum(x[1].values())):
        whole = sum(parts.values())
        if whole < 0.005:
            continue
        told = sorted(((p, s) for p, s in parts.items() if p and s >= 0.01), key=lambda x: -x[1])[:MANY]
        inner = f" ({', '.join(f'{p} {100 * s:.0f}' for p, s in told)})" if len(told) > 1 else ""
        out.append(f"{role} {100 * whole:.0f} %{inner}")
    return " · ".join(out)


def cost(report: Mapping[str, Any]) -> str:
    overhead = report["overhead"]
    said = "not measured (too short)" if overhead is None else f"{100 * max(overhead, 0.0):.1f} % while watching"
    others = f"; other processes had the core {100 * report['disturbed']:.0f} % of the time, which gains leave out"
    out = f"{said}; {report['judged_s']:.1f} s judged; shares add up to {100 * report['shares_sum']:.1f} %"
    return out + (others if report["disturbed"] > DISTURBED else "")


def _findings(report: Mapping[str, Any]) -> list[str]:
    if not report["findings"]:
        lines = ["nothing found that takes much time and could be saved"]
    else:
        lines = [f"   {'finding':68} {'share':>7} {'predicted':>10} {'measured':>10}  learning"]
    for i, finding in enumerate(report["findings"], 1):
        lines += _finding(i, finding)
    for finding in report["tried_for_nothing"]:
        gain = finding["measured_gain"]
        lines.append(f" ·  tried for nothing: {finding['trial']} ({finding['title']}): {gain:.2f}×")
    return lines


def _finding(number: int, f: Mapping[str, Any]) -> list[str]:
    title = textwrap.wrap(f["title"], 68) or [""]
    share = f"{100 * f['share']:.0f} %" if f["share"] else ""
    gains = f"{_gain(f['predicted_gain']):>10} {_gain(f['measured_gain']):>10}"
    lines = [f"{number:2} {title[0]:68} {share:>7} {gains}  {f['learning']}", *(f"   {row}" for row in title[1:])]
    body = [f"{f['where']}  {f['code'][:80]}", *f["evidence"], f"→ {f['remedy']}"]
    if f["measured_gain"] is not None:
        low, high = f["interval"]
        bound = ", the most a remedy can give" if f["bound"] else ""
        within = f"{low:.2f}–{high:.2f} in {f['rounds']} rounds" if f["rounds"] > 1 else "one run against one"
        body.append(f"tried: {f['trial']} ({within}{bound})")
    for words in body:
        lines += textwrap.wrap(words, WIDTH, initial_indent="   ", subsequent_indent="     ")
    return [*lines, ""]


def _gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}×"
