"""The benchmark harness: its statistics, its verdicts, its table, and that kept results say what their repeats say."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import math
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import measure, run
from bench.counting import (
    Window,
    counting_rows,
    counting_steps,
    counting_updates,
    in_order,
    packed,
    transposed,
    unpacked,
    until_first_update,
)
from bench.measure import Row, finished, interleaved, interquartile_mean, interval, ratios, theil_sen
from bench.stages._rivals import greedy_return

ROOT = Path(__file__).parents[2]
ROW = Row("ours / theirs", "×", (6.0, 5.0, 7.0), must=5, aim=10, samples_per_step=12.8)


def result(*rows: Row, **changes) -> dict:
    facts = {"name": "stage", "command": "python bench/run.py --only stage", "quick": False, "seconds": 1.0}
    origin = {"date": "2000-01-02T03:04:05+00:00", "commit": "0123456789abcdef", "dirty": False}
    machine = {"machine": {"cpu": "abacus", "cores": 2}, "versions": {"torch": "9.9"}, "cores_busy_with_others": 0.0}
    return {**facts, **origin, **machine, "rows": [finished(r) for r in rows], **changes}


# --- statistics ------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12))
def test_the_interval_holds_the_median_and_no_more_than_the_repeats(values):
    low, high = interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values)


def test_the_interval_is_the_95_percent_of_the_exact_bootstrap():
    """Of n distinct repeats a resample's median is at most the k-th smallest where most of its draws are."""
    n = 9

    def at_most(k: int) -> float:
        p = (k + 1) / n
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n // 2 + 1, n + 1))

    low = next(k for k in range(n) if at_most(k) >= 0.025)
    high = next(k for k in range(n) if at_most(k) >= 0.975)
    assert interval(np.arange(n)) == (low, high)
    assert min(abs(at_most(k) - q) for k in range(n) for q in (0.025, 0.975)) > 0.005, "decided by luck of the draws"


def test_theil_sen_is_the_slope_whatever_a_few_outliers_do():
    x = np.arange(40.0)
    y = 2.5 * x + 7
    y[[3, 17, 30]] = 1e6
    assert theil_sen(x, y) == pytest.approx(2.5)


def test_sides_take_turns_and_every_second_round_is_reversed():
    order: list[str] = []
    sides = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}
    found = interleaved(sides, 3)
    assert "".join(order) == "abccbaabc"
    assert found == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}


def test_ratios_are_taken_within_a_round():
    assert ratios([4.0, 9.0], [2.0, 3.0]) == (2.0, 3.0)
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("better", "values", "expected"),
    [
        ("more", (10, 11, 12), "aim"),
        ("more", (9, 11, 12), "aim?"),
        ("more", (6, 7, 8), "must"),
        ("more", (4, 7, 8), "must?"),
        ("more", (4, 4.9, 8), "MISSED"),
        ("less", (1, 2, 3), "aim"),
        ("less", (4, 4, 6), "must?"),
        ("less", (4, 6, 6), "MISSED"),
    ],
)
def test_the_verdict_is_by_the_median_and_doubtful_where_the_interval_says_so(better, values, expected):
    bounds = (5, 10) if better == "more" else (5, 3)
    row = Row("x", "s", values, better, *bounds)
    assert finished(row)["verdict"] == expected


def test_the_interquartile_mean_leaves_out_a_quarter_on_either_side():
    scipy = pytest.importorskip("scipy.stats")
    for n in (1, 2, 4, 5, 8, 9):
        values = np.random.default_rng(n).lognormal(size=n)
        if n % 4 == 0:
            assert interquartile_mean(values) == pytest.approx(scipy.trim_mean(values, 0.25))
        assert values.min() <= interquartile_mean(values) <= values.max()
    assert interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 1e9])) == pytest.approx((0.75 * 1 + 2 + 0.75 * 3) / 2.5)
    row = finished(Row("x", "s", (0.0, 1.0, 2.0, 3.0, 1e9), middle="interquartile mean"))
    assert row["median"] == pytest.approx(2.0) and row["interval"][0] <= 2.0 <= row["interval"][1]


def test_a_rival_that_cannot_be_measured_has_a_row_that_says_why():
    row = finished(Row("ours / theirs", "×", (), must=6, note="not measured here: no wheel"))
    assert row["verdict"] == "NOT MEASURED" and row["median"] is None
    from bench import readme

    assert readme.measured(row) == "not measured here: no wheel"
    assert "less than it must be" in readme.measured(finished(Row("x", "×", (0.8, 0.9), must=1.0)))
    table = run.markdown([json.loads(json.dumps(result(Row("ours / theirs", "×", (), must=6, note="not here: why"))))])
    assert "| ours / theirs (not here: why) |  |  | ≥ 6 |  | NOT MEASURED |" in table


