"""The report as a file: what stands in it, that no text of a run becomes markup, that no strange folder stops it."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import UserError
from hotloop.report import charts, curves, html, phases, reading
from hotloop.report.chart import compact
from tests.report import folders
from tests.report.folders import CONFIG, FINDING, HOSTILE, SUMMARY, finished, folder, row, rows


class Page(HTMLParser):
    """Words outside scripts and styles, elements by tag, and the charts."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.source = path.read_text("utf-8")
        self.feed(self.source)
        self.words = re.sub(r"\s+", " ", " ".join(self.pieces))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.pieces.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag == name]

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        """Caption -> what is drawn under it."""
        drawn = json.loads(self.scripts[0])
        captions = re.findall(r"<figcaption>(.*?)(?: <small>.*?</small>| )</figcaption>", self.source)
        return dict(zip(captions, drawn, strict=True))


def report(*runs: Path, out: Path | None = None) -> Page:
    return Page(html.write(runs, out or runs[0] / "report.html"))


# --- one run ---------------------------------------------------------------------------------------------------------


def test_one_run_is_reported_into_its_folder_and_several_into_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, two = finished(tmp_path / "a"), finished(tmp_path / "b", 1)
    assert html.write([one]) == one / "report.html"
    assert html.write([one, two]) == Path("report.html") and (tmp_path / "report.html").stat().st_size > 1e6
    assert html.write([one], tmp_path / "x.html").name == "x.html"
    assert not list(tmp_path.rglob(".writing*"))


def test_the_figures_stand_in_words_beside_what_they_need(tmp_path):
    words = report(finished(tmp_path / "a")).words
    for text in (
        "snake",
        "seed 0 · 20,000 env steps · 2 s of training",
        "190 [180, 200], 95 % interval of the mean over 100 greedy episodes",
        "0.01 s",
        "10,000 env steps/s at 2 samples per step; 1,125 updates of 32; before learning, apart: 2,000 env steps",
        "0.96 of the median speed of the first of 20 windows of learning over the median of all",
        "2.5 s before step 1; programs came from the cache; first update 4 s after the process began",
        "Exact yes resumed after a kill, it ends with the same bits",
        "346 MB",
        "learner.optimizer.learning_rate 0.001",
        "network.hidden 64, 64",
        "cpu abacus",
        "torch 2.13.0",
    ):
        assert text in words, text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"exact": False}, "no the environment cannot give its state: a resume starts new episodes"),
        ({"warm_start": False}, "programs were compiled, and cached for the next start"),
        ({"compiled": False}, "before step 1; nothing compiled"),
        ({"stopped_by_signal": 15}, "Stopped by a signal; go on with: hotloop resume"),
        ({"refused_updates": 3}, "3 updates were refused: loss or gradient was not finite"),
        ({"unfinished_episodes": 2}, "2 episodes were cut short and count as they stood"),
        ({"env_steps": 9_000}, "The run went on after its last summary (9,000 env steps, now 20,000)"),
    ],
)
def test_what_a_reader_must_know_is_said(tmp_path, change, text):
    assert text in report(folder(tmp_path / "a", None, rows(), {**SUMMARY, **change})).words


def test_every_chart_that_is_owed_is_there(tmp_path):
    page = report(finished(tmp_path / "a"))
    assert list(page.charts) == [
        "Return over env steps", "Return over time", "Env steps per second, while learning",
        "In windows of equal env steps", "The wall clock, from the start", "Thread “main”", "Thread “learn”",
        "Loss", "Mean Q", "Gradient norm", "Epsilon", "Episode length", "Transitions in the replay", "Score", "Death",
    ]  # fmt: skip
    assert [s["name"] for s in page.charts["Death"]["series"]] == ["Wall", "Self"]
    assert len(page.charts) == len(page.tags("figure")) == page.source.count("data-chart=")


def test_learning_is_drawn_against_env_steps_and_time_with_the_interval_at_the_end(tmp_path):
    drawn = report(finished(tmp_path / "a")).charts
    curve, last = drawn["Return over env steps"]["series"]
    assert (curve["kind"], curve["x"][:2], curve["y"][:2]) == ("line", [1_000, 2_000], [0, 10])
    assert (last["kind"], last["x"], last["y"], last["low"], last["high"]) == ("points", [20_000], [190], [180], [200])
    assert drawn["Return over time"]["series"][0]["x"][:3] == [0.01, 0.01, 0.11]
    assert drawn["Return over time"]["series"][1]["x"] == [2]


