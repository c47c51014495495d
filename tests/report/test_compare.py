"""`hotloop compare`: which runs are one side, what is said of them, what is not like for like, and strange folders."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hotloop import cli
from hotloop.core.errors import UserError
from hotloop.report import compare, html, telling
from tests.report.folders import HOSTILE, SUMMARY, finished, folder, row, rows

MORE = {"samples_per_step": 8.0}


def compared(*paths, measure="return", threshold=None):
    runs, _ = compare.collect(paths)
    return compare.compare(runs, measure, threshold)


def seeds(path, count, config=None, first=0, **more):
    return [finished(path.with_name(f"{path.name}{s}"), first + s, config, **more) for s in range(count)]


# --- figures ---------------------------------------------------------------------------------------------------------


def test_runs_that_differ_by_seed_alone_are_one_side(tmp_path):
    (found,) = compared(*seeds(tmp_path / "a", 5), *seeds(tmp_path / "b", 3, MORE, samples_per_step=8.0))
    a, b = found.sides
    assert (a.mark, a.label, a.seeds) == ("A", "samples_per_step 2", ("0", "1", "2", "3", "4"))
    assert a.scores == (190.0, 191.0, 192.0, 193.0, 194.0)
    assert (a.mean, a.interquartile_mean) == (192.0, 192.0)
    low, high = a.interval
    assert 190.0 <= low < 191.5 and 192.5 < high <= 194.0
    assert (b.mark, b.scores, b.samples_per_step) == ("B", (190.0, 191.0, 192.0), (8.0,))
    (pair,) = found.pairs
    assert (pair.side, pair.against, pair.difference) == ("B", "A", -1.0)
    assert pair.improvement == pytest.approx((0.5 + 1.5 + 2.5) / 15)
    assert found.differ == {"samples_per_step": ("2", "8")}


def test_the_threshold_is_met_at_the_first_row_that_is_as_high(tmp_path):
    """Row k is at 1,000 (k + 1) env steps and 0.01 + 0.1 max(k - 1, 0) seconds, with a return of 10 k + seed."""
    (found,) = compared(*seeds(tmp_path / "a", 3), threshold=51.0)
    steps, seconds = found.sides[0].env_steps_to_threshold, found.sides[0].seconds_to_threshold
    assert (steps.reached, steps.seeds, steps.median) == (3, 3, 6_000.0)  # seed 0 at 60 in row 6, the others in row 5
    assert (steps.earliest, steps.latest) == (6_000.0, 7_000.0)
    assert seconds.median == pytest.approx(0.41) and seconds.latest == pytest.approx(0.51)


def test_a_seed_that_never_meets_it_is_later_than_all(tmp_path):
    runs = [finished(tmp_path / "a0"), *(folder(tmp_path / f"a{s}", None, rows(4), SUMMARY, seed=s) for s in (1, 2))]
    (found,) = compared(*runs, threshold=100.0)
    when = found.sides[0].env_steps_to_threshold
    assert (when.reached, when.seeds, when.median, when.earliest) == (1, 3, None, 11_000.0)
    assert "not reached (1 of 3)" in "\n".join(telling.lines(found))


def test_greedy_evaluations_are_the_curve_where_all_runs_have_them(tmp_path):
    def greedy(path, seed):
        told = [row(k, seed, **({"eval_return_mean": 100.0 * k} if k % 5 == 4 else {})) for k in range(15)]
        return folder(path, None, told, {**SUMMARY, "return_mean": 1_700.0}, seed=seed)

    runs = [greedy(tmp_path / "a", 0), greedy(tmp_path / "b", 1)]
    (found,) = compared(*runs, threshold=1_650.0)
    assert found.course == "greedy return on the way"
    assert found.sides[0].env_steps_to_threshold.median == 20_000.0  # the evaluation at the end counts
    (found,) = compared(*runs, finished(tmp_path / "c", 2), threshold=1_650.0)
    assert found.course == "exploring return, last 100 episodes"
    assert found.sides[0].env_steps_to_threshold.reached == 0


def test_curves_over_env_steps_and_over_seconds(tmp_path):
    slow = {**SUMMARY, "seed": 1, "train_s": 4.0}
    late = [{**r, "seconds": 2 * r["seconds"], "return_mean": r["return_mean"] + 2} for r in rows()]
    (found,) = compared(finished(tmp_path / "a"), folder(tmp_path / "b", None, late, slow, seed=1))
    steps, seconds = found.over_env_steps, found.over_seconds
    assert steps.x[0] == 2_500.0 and steps.x[-1] == 20_000.0 and len(steps.x) == compare.POINTS
    middle, (low, high) = steps.sides[-1][0]
    assert (middle, low, high) == (pytest.approx(191.0), pytest.approx(190.0), pytest.approx(192.0))
    assert seconds.x[-1] == pytest.approx(2 * 1.81)
    assert seconds.sides[-1][0][0] == pytest.approx(191.0)  # the one that has ended stays where it was


def test_a_run_that_was_broken_off_ends_the_curve_of_its_side(tmp_path):
    (found,) = compared(finished(tmp_path / "a"), folder(tmp_path / "b", None, rows(10), None, seed=1))
    assert [sides[0] is None for sides in found.over_env_steps.sides] == [False] * 4 + [True] * 4


def test_a_measure_of_the_world_in_place_of_the_return(tmp_path):
    (found,) = compared(finished(tmp_path / "a"), measure="score", threshold=3.0)
    assert (found.score, found.sides[0].scores) == ("greedy score at the end", (19.0,))
    assert found.sides[0].env_steps_to_threshold.median == 4_000.0
    with pytest.raises(UserError, match="unknown --measure 'scor'; did you mean 'score'"):
        compared(tmp_path / "a", measure="scor")


def test_each_workload_is_compared_by_itself(tmp_path):
    found = compared(finished(tmp_path / "a"), finished(tmp_path / "b", config={"workload": "cartpole"}))
    assert [c.workload for c in found] == ["snake", "cartpole"] and not any(c.pairs for c in found)


# --- like for like ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "summary", "note"),
    [
        (MORE, {"samples_per_step": 8.0}, "not like for like: samples per step differ (A 2, B 8)"),
        ({"total_env_steps": 10_000}, {}, "not like for like: budgets differ (A 20,000, B 10,000 env steps)"),
        ({"env": {"size": 12}}, {}, "not like for like: the world itself differs (env.size)"),
        ({"evaluate_longest": 5}, {}, "not like for like: evaluate_longest differs"),
        ({"explore": {"end": 0.5}}, {}, "exploration differs (explore.end), so exploring curves"),
        ({"lanes": 8}, {"machine": {"cpu": "slate"}}, "made on different machines (abacus or slate)"),
        ({"lanes": 8}, {"versions": {"torch": "3"}}, "made with different versions: torch 2.13.0 or 3"),
    ],
)
def test_what_is_not_like_for_like_is_said(tmp_path, config, summary, note):
    (found,) = compared(*seeds(tmp_path / "a", 2), *seeds(tmp_path / "b", 2, config, **summary))
    assert [n for n in found.notes if n.startswith(note)]
    (alike,) = compared(*seeds(tmp_path / "c", 5), *seeds(tmp_path / "d", 5, {"network": {"hidden": [8]}}))
    assert alike.notes == ()


def test_what_has_no_score_is_said_and_does_not_count(tmp_path):
    config = {"total_env_steps": 40_000}
    runs = [
        finished(tmp_path / "a0", 0, config, env_steps=40_000),
        finished(tmp_path / "a1", 1, config, env_steps=20_000),  # stopped half way
        folder(tmp_path / "a2", config, rows(5), None, seed=2),  # goes on
        finished(tmp_path / "a3", 0, config, env_steps=40_000),  # seed 0 again
    ]
    (found,) = compared(*runs)
    assert found.sides[0].scores == (190.0,) and found.sides[0].interval is None
    text = "\n".join(found.notes)
    for note in (
        "a1 ended at 20,000 of 40,000 env steps, and is no score",
        "a2 has no summary at 5,000 env steps; it goes on or was killed, and is no score",
        "A: one seed, so no interval over seeds",
        "A: some runs share setting and seed; each seed counts once",
    ):
        assert note in text


def test_of_two_runs_of_a_seed_the_one_with_a_score_counts(tmp_path):
    (found,) = compared(folder(tmp_path / "a", None, rows(5), None), finished(tmp_path / "b"))
    assert found.sides[0].scores == (190.0,)


# --- strange folders -------------------------------------------------------------------------------------------------


def test_strange_folders_get_a_line_each_and_stop_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.toml").write_text("[tool]\nx = 1\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.toml").write_text("= =")
    (tmp_path / "file").write_text("x")
    good = finished(tmp_path / "good")
    odd = finished(tmp_path / "odd", 1)
    (odd / "summary.json").write_text("[]")
    (odd / "metrics.jsonl").write_text('{"env_steps": "many"}\n{"half')
    bare = folder(tmp_path / "bare", seed=2)
    names = ("empty", "foreign", "broken", "file", "nowhere")
    runs, skipped = compare.collect([*(tmp_path / n for n in names), good, odd, bare, good])
    assert len(runs) == 3 and len(skipped) == 6 and all("\n" not in line for line in skipped)
    assert all(name in line for name, line in zip(names, skipped, strict=False))
    assert "named twice" in skipped[-1]
    (found,) = compare.compare(runs, threshold=50.0)
    assert found.sides[0].scores == (190.0,)
    told = "\n".join(telling.lines(found))
    assert "odd has no summary" in told and "bare has no summary at 0 env steps" in told
    assert telling.section(found)


def test_a_folder_of_many_seeds_is_its_runs(tmp_path):
    for seed in (0, 2, 10):
        finished(tmp_path / "many" / f"s{seed}", seed)
    (tmp_path / "many" / "s3").mkdir()
    (found,) = compared(tmp_path / "many")
    assert found.sides[0].seeds == ("0", "2", "10")


def test_nothing_to_compare_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"nothing to compare: .*not a run"):
        compare.collect([tmp_path])


def test_runs_without_any_score_are_compared_by_what_there_is(tmp_path):
    (found,) = compared(*(folder(tmp_path / f"{s}", config, rows(5), None) for s, config in enumerate([None, MORE])))
    assert found.pairs == () and [s.mean for s in found.sides] == [None, None]
    assert found.over_env_steps.sides[-1][0] is not None and "–" in "\n".join(telling.lines(found))


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_writes_and_exits(tmp_path, capsys):
    runs = [str(p) for p in (*seeds(tmp_path / "a", 5), *seeds(tmp_path / "b", 5, {"lanes": 8}))]
    page = tmp_path / "c.html"
    assert cli.run(["compare", *runs, str(tmp_path / "nowhere"), "--threshold", "50", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    for text in (
        "snake: greedy return at the end",
        "A  lanes 16  (5 runs: ",
        "env steps to 50",
        "6,000 (5 of 5)",
        "B − A",
        "no difference shown",
        "over env steps, exploring return, last 100 episodes",
        "over seconds of training",
        "skipped: ",
        str(page),
    ):
        assert text in out, text
    written = page.read_text()
    assert "Comparison: greedy return at the end" in written and "Return over time" in written
    assert not list(tmp_path.glob(".writing*"))


def test_json_holds_all_of_it(tmp_path, capsys):
    runs = [str(p) for p in (*seeds(tmp_path / "a", 2), *seeds(tmp_path / "b", 2, MORE))]
    assert cli.run(["compare", *runs, "--json", "--threshold=50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["skipped"] == [] and len(found["comparisons"]) == 1
    side = found["comparisons"][0]["sides"][0]
    assert side["scores"] == [190.0, 191.0] and side["interval"] == [190.0, 191.0]
    assert side["env_steps_to_threshold"]["reached"] == 2
    assert found["comparisons"][0]["pairs"][0]["difference"] == 0.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "compare needs the folders of runs"),
        (["a", "--threshold", "high"], "--threshold 'high': expected a number"),
        (["a", "--threshold", "nan"], "--threshold 'nan': expected a number"),
        (["a", "--treshold", "1"], "did you mean '--threshold'"),
        (["nowhere"], "nothing to compare: nowhere is not a run"),
    ],
)
def test_mistakes_are_one_line(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as why:
        cli.run(["compare", *words])
    assert "\n" not in str(why.value)


def test_a_page_that_cannot_be_written_is_one_line(tmp_path):
    run = finished(tmp_path / "a")
    with pytest.raises(UserError, match="choose another with --html"):
        cli.run(["compare", str(run), "--html", str(tmp_path / "no" / "c.html")])


def test_no_text_of_a_run_becomes_markup(tmp_path):
    runs, _ = compare.collect([finished(tmp_path / "a"), finished(tmp_path / "b", 0, {"network": {"name": HOSTILE}})])
    (found,) = compare.compare(runs)
    assert HOSTILE not in html.page(runs, {found.workload: telling.section(found)})


def test_it_opens_without_torch(tmp_path):
    run = finished(tmp_path / "a")
    code = (
        "import sys, hotloop.cli as cli\n"
        f"cli.run(['compare', {str(run)!r}, '--html', {str(tmp_path / 'c.html')!r}])\n"
        "assert not {'torch', 'numba', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