def test_what_is_not_judged_has_no_verdict():
    assert finished(Row("x", "s", (1.0,)))["verdict"] == ""


# --- tables ----------------------------------------------------------------------------------------------------------


def test_the_table_is_made_from_the_json_alone():
    kept = json.loads(json.dumps(result(ROW)))
    table = run.markdown([kept])
    assert "| `stage` | ours / theirs | 6 [5, 7] ×, n=3 | 12.8 | ≥ 5 | ≥ 10 | must |" in table
    assert "2000-01-02 · commit 0123456789 · abacus, 2 cores · torch 9.9 · python bench/run.py --only stage" in table
    other = copy.deepcopy(kept)
    other["rows"][0] |= {"median": 66.0, "samples_per_step": 1.0, "verdict": "aim"}
    assert "| ours / theirs | 66 [5, 7] ×, n=3 | 1 | ≥ 5 | ≥ 10 | aim |" in run.markdown([other])


def test_what_is_kept_is_shown_without_measuring(monkeypatch, capsys):
    monkeypatch.setattr(run, "kept", lambda: [json.loads(json.dumps(result(ROW)))])
    monkeypatch.setattr(run, "measured", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["run.py", "--show"])
    assert run.main() == 0
    assert "ours / theirs" in capsys.readouterr().out


def test_all_means_the_long_ones_too(monkeypatch):
    ran: list[str] = []
    monkeypatch.setattr(run, "measured", lambda name, quick: ran.append(name))
    monkeypatch.setattr(sys, "argv", ["run.py", "--all"])
    assert run.main() == 1 and ran == run.stages()


def test_changed_trees_and_busy_machines_are_marked():
    assert "with changes" in run.markdown([result(ROW, dirty=True)])
    assert "NOT A QUIET MACHINE" not in run.markdown([result(ROW)])
    assert "NOT A QUIET MACHINE: others kept 0.5 cores busy" in run.text(result(ROW, cores_busy_with_others=0.5))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.96249, "0.962"), (12.34, "12.3"), (142.6, "143"), (2141234.0, "2,140,000"), (0.0, "0"), (99.96, "100")],
)
def test_figures_have_three_digits_that_count(value, text):
    assert run.figure(value) == text


@pytest.mark.parametrize("file", sorted(run.RESULTS.glob("*.json")), ids=lambda f: f.stem)
def test_kept_results_are_whole_and_say_what_their_repeats_say(file):
    kept = json.loads(file.read_text())
    assert kept["name"] == file.stem and kept["name"] in run.stages()
    assert not kept["quick"]
    assert {"date", "commit", "dirty", "machine", "versions", "command"} <= set(kept)
    for row in kept["rows"]:
        own = {k: row[k] for k in Row.__dataclass_fields__ if k in row}
        again = finished(Row(**{**own, "values": tuple(row["values"])}))
        assert (again["median"], again["verdict"]) == (row["median"], row["verdict"])
        assert again["interval"] == (row["interval"] and pytest.approx(row["interval"]))


# --- stages and peers ------------------------------------------------------------------------------------------------


def test_stages_are_found_by_their_files():
    found = run.stages()
    assert "update_small" in found and "overlap" in found
    assert not [name for name in found if name.startswith("_")]


def test_long_stages_run_only_where_they_are_named(monkeypatch):
    assert "learn_pong" in run.stages() and "learn_pong" not in run.usual() and "overlap" in run.usual()
    ran: list[str] = []
    monkeypatch.setattr(run, "measured", lambda name, quick: ran.append(name))
    for words, wanted in (([], run.usual()), (["--only", "learn_pong"], ["learn_pong"])):
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        assert run.main() == 1 and ran == wanted


@pytest.mark.parametrize("name", run.stages())
def test_each_stage_says_what_it_measures_and_can_be_run(name):
    module = importlib.import_module(f"bench.stages.{name}")
    assert callable(module.run) and module.__doc__
    assert "stage(run)" in Path(module.__file__).read_text()


