"""Examines anybody's script: watch it, say what it does and where its time goes, try the remedies, say what each
gives. Imports no torch; what is known ends as one plain dict, which text, JSON and page are made from."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotloop.doctor import diagnoses, reporting, telling
from hotloop.doctor.case import Case, case_of
from hotloop.doctor.finding import Finding, Trial, in_order
from hotloop.doctor.patient import Patient, python_works
from hotloop.doctor.trying import Gain, Tried, try_all
from hotloop.doctor.watching import watch

DURATION_S = 30.0
DONE, UNUSABLE, NOTHING, FAILED = 0, 2, 3, 4
EXIT_CODES = {
    DONE: "env steps or updates were seen, and judged",
    UNUSABLE: "nothing was run: no such file, a folder, an interpreter that does not work",
    NOTHING: "the script ran, but neither an env step nor an update was seen",
    FAILED: "the script failed before there was anything to judge",
}
EXPLAINS = {("growing_copies", "early_float"), ("growing_copies", "replay_objects"), ("early_float", "replay_objects")}
WORTH = 1.02  # a remedy that gives less is said to give nothing
LEAST_TRIALS_S = 2.5
WHOLE = 0.4  # of the time, for a remedy that cannot be switched while the script runs
LEAST_WHOLE_S = 2.0  # of learning in that run, or nothing is concluded from it


def examine(
    script: str, args: list[str], *, duration_s: float = DURATION_S, as_json: bool = False, html: str | None = None,
    python: str | None = None,
) -> int:  # fmt: skip
    """Run a script for some seconds, several times, and print what was found. The exit code is one of EXIT_CODES."""
    report = examined(script, args, duration_s=duration_s, python=python)
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        print(telling.text(report))
    if html is not None:
        from hotloop.doctor import page

        Path(html).write_text(page.html(report), encoding="utf-8")
    return int(report["exit_code"])


def examined(script: str, args: Sequence[str], *, duration_s: float, python: str | None = None) -> dict[str, Any]:
    began = time.monotonic()
    patient = Patient(python or sys.executable, str(Path(script).resolve()), tuple(args))
    complaint = _unusable(patient, script)
    if complaint:
        return reporting.bare(patient, script, UNUSABLE, complaint)
    folder = Path(tempfile.mkdtemp(prefix="hotloop-doctor-"))
    try:
        watched = watch(patient, folder / "watch", duration_s)
        if not any(r.windows for r in watched.recordings):
            return reporting.bare(patient, script, FAILED if watched.failed else NOTHING, "", watched)
        case = case_of(watched.recordings, patient.script)
        if case.phases.kind == "running":
            return reporting.unjudged(patient, script, FAILED if watched.failed else NOTHING, watched, case)
        findings, tried = _tried(patient, folder, case, began + duration_s)
        return reporting.judged(patient, script, DONE, watched, case, findings, tried, WORTH)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unusable(patient: Patient, script: str) -> str:
    path = Path(patient.script)
    if path.is_dir():
        return f"{script} is a folder; name the Python file to run"
    if not path.exists():
        return f"{script}: no such file"
    wrong = python_works(patient.python)
    return f"--python {patient.python}: {wrong}" if wrong else ""


def diagnosed(case: Case) -> list[Finding]:
    """What every diagnosis says of a case."""
    found: list[Finding] = []
    for module in pkgutil.iter_modules(diagnoses.__path__):
        if not module.name.startswith("_"):
            found += importlib.import_module(f"{diagnoses.__name__}.{module.name}").find(case)
    return in_order(_once(found))


def _once(found: Sequence[Finding]) -> list[Finding]:
    """Of two findings that would leave out the very same, the one that explains more."""
    out = []
    for finding in found:
        rivals = [f for f in found if f.trial and finding.trial and (f.file, f.line) == (finding.file, finding.line)]
        if not any((a, finding.name) in EXPLAINS for a in (f.name for f in rivals)):
            out.append(finding)
    return out


# --- trials ----------------------------------------------------------------------------------------------------------


def _tried(patient: Patient, folder: Path, case: Case, until: float) -> tuple[list[Finding], Tried]:
    """The findings with what their remedies gave, in order."""
    findings = diagnosed(case)
    if until - time.monotonic() < LEAST_TRIALS_S:
        return findings, Tried({}, {}, None)
    whole = [i for i, f in enumerate(findings) if f.trial is not None and f.trial.whole]
    length = until - time.monotonic()
    for i in whole[:1]:
        gain = _whole(patient, folder, findings[i].trial, case, WHOLE * length)
        if gain is not None:
            findings[i] = findings[i].measured(gain.gain, (gain.low, gain.high), gain.rounds)
    switched = [i for i, f in enumerate(findings) if f.trial is not None and not f.trial.whole]
    trials = [findings[i].trial for i in switched]
    start_s = case.phases.first_update_s or case.phases.first_step_s or 0.0
    learning, left = case.phases.kind == "learning", until - time.monotonic()
    tried = try_all(patient, folder, [t for t in trials if t], learning, left, start_s)
    for place, i in enumerate(switched):
        gain = tried.gains.get(place)
        if gain is not None:
            findings[i] = findings[i].measured(gain.gain, (gain.low, gain.high), gain.rounds)
        if place in tried.broke:
            said = f"its remedy could not be tried: {tried.broke[place]}"
            findings[i] = replace(findings[i], evidence=(*findings[i].evidence, said))
    return in_order(findings), tried


def _whole(patient: Patient, folder: Path, trial: Trial | None, case: Case, seconds: float) -> Gain | None:
    """A run with the remedy from its start, against the first run as far as it had come in the same time."""
    if trial is None:
        return None
    again = watch(patient, folder / "whole", seconds, tuple(trial.settings["names"]))
    if not any(r.windows for r in again.recordings):
        return None
    other = case_of(again.recordings, case.script)
    last = other.phases.seconds
    if last < LEAST_WHOLE_S or not case.env_steps or not other.env_steps:
        return None
    before, seen = case.phases.before, 0.0
    end = case.phases.judged[-1]
    for window in case.phases.judged:
        seen += window.seconds
        if seen >= last:
            end = window
            break
    steps = end.env_steps - (before.env_steps if before else 0)
    taken = min(seen, case.phases.seconds)
    gain = (other.env_steps / last) / (steps / taken) if steps and taken else 0.0
    return Gain(gain, gain, gain, 1) if gain else None
