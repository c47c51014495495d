"""Fills the tables of docs/five-seeds.md from bench/results/doctor_patients.json: python bench/five_seeds.py [--check]

Between `<!-- table NAME -->` and `<!-- end -->` nothing is written by hand."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from bench.patients.planted import PATIENTS, line  # noqa: E402 - the root is no package of the interpreter's

PAGE, RESULTS = ROOT / "docs" / "five-seeds.md", ROOT / "bench" / "results" / "doctor_patients.json"
PLACE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    text = PAGE.read_text()
    if not RESULTS.exists():
        print(f"no {RESULTS.relative_to(ROOT)}; make it with: python bench/run.py --only doctor_patients")
        return 1
    filled = page(text, json.loads(RESULTS.read_text()))
    if "--check" in sys.argv[1:]:
        return int(filled != text)
    PAGE.write_text(filled)
    return 0


def page(text: str, result: dict[str, Any]) -> str:
    rows = {row["what"]: row for row in result["rows"]}

    def fill(found: re.Match[str]) -> str:
        name = found[2]
        table = origin(result) if name == "origin" else patient(name, rows)
        return f"{found[1]}{table}\n{found[3]}"

    return PLACE.sub(fill, text)


def origin(result: dict[str, Any]) -> str:
    busy = result.get("cores_busy_with_others")
    machine = result["machine"]
    quiet = "" if busy is None else f", while others kept {busy} cores busy"
    runs = result["settings"]["runs"]
    return (
        f"{runs} examinations of each script, {result['settings']['duration_s']:.0f} s each, on {machine['cores']} "
        f"cores of {machine['cpu']}{quiet}; `{result['command']}`, commit {result['commit'][:10]}, "
        f"{result['date'][:10]}."
    )


def patient(name: str, rows: dict[str, Any]) -> str:
    first = rows[f"{name}: causes found first"]
    runs = len(first["values"])
    out = [
        f"All causes found first in {sum(first['values']):.0f} of {runs} runs.", "",
        "| planted | line | share | predicted | measured | cured | samples per step, ill → cured |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for cause in PATIENTS[name].causes:
        at = line(name, cause.mark)
        some = [f for run in first["detail"]["findings"] for f in run if (f["name"], f["line"]) == (cause.name, at)]
        cured = rows.get(f"{name}: cured of {cause.name} line {at}, gain and what was announced apart")
        gain = f"{median(cured['detail']['gains']):.2f}×" if cured else ""
        pairs = cured["detail"]["samples_per_step"] if cured else []
        sampled = f"{median(a for a, _ in pairs):.3g} → {median(b for _, b in pairs):.3g}" if pairs else ""
        share = middle([100 * f["share"] for f in some if f["share"]], "{:.0f} %")
        predicted = middle([f["predicted_gain"] for f in some if f["predicted_gain"]], "{:.2f}×")
        measured = middle([f["measured_gain"] for f in some if f["measured_gain"]], "{:.2f}×")
        out.append(f"| {cause.name} | {at} | {share} | {predicted} | {measured} | {gain} | {sampled} |")
    out += ["", "| believed | measured | runs that say so |", "|---|---|---|"]
    for claim in PATIENTS[name].claims:
        row = rows[f"{name}: not so, “{claim.believed}”"]
        held = f"{sum(row['values']):.0f} of {len(row['values'])}"
        out.append(f"| {claim.believed} | {row['detail']['measured']} | {held} |")
    return "\n".join(out)


def middle(values: list[float], form: str) -> str:
    return form.format(median(values)) if values else ""


if __name__ == "__main__":
    sys.exit(main())
