"""What is said of a case: speeds that scripts print, trends, order, and reports as text, JSON and page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hotloop.doctor import page, script, telling
from hotloop.doctor.diagnoses.own_speed import speed_in
from hotloop.doctor.finding import Finding, Trial, amdahl, in_order
from hotloop.doctor.inside.probes.env import read, reread
from hotloop.doctor.phases import phases
from hotloop.doctor.recording import Frame, Function, Probe, Stack, Timed, Window
from hotloop.doctor.throughput import throughput
from hotloop.doctor.trying import Tried, read_stretches
from hotloop.doctor.weighing import counts, weigh

MS = 1_000_000


def window(number: int, steps: int, updates: int = 0, **more: Any) -> Window:
    fields = {
        "began": number * 250 * MS, "ended": (number + 1) * 250 * MS, "lost": 0, "env_steps": steps, "env_calls": steps,
        "episodes": 0, "updates": updates, "trained_rows": 0, "timed": {}, "samples": {}, "counts": {}, "tiny_off": 0,
        "resident": 0, "cpu": 0, "tracks": 1,
    }  # fmt: skip
    return Window(**{**fields, **more})


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("step 1000 | 1,234.5 steps/s", 1234.5),
        ("SPS: 845", 845.0),
        ("charts/SPS 1200", 1200.0),
        ("fps=60", 60.0),
        ("214.3 experiences/sec", 214.3),
        ("loss 0.4 after 300 steps", None),
        ("lr 0.001", None),
    ],
)
def test_a_printed_speed_is_read(text: str, speed: float | None) -> None:
    assert speed_in(text) == speed


@pytest.mark.parametrize(
    ("out", "reading"),
    [
        ((0, 1.0, False, {}), (1, 0)),
        (([0], 1.0, True, False, {}), (1, 1)),
        (([0, 0], [1.0, 2.0], [True, False], [False, False], {}), (2, 1)),
        ((0, 1.0, 1.0, {}), (1, 1)),
        ("no step", None),
        ((1, 2), None),
        ((None, "a", "b"), None),
    ],
)
def test_what_a_step_returns_says_lanes_and_ends(out: Any, reading: tuple[int, int] | None) -> None:
    found = read(out)
    assert (found and found[:2]) == reading
    if found is not None:
        assert reread(out, (len(out), *found[2])) == reading
        assert reread((1, 2), (len(out), *found[2])) is None


def test_a_speed_is_of_one_window_and_its_trend_is_that_of_the_pieces() -> None:
    total, windows = 0, []
    for i in range(41):
        total += 100 + 10 * i
        windows.append(window(i, total))
    t = throughput(windows, phases(windows))
    assert t.trend == "ramping" and t.change and 2.5 < t.change < 5.5
    flat = [window(i, 100 * (i + 1)) for i in range(41)]
    t = throughput(flat, phases(flat))
    assert (t.trend, t.per_s, t.first_ratio) == ("flat", 400.0, 1.0)


def test_places_add_up_to_the_wall_time_and_a_timed_call_keeps_its_own() -> None:
    at = Frame(Function("x.py", "f", 1), 2, 2, 0, 0)
    probe = Probe("env step", 0, at, ())
    inside, free = Stack(probe, "env step", 0, (at,)), Stack(None, None, 0, (at,))
    full = {
        "timed": {probe: Timed(10, 100 * MS, 100 * MS, 0)},
        "samples": {inside: (7, 70 * MS), free: (3, 30 * MS)},
    }
    windows = [window(0, 1), window(1, 2, **full), window(2, 3, lost=50 * MS, **full)]
    places, wall = weigh(phases(windows))
    assert wall == 450 * MS
    assert sum(p.ns for p in places) == pytest.approx(wall)
    assert sum(p.ns for p in places if p.within is probe) == pytest.approx(200 * MS)


def test_calls_counted_in_a_part_of_the_windows_are_scaled_up() -> None:
    item, forward = Probe("item", 0, None, ()), Probe("for acting", 0, None, ())
    windows = [window(0, 1), window(1, 2, counts={item: 10, forward: 10}, tiny_off=200 * MS)]
    windows.append(window(2, 3))
    assert counts(phases(windows)) == {item: 50.0, forward: 10.0}


def test_what_is_wrong_comes_before_what_is_wasted_and_trades_come_last() -> None:
    def finding(tier: Any, share: float, measured: float | None = None) -> Finding:
        found = Finding(f"{tier}{share}", "", "", 0, share, "", predicted_gain=amdahl(share), tier=tier)
        return found if measured is None else found.measured(measured, (measured, measured), 3)

    some = [finding("trade", 0.9), finding("waste", 0.3), finding("slow", 0.8), finding("wrong", 0.0)]
    ordered = in_order([*some, finding("waste", 0.1, 1.9)])
    assert [f.name for f in ordered] == ["wrong0.0", "waste0.1", "waste0.3", "slow0.8", "trade0.9"]


def test_a_stretch_is_held_against_those_beside_it_without_the_time_of_others(tmp_path: Path) -> None:
    rows = [
        ["hello", 1, 0, "3", "python", [], 0],
        ["took", -1, 100, 0, 10, 0, 10],
        ["took", 0, 150, 100, 10, 0, 10],
        ["took", -1, 300, 200, 10, 0, 10],
    ]
    (tmp_path / "rows-1.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_stretches(tmp_path, 1) == {0: [2.0]}


def test_of_two_findings_about_one_line_the_one_that_explains_more_is_told() -> None:
    trial = Trial("cut", {"line": 3})
    same = [Finding(n, "", "f", 3, 0.3, "", trial=trial) for n in ("early_float", "growing_copies")]
    other = Finding("early_float", "", "f", 9, 0.3, "", trial=trial)
    assert [f.name for f in script._once([*same, other])] == ["growing_copies", "early_float"]


# --- reports ---------------------------------------------------------------------------------------------------------


HOSTILE = "<script>alert(1)</script>&\"'"


def report() -> dict[str, Any]:
    finding = {
        "name": "saying", "title": HOSTILE, "file": HOSTILE, "line": 3, "where": HOSTILE, "code": HOSTILE, "share": 0.2,
        "predicted_gain": 1.25, "measured_gain": 1.2, "interval": (1.1, 1.3), "rounds": 9, "learning": "same",
        "kind": "waste", "evidence": [HOSTILE], "remedy": HOSTILE, "trial": HOSTILE, "bound": True,
    }  # fmt: skip
    does = {
        "environments": 1, "lanes": 1, "env_class": HOSTILE, "env_steps": 10, "episodes": 1, "updates": 3,
        "batch": 32.0, "samples_per_step": 9.6, "target_every_updates": None, "act_forwards_per_step": 1.0,
        "act_rows": 1.0, "host_copies_per_step": 1.0, "epsilon": (HOSTILE, 0.1), "steps_per_episode": (3.0, 4.0),
        "memory_mb": (100.0, 200.0), "first_step_s": 1.0, "first_update_s": 2.0,
    }  # fmt: skip
    speed = {
        "unit": "env steps", "per_s": 612.0, "trend": "flat", "change": 1.0, "first_ratio": 0.97,
        "before_learning_per_s": None, "behind": None, "pieces": [(1.0, 600.0), (2.0, 620.0)],
    }  # fmt: skip
    return {
        "script": HOSTILE, "args": [HOSTILE], "python": "python", "exit_code": 0, "verdict": HOSTILE, "ending": HOSTILE,
        "findings": [finding], "tried_for_nothing": [finding], "shares": {"update": {"forward": 0.6}, "env": {"": 0.4}},
        "shares_sum": 1.0, "does": does, "throughput": speed, "overhead": 0.02, "disturbed": 0.4, "judged_s": 9.0,
        "hottest": [{"file": HOSTILE, "line": 1, "share": 0.5, "code": HOSTILE}], "output": [HOSTILE],
    }  # fmt: skip


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_fetches_nothing_and_hostile_names_stay_text() -> None:
    reader = Reader()
    reader.feed(page.html(report()))
    assert "script" not in reader.tags and not reader.addresses
    assert sum(HOSTILE in text for text in reader.text) >= 6
    assert {"table", "svg", "dl"} <= set(reader.tags)


def test_the_text_says_all_there_is() -> None:
    text = telling.text(report())
    told = (
        "612 env steps/s, flat (first window 0.97", "update 60 %", "1.25×", "1.20×", "9.6 samples per step",
        "1.10–1.30 in 9 rounds, the most a remedy can give", "tried for nothing", "2.0 % while watching",
    )  # fmt: skip
    for said in told:
        assert said in " ".join(text.split()), said
    assert all(len(line) <= 125 for line in text.splitlines())


def test_nothing_tried_is_no_gain() -> None:
    assert Tried({}, {}, None).gains == {}