def test_stages_are_imported_without_torch():
    """So that a list of them costs nothing, and no thread pool starts before a stage has said how many it wants."""
    code = "import sys; from bench import run; [__import__(f'bench.stages.{n}') for n in run.stages()]; " + (
        "assert not {'torch', 'numba', 'hotloop'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_stage_ends_with_one_json_object(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["stage", "--quick"])
    measure.stage(lambda quick: (print("noise"), ({"quick": quick}, [ROW]))[1])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["settings"] == {"quick": True} and last["rows"][0]["median"] == 6


def test_rivals_import_nothing_of_ours():
    """They live in environments without hotloop: what they share with us is measure.py, and that is NumPy only."""
    for file in [*(ROOT / "bench" / "peers").glob("*.py"), ROOT / "bench" / "measure.py"]:
        if not file.stem.startswith("ours"):
            tree = ast.parse(file.read_text())
            names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            assert not [n for n in names if n.split(".")[0] == "hotloop" or n.startswith("bench.stages")]


OLDER = {("gymnasium", "rllib"), ("gymnasium", "jax_whole")}  # what a rival demands itself


def test_rivals_are_pinned_and_have_our_torch():
    pinned = dict(x.split("==") for x in (ROOT / "constraints.txt").read_text().splitlines() if "==" in x)
    for file in (ROOT / "bench" / "peers").glob("requirements-*.txt"):
        wanted = [x for x in file.read_text().splitlines() if x and not x.startswith("#")]
        assert all("==" in x for x in wanted), "a rival is one version"
        for name, number in (x.split("==") for x in wanted):
            assert pinned.get(name, number) == number or (name, file.stem[13:]) in OLDER


# --- what is counted from outside ------------------------------------------------------------------------------------


def test_a_window_runs_from_the_first_cycle_to_the_last_and_counts_what_happened():
    window = Window({"updates_at_once": 2})
    for cycle in range(4):
        window.env_steps += 100
        for _ in range(2):
            window.sampled(32)
            window.updated()
            if cycle == 3:
                break  # a cycle that was cut short does not count
    report = window.report()
    assert (report["env_steps"], report["updates"], report["samples_per_step"]) == (200, 4, 128 / 200)


def test_a_cold_start_ends_at_the_first_update():
    made = []

    def train(work):
        window = Window(work)
        step = counting_updates(lambda: made.append("update"), window)
        step()
        step()

    before = time.monotonic()
    assert before <= until_first_update(train)({})["at"] <= time.monotonic() and made == ["update"]


def test_steps_and_rows_are_counted_by_those_who_make_them():
    window = Window({})
    step, sample = counting_steps(lambda a: a, window, 10), counting_rows(lambda n: [0] * n, window, len)
    assert step(3) == 3 and sample(32) == [0] * 32
    assert (window.env_steps, window.samples) == (10, 32)


def test_snapshots_are_copies_and_the_time_for_them_is_not_training():
    weights, window = np.zeros(3, np.float32), None
    window = Window({"snapshot_every_env_steps": 10}, lambda: weights)
    for t in range(1, 31):
        weights[:] = t
        window.env_steps = t
        window.updated()
    assert [(n, unpacked(w)[0]) for n, _, _, w in window.report()["snapshots"]] == [(10, 10), (20, 20), (30, 30)]


def test_weights_in_pytorchs_order_there_and_back():
    sizes = (4, 5, 3, 2)
    for norm in (False, True):
        count = sum(n * m + m for n, m in pairwise(sizes)) + norm * 2 * (5 + 3)
        params = np.arange(count, dtype=np.float32)
        tensors = transposed(params, sizes, norm)
        assert tensors[0].shape == (4, 5) and tensors[0][1, 0] == 1  # [in, out] of a matrix that lies as [out, in]
        np.testing.assert_array_equal(in_order(tensors), params)
        np.testing.assert_array_equal(unpacked(packed(params)), params)


def test_the_judge_plays_cartpole_by_the_weights_it_is_given():
    """One linear layer that pushes towards where the pole falls and moves plays well; its negative falls at once."""
    balance = np.array([[0, -0.1, -1, -1], [0, 0.1, 1, 1]], np.float32)
    for sign, plays in ((1, range(450, 501)), (-1, range(8, 13))):
        weights = packed(np.concatenate([(sign * balance).reshape(-1), np.zeros(2, np.float32)]))
        assert int(greedy_return(weights, [], episodes=20)) in plays


# --- what the README says --------------------------------------------------------------------------------------------


def test_the_figures_of_the_readme_are_those_of_the_results():
    from bench import readme

    text = readme.README.read_text("utf-8")
    assert text.count(readme.BEGIN) == text.count(readme.END) == 1
    assert text == readme.written(), "python bench/readme.py"
    assert readme.block().count("\n") > 10
