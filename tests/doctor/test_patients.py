"""The ill scripts: what is planted stands where it is said to, and one of them examined whole. All of them, ten times,
are the business of bench/stages/doctor_patients.py."""

from __future__ import annotations

import ast

import pytest

from bench.patients.planted import HEALTHY, PATIENTS, causes_first, line, script
from hotloop.doctor.script import examined

MOST_LINES = 250


@pytest.mark.parametrize("name", [*PATIENTS, *HEALTHY])
def test_a_patient_is_one_short_file_of_plain_pytorch(name: str) -> None:
    text = script(name).read_text()
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]  # type: ignore[union-attr]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not imported & {"hotloop", "bench", "gymnasium"}
    assert len(text.splitlines()) <= MOST_LINES
    for cause in PATIENTS[name].causes if name in PATIENTS else ():
        assert line(name, cause.mark)
        assert cause.fixed is None or f'"{cause.fixed}"' in text


def test_a_patient_is_found_ill_with_what_it_has() -> None:
    name = "q_loss_for_a_log"
    report = examined(str(script(name)), [], duration_s=18.0)
    first = report["findings"][0]
    assert (first["name"], first["line"]) == ("tensor_text", line(name, "A")), report["findings"]
    assert "none of it was written" in " ".join(first["evidence"])
    assert first["share"] > 0.3 and first["learning"] == "same" and first["predicted_gain"] > 1.4
    assert (first["measured_gain"] or 9.0) > 1.3  # None on a machine too busy to come to trials in this time
    names = [f["name"] for f in report["findings"]]
    assert names[-1] == "updates_per_step" and report["findings"][-1]["learning"] == "changes"
    assert report["does"]["batch"] == 32 and 200 < report["does"]["samples_per_step"] < 300
    assert abs(report["shares_sum"] - 1) < 0.02
    for claim in PATIENTS[name].claims[:1]:
        assert claim.opposite(report) and claim.measured(report)


def test_causes_must_come_first() -> None:
    """The judge itself: an order in which something else is found before a cause is not good enough."""
    name = "service_chain_per_action"
    causes = [(c.name, line(name, c.mark)) for c in PATIENTS[name].causes]
    kinds = {"updates_per_step": "trade"}
    good = [{"name": n, "line": at, "kind": kinds.get(n, "waste")} for n, at in causes]
    other = {"name": "saying", "line": 1, "kind": "waste"}
    assert causes_first({"findings": [*good[:1], other, *good[1:]]}, name)
    assert not causes_first({"findings": [other, *good]}, name)
    assert not causes_first({"findings": good[:1]}, name)
    assert not causes_first({"findings": [{**good[0], "line": 1}, *good[1:]]}, name)
