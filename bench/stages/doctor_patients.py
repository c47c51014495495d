"""The doctor on scripts that are ill in a known way: causes found; gains predicted, tried, had by curing; its cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.measure import ROOT, Row, stage
from bench.patients.planted import HEALTHY, PATIENTS, Cause, Patient, causes_first, line, script

LONG = True  # run only where it is named, or with all
RUNS, DURATION_S = 10, 60.0
PAIRS, CURED_S = 5, 12.0
EXAMINE = (
    "import sys; from hotloop.doctor.script import examine; "
    "sys.exit(examine(sys.argv[2], [], duration_s=float(sys.argv[1]), as_json=True))"
)


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    runs, duration, pairs = (1, 40.0, 1) if quick else (RUNS, DURATION_S, PAIRS)
    reports: dict[str, list[dict[str, Any]]] = {name: [] for name in (*PATIENTS, *HEALTHY)}
    for _ in range(runs):
        for name in reports:
            reports[name].append(report(name, duration))
            print(f"{name}: {len(reports[name])} of {runs}", file=sys.stderr, flush=True)
    rows = []
    for name, patient in PATIENTS.items():
        rows += of_patient(name, patient, reports[name])
        for cause in patient.causes:
            if cause.fixed is not None:
                rows.append(of_cure(name, cause, reports[name], 2.0 if quick else CURED_S, pairs))
    for name in HEALTHY:
        most = [100 * max((f["share"] for f in r["findings"]), default=0.0) for r in reports[name]]
        rows.append(Row(f"{name}: largest share of a finding", "%", tuple(most), "less", 10.0))
    for name, some in reports.items():
        sums = tuple(100 * abs(r["shares_sum"] - 1) for r in some)
        rows.append(Row(f"{name}: shares add up to 100 but for", "%", sums, "less", 2.0))
        costs = tuple(100 * r["overhead"] for r in some if r["overhead"] is not None)
        rows.append(Row(f"{name}: cost of the probes", "%", costs or (float("nan"),), "less", 10.0))
    return {"runs": runs, "duration_s": duration, "pairs": pairs, "seconds_cured": CURED_S}, rows


def of_patient(name: str, patient: Patient, reports: Sequence[dict[str, Any]]) -> list[Row]:
    sampled = reports[-1]["does"]["samples_per_step"]
    first = tuple(float(causes_first(r, name)) for r in reports)
    findings = [[brief(f) for f in r["findings"]] for r in reports]
    out = [
        Row(f"{name}: causes found first", "of runs", first, "more", 1.0, None, sampled, detail={"findings": findings})
    ]
    for cause in patient.causes:
        apart = [apart_by(f["predicted_gain"], f["measured_gain"]) for f in found(name, cause, reports)]
        if values := tuple(x for x in apart if x is not None):
            what = f"{name}: predicted and measured apart, {cause.name} line {line(name, cause.mark)}"
            out.append(Row(what, "×", values, "less", 1.25, None, sampled))
    for claim in patient.claims:
        held = tuple(float(claim.opposite(r)) for r in reports)
        detail = {"believed": claim.believed, "measured": claim.measured(reports[-1])}
        out.append(
            Row(f"{name}: not so, “{claim.believed}”", "of runs", held, "more", 1.0, None, sampled, detail=detail)
        )
    return out


def of_cure(name: str, cause: Cause, reports: Sequence[dict[str, Any]], seconds: float, pairs: int) -> Row:
    """What curing a cause in the script gives, over what the doctor announced."""
    announced = [f["measured_gain"] for f in found(name, cause, reports) if f["measured_gain"]]
    gains, sampled = [], []
    for _ in range(pairs):
        ill, cured = trained(name, [], seconds), trained(name, ["--fixed", cause.fixed or ""], seconds)
        gains.append(speed(cured) / speed(ill))
        sampled.append([x["updates"] * x["batch"] / max(1, x["env_steps"]) for x in (ill, cured)])
    middle = median(announced) if announced else float("nan")
    return Row(
        f"{name}: cured of {cause.name} line {line(name, cause.mark)}, gain and what was announced apart", "×",
        tuple(apart_by(middle, gain) or float("nan") for gain in gains), "less", 1.25, None,
        median(cured for _, cured in sampled),
        detail={"announced": announced, "gains": gains, "samples_per_step": sampled},
    )  # fmt: skip


def found(name: str, cause: Cause, reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    at = cause.name, line(name, cause.mark)
    every = [f for r in reports for f in (*r["findings"], *r["tried_for_nothing"])]
    return [f for f in every if (f["name"], f["line"]) == at]


def apart_by(a: float | None, b: float | None) -> float | None:
    return max(a / b, b / a) if a and b else None


def brief(finding: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "line", "share", "predicted_gain", "measured_gain", "interval", "rounds", "learning", "kind")
    return {key: finding[key] for key in keys}


def report(name: str, duration: float) -> dict[str, Any]:
    words = [sys.executable, "-c", EXAMINE, str(duration), str(script(name))]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def trained(name: str, words: list[str], seconds: float) -> dict[str, Any]:
    command = [sys.executable, str(script(name)), "--seconds", str(seconds), *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def speed(trained: dict[str, Any]) -> float:
    return trained["env_steps"] / trained["seconds"]


if __name__ == "__main__":
    stage(run)