def test_evaluations_of_the_run_join_it_with_their_interval(tmp_path):
    found = [row(k, **({"eval_return_mean": 10.0 * k, "eval_return_ci": [9.0 * k, 11.0 * k]} if k % 5 == 4 else {}))
             for k in range(20)]  # fmt: skip
    series = report(folder(tmp_path / "a", None, found, SUMMARY)).charts["Return over env steps"]["series"]
    line = next(s for s in series if s.get("name") == "greedy")
    band = next(s for s in series if s["kind"] == "band")
    assert line["x"] == band["x"] == [5_000, 10_000, 15_000, 20_000] and line["y"] == [40, 90, 140, 190]
    assert (band["low"], band["high"]) == ([36, 81, 126, 171], [44, 99, 154, 209])


def test_speed_is_that_of_learning_alone(tmp_path):
    drawn = report(finished(tmp_path / "a")).charts
    (line,) = drawn["Env steps per second, while learning"]["series"]
    assert line["x"][0] == 3_000 and set(line["y"]) == {10_000}, "100,000/s without updates is no speed of learning"
    assert drawn["In windows of equal env steps"]["series"][0]["y"][0] == 9_600
    spent = {s["name"]: s["x"] for s in drawn["The wall clock, from the start"]["series"]}
    assert spent == {
        "compile": [2], "replay": [0.5], "collecting alone": [0.01], "training": [1.99], "evaluate": [0.25],
    }  # fmt: skip


def test_a_row_that_straddles_the_beginning_of_learning_counts_as_before(tmp_path):
    found = rows()
    for later in found[2:]:
        later["updates"] -= 30
    run = reading.read(folder(tmp_path / "a", None, found, SUMMARY))
    assert curves.learning_rows(run, 32, 2.0).tolist() == [False] * 3 + [True] * 17


def test_phases_are_shares_of_the_wall_clock_and_inner_sections_count_once(tmp_path):
    main, learn = reading.read(finished(tmp_path / "a")).phases
    means = {name: round(float(s.mean()), 3) for name, s in main.shares.items()}
    assert main.track == "main" and means == {"act": 0.25, "env": 0.25, "wait": 0.1, "rest": 0.4}
    assert np.allclose(sum(main.shares.values()), 1) and np.allclose(learn.shares["update"], 1)


def test_phases_of_rows_are_preferred_to_the_trace(tmp_path):
    found = [row(k, sections={"main/act": 0.02, "main/wait": 0.07}) for k in range(20)]
    (main,) = reading.read(folder(tmp_path / "a", None, found, SUMMARY, trace=folders.trace())).phases
    assert main.axis == "env steps" and main.shares["act"][5] == pytest.approx(0.2)
    assert main.shares["rest"][5] == pytest.approx(0.1)


def test_a_trace_that_forgot_is_read_from_where_all_threads_remember():
    kept = folders.trace()
    kept["traceEvents"] = [e for e in kept["traceEvents"] if e.get("tid") != 2 or e["ph"] == "M" or e["ts"] >= 8e6]
    first = phases._from_events(kept["traceEvents"], {"main": 0, "learn": 0})[1].shares["update"][0]
    assert first == 0, "before its first event a thread that forgot nothing did nothing"
    whole = phases._from_events(kept["traceEvents"], {"main": 0, "learn": 5})
    assert whole[1].shares["update"][0] == pytest.approx(1) and whole[0].at[-1] < 5


@pytest.mark.parametrize("text", ["", "{", "[]", '{"traceEvents": [{}]}', '{"traceEvents": []}', '{"traceEvents": 3}'])
def test_a_trace_that_cannot_be_read_is_left_out(tmp_path, text):
    (tmp_path / "trace.json").write_text(text)
    assert phases.from_trace(tmp_path / "trace.json") == []


def test_keys_that_nobody_knew_of_are_shown_and_workers_apart(tmp_path):
    found = [row(k, rss_mb=100.0 + k, entropy=0.5, workers={"idle": k, "busy": 1.0}, ring_filled=k) for k in range(20)]
    page = report(folder(tmp_path / "a", None, found, SUMMARY))
    assert {"Memory, MB", "Workers", "Ring filled", "Entropy"} <= set(page.charts)
    assert "Workers and rings" in page.words and "More figures" in page.words
    assert "Workers and rings" not in report(finished(tmp_path / "b")).words


def test_the_doctor_s_findings_stand_there_with_what_they_change(tmp_path):
    run = folder(tmp_path / "a", None, rows(), SUMMARY, [FINDING, {"title": "odd", "share": "much", "line": None}, 3])
    words = report(run).words
    for text in ("Acting waits for learning", "40 % of the time · predicted gain 1.67×", "measured gain 1.50×",
                 "[1.4, 1.6]", "changes learning", "train.py:12", "the main thread slept", "overlap them"):  # fmt: skip
        assert text in words, text
    assert "What the doctor found" not in report(finished(tmp_path / "b")).words


# --- several runs ----------------------------------------------------------------------------------------------------


def test_seeds_of_one_setting_are_a_mean_with_its_interval(tmp_path):
    runs = [finished(tmp_path / f"s{seed}", seed) for seed in (0, 3, 6)]
    page = report(*runs)
    series = page.charts["Return over env steps"]["series"]
    assert [s["kind"] for s in series] == ["band", "thin", "thin", "thin", "line", "points"]
    band, mean = series[0], series[4]
    half = 4.303 * 3 / math.sqrt(3)
    assert mean["y"][:2] == [3, 13] and band["low"][0] == pytest.approx(3 - half, abs=1e-3)
    assert band["high"][0] == pytest.approx(3 + half, abs=1e-3)
    assert "193 [185.5, 200.5], 95 % interval of the mean over 3 seeds" in page.words
    assert "3 runs · seeds 0, 3, 6" in page.words and "seed 0, 3, 6" in page.words


def test_settings_are_told_apart_by_what_differs(tmp_path):
    slow = {"learner": {**CONFIG["learner"], "optimizer": {"learning_rate": 1e-4}}}
    runs = [finished(tmp_path / f"a{s}", s) for s in (0, 1)] + [finished(tmp_path / f"b{s}", s, slow) for s in (0, 1)]
    page = report(*runs)
    keys = re.findall(r'data-colour="(\d)"><i class="line c\d"></i>([^<]*)', page.source.partition("<figure")[2])
    assert keys[:2] == [("0", "learning_rate 0.001"), ("1", "learning_rate 0.0001")]
    assert "Differs learning_rate 0.001 learning_rate 0.0001 learner.optimizer.learning_rate 0.001 0.0001" in page.words


def test_options_that_change_nothing_do_not_part_runs(tmp_path):
    from hotloop.config import TrainConfig

    assert set(reading.INDIFFERENT) <= {f.name for f in fields(TrainConfig)}
    runs = [finished(tmp_path / "a", 0), finished(tmp_path / "b", 1, {"tensorboard": True, "report": False})]
    (group,) = curves.grouped([reading.read(r) for r in runs])["snake"]
    assert len(group.runs) == 2


def test_other_workloads_have_a_section_of_their_own(tmp_path):
    page = report(finished(tmp_path / "a"), finished(tmp_path / "b", config={"workload": "cartpole"}))
    assert re.findall(r"<h1>(.*?)</h1>", page.source) == ["snake", "cartpole"]


def test_speeds_at_other_samples_per_step_are_not_compared_in_silence(tmp_path):
    other = finished(tmp_path / "b", 0, {"samples_per_step": 4.0}, samples_per_step=4.0, machine={"cpu": "slide rule"})
    words = report(finished(tmp_path / "a"), other).words
    assert (
        "Samples per step differ (2 or 4): these settings do not learn alike, and their speeds do not compare" in words
    )
    assert "The runs were made on different machines" in words


def test_a_seed_counts_once(tmp_path):
    runs = [finished(tmp_path / name, seed) for name, seed in (("a", 0), ("b", 0), ("c", 2), ("d", 4))]
    (group,) = curves.grouped([reading.read(r) for r in runs])["snake"]
    assert [r.seed for r in group.seeds] == ["0", "2", "4"]
    assert "share setting and seed" in report(*runs).words


def test_two_values_have_a_range_and_three_students_t():
    low, high = curves.interval(np.array([[1.0], [3.0]]))
    assert (low[0], high[0]) == (1, 3)
    scipy = pytest.importorskip("scipy.stats", reason="scipy is not installed; pip install 'hotloop[dev]'")
    for freedom in (*range(1, 60), 1_000):
        assert curves.students_t(freedom) == pytest.approx(scipy.t.ppf(0.975, freedom), rel=2e-3)


# --- thinning --------------------------------------------------------------------------------------------------------


@given(st.integers(3, 9_000), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]))
def test_thinning_keeps_ends_and_extremes(n, seed, gaps):
    generator = np.random.default_rng(seed)
    y = generator.normal(size=n)
    y[generator.random(n) < gaps] = np.nan
    x = np.arange(n, dtype=float)
    at, value = curves.thin([x, y])
    assert len(at) <= curves.MOST_POINTS and (at[0], at[-1]) == (0, n - 1) and (np.diff(at) > 0).all()
    if np.isfinite(y).any():
        assert (np.nanmin(value), np.nanmax(value)) == (np.nanmin(y), np.nanmax(y))


def test_a_long_run_is_thinned_in_the_file(tmp_path):
    found = [{**row(k), "loss": 1e9 if k == 4_321 else 1.0} for k in range(9_000)]
    drawn = report(folder(tmp_path / "a", None, found, SUMMARY)).charts
    assert all(len(s["y"]) <= curves.MOST_POINTS for c in drawn.values() for s in c["series"])
    assert max(drawn["Loss"]["series"][0]["y"]) == 1e9


def test_numbers_are_short_and_gaps_are_null():
    assert json.dumps(compact(np.array([1.0, 1 / 3, np.nan, np.inf, 1e300]))) == "[1, 0.333333, null, null, 1e+300]"


# --- hostile and strange ---------------------------------------------------------------------------------------------


def hostile_run(path: Path) -> Path:
    config = {"workload": HOSTILE, "env": {"name": HOSTILE, "x' onclick='alert(2)": '" onload="alert(3)'}}
    told = {**SUMMARY, "versions": {HOSTILE: HOSTILE}, "measures": {HOSTILE: [1.0, 1.0, 1.0]}}
    found = [row(k, **{HOSTILE: 1.0}) for k in range(5)]
    finding = dict.fromkeys(FINDING, HOSTILE) | {"evidence": [HOSTILE]}
    return folder(path / "</title><b>&amp; %{x}", config, found, told, [finding])


def test_text_of_a_run_stays_text(tmp_path):
    run = hostile_run(tmp_path / "x<img src=y>")
    page = report(run, out=tmp_path / "r.html")
    assert page.tags("img") == [] and page.tags("b") == [{}] * 6, "the figures"
    assert "</title><b>&amp; %{x}" in page.words
    other = folder(tmp_path / "other", {"workload": HOSTILE, "env": {"name": "tame"}}, rows(), SUMMARY)
    page = report(run, other, out=tmp_path / "r.html")
    assert f"name {HOSTILE}, " in str(page.charts) and page.tags("img") == []
    assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on")]
    assert len(page.scripts) == 3 and page.source.count("</script") == 3 and page.source.lower().count("<!--") == 0
    assert HOSTILE in page.words and "</title><b>&amp; %{x}" in page.words


def test_nothing_is_fetched(tmp_path):
    page = report(finished(tmp_path / "a"))
    assert [a for _, attrs in page.elements for a in attrs if a in ("src", "srcset", "action", "data", "poster")] == []
    assert [attrs.get("href") for attrs in page.tags("link") + page.tags("a")] == ["data:,"]
    (policy,) = [a["content"] for a in page.tags("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert (
        policy is not None and policy.startswith("default-src 'none'; ") and "http" not in policy and "*" not in policy
    )
    assert "@import" not in page.source.partition("</style>")[0] and "url(" not in page.source.partition("</style>")[0]


STRANGE: dict[str, dict[str, Any]] = {
    "config alone": {},
    "no rows": {"metrics": []},
    "one row": {"metrics": rows(1)},
    "interrupted": {"metrics": rows(7)},
    "no learning": {"metrics": rows(1), "summary": {**SUMMARY, "env_steps_per_s": None, "first_window_ratio": None,
                                                   "env_steps_per_s_windows": [], "sections": {}}},
    "NaN": {"metrics": [dict.fromkeys(row(k), math.nan) | {"env_steps": 1000 * k} for k in range(5)]},
    "infinite": {"metrics": [dict.fromkeys(row(k), math.inf) | {"env_steps": 1000 * k} for k in range(5)]},
    "all NaN": {"metrics": [dict.fromkeys(row(0), math.nan)] * 4},
    "null": {"metrics": [dict.fromkeys(row(k)) for k in range(3)]},
    "no return": {"metrics": rows(), "summary": {**SUMMARY, "return_mean": None, "return_ci": [None, None]}},
    "nulls": {"metrics": rows(), "summary": dict.fromkeys(SUMMARY)},
    "lists": {"metrics": rows(), "summary": {k: [1, "x", None] for k in SUMMARY}},
    "texts": {"metrics": [dict.fromkeys(row(k), "x") for k in range(3)], "summary": dict.fromkeys(SUMMARY, "x")},
    "zeros": {"metrics": [dict.fromkeys(row(k), 0) for k in range(3)],
              "summary": {**SUMMARY, "train_s": 0, "sections": {"main/act": [0, 0.0]}, "env_steps_per_s_windows": [0]}},
    "huge": {"metrics": [dict.fromkeys(row(k), 10**400) | {"env_steps": k} for k in range(3)]},
    "other keys": {"metrics": [{"a": {"b": {"c": 1}}}, {"env_steps": 3}, {"seconds": 1}], "summary": {"x": 1}},
    "findings of another kind": {"metrics": rows(), "findings": [None, [], {}]},
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_folder_is_reported(tmp_path, name):
    run = folder(tmp_path / "a", **STRANGE[name])
    page = report(run)
    assert "snake" in page.words
    report(run, finished(tmp_path / "b", 1), out=tmp_path / "both.html")


def test_a_folder_may_have_any_name(tmp_path, monkeypatch):
    odd = finished(tmp_path / os.fsdecode(b"odd \xff name"))
    assert "odd \\udcff name" in report(odd).words
    monkeypatch.chdir(finished(tmp_path / "here"))
    assert '"y":["here"]' in report(Path(".")).scripts[0]


def test_files_that_are_damaged_are_named(tmp_path):
    run = finished(tmp_path / "a")
    for name in ("summary.json", "trace.json", "doctor.json"):
        (run / name).write_text("{")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 21000, "upd')
    words = report(run).words
    assert "summary.json is damaged" in words and "doctor.json cannot be read" in words
    (run / "config.toml").write_text("[")
    assert "config.toml is damaged" in report(run).words


def test_rows_that_were_written_again_after_a_resume_count_once(tmp_path):
    found = [*rows(10), *[row(k, loss=7.0) for k in range(5, 20)]]
    run = reading.read(folder(tmp_path / "a", None, found, SUMMARY))
    assert run.columns["env_steps"].tolist() == [1_000.0 * (k + 1) for k in range(20)]
    assert (run.columns["loss"][5:] == 7).all()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(
    st.sampled_from([*row(0), *SUMMARY, "rss_mb", "workers", "eval_return_ci"]) | st.text(), VALUES
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TABLES, max_size=4), TABLES, st.lists(VALUES, max_size=2))
def test_no_folder_stops_a_report(tmp_path_factory, metrics, summary, findings):
    at = tmp_path_factory.mktemp("strange")
    one = reading.read(folder(at / "a", None, metrics, {**SUMMARY, **summary}, findings))
    other = reading.read(folder(at / "b", None, metrics, summary, findings, seed=1))
    for runs in ([one], [other], [one, other]):
        html.page(runs)


@pytest.mark.parametrize("what", ["nowhere", "empty", "file"])
def test_what_is_no_run_is_refused_in_one_line(tmp_path, what):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is not a run") as refused:
        html.write([tmp_path / what])
    assert "\n" not in str(refused.value)


def test_what_cannot_be_written_or_named_is_refused_in_one_line(tmp_path):
    run = finished(tmp_path / "a")
    with pytest.raises(UserError, match=r"cannot write .*nowhere/x\.html"):
        html.write([run], tmp_path / "nowhere" / "x.html")
    with pytest.raises(UserError, match="needs a run"):
        html.write([])


# --- what it costs ---------------------------------------------------------------------------------------------------


def test_a_report_of_a_full_run_is_quick(tmp_path):
    """A long trace included: 2 x 65,536 events, as the rings hold."""
    long = folders.trace(26_000)
    run = folder(tmp_path / "a", None, [row(k) for k in range(100)], SUMMARY, trace=long)
    began = time.process_time()
    html.write([run])
    assert time.process_time() - began < 1.5


def test_a_report_is_written_without_torch_or_plotly_s_python(tmp_path):
    run = finished(tmp_path / "a")
    code = (
        "import sys; from pathlib import Path; from hotloop.report import html; html.write([Path(sys.argv[1])]); "
        "assert not {'torch', 'numba', 'gymnasium', 'plotly', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], check=True)


def test_every_key_of_a_real_run_has_its_place(tmp_path):
    """What training writes today, so that a key that is renamed there is missed here."""
    from tests import running

    run = tmp_path / "real"
    running.train(run, "snake", evaluate_every_env_steps=320)
    page = report(run)
    assert {
        "Return over time",
        "Env steps per second, while learning",
        "The wall clock, from the start",
        "Thread “main”",
        "Thread “learn”",
        "Loss",
        "Mean Q",
        "Gradient norm",
        "Epsilon",
        "Score",
        "Death, greedy",
    } <= set(page.charts)
    for title in ("Greedy return", "While learning", "Cold start", "Exact", "Memory"):
        assert title in page.words
    assert charts.MORE not in page.words, "a key of training has no place of its own"
