"""What a run says on the terminal: every figure with what it belongs to, and nothing where nothing is known."""

from __future__ import annotations

import io
import math

import pytest

from hotloop.core.clock import FakeClock
from hotloop.report import console
from hotloop.report.console import Lines, Live, Quiet, cells, closing, display, opening, shares
from hotloop.trace import Trace
from tests import running

ROW = {
    "env_steps": 12_000,
    "updates": 1_500,
    "env_steps_per_s": 40_000.0,
    "samples_per_step": 8.0,
    "epsilon": 0.25,
    "loss": 0.0123456,
    "q": None,
    "return_mean": 21.5,
    "steps": 21.5,
}
SUMMARY = {
    "env_steps": 20_032,
    "updates": 2_248,
    "batch": 64,
    "samples_per_step": 8.0,
    "train_s": 1.04,
    "run": "runs/x",
    "env_steps_per_s": 19_314.2,
    "first_window_ratio": 0.953,
    "return_mean": 199.52,
    "return_ci": [190.24, 209.72],
    "episodes": 100,
    "unfinished_episodes": 0,
    "measures": {"steps": [199.5, 190.2, 209.7]},
    "refused_updates": 0,
    "stopped_by_signal": None,
    "report": "report.html",
}


@pytest.fixture(scope="module")
def pipeline():
    from hotloop.pipeline import build_pipeline

    return build_pipeline(running.config("cartpole"), Trace())


def test_a_row_names_its_figures():
    assert dict(cells(ROW, 20_000, ("steps",))) == {
        "env steps": "12,000 / 20,000",
        "env steps/s": "40,000",
        "samples per step": "8",
        "updates": "1,500",
        "epsilon": "0.250",
        "loss": "0.01235",
        "return": "21.5",
        "steps": "21.5",
        "left": "0 s",
    }


def test_a_row_says_what_decides_how_much_is_tried_out():
    others = {k: v for k, v in ROW.items() if k != "epsilon"}
    by_lane = {"epsilon": 0.1, "epsilon_least": 0.000656, "epsilon_most": 0.4}
    for own, shown in (
        ({"temperature": 0.5}, {"temperature": "0.500"}),
        (by_lane, {"epsilon by lane": "0.00066 … 0.4"}),
    ):
        found = dict(cells({**others, **own}, 20_000, ()))
        assert {k: v for k, v in found.items() if "epsilon" in k or k == "temperature"} == shown


@pytest.mark.parametrize(
    "change", [{"loss": math.nan}, {"env_steps_per_s": 0.0}, {"steps": None}, {"return_mean": None}]
)
def test_a_row_with_gaps_is_shown_too(change):
    assert cells({**ROW, **change}, 20_000, ("steps",))


def test_nothing_is_left_of_a_budget_that_is_spent():
    assert "left" not in dict(cells({**ROW, "env_steps": 20_032}, 20_000, ()))


def test_the_opening_says_what_is_about_to_run(pipeline):
    lines = opening(pipeline, 0)
    assert lines[0] == (
        "cartpole: 4 lanes, 960 env steps, 4 samples per step (4 updates of 16 per cycle of 4 × 4 env steps), seed 0"
    )
    assert "for 400 transitions" in lines[1] and "update eager" in lines[2] and len(lines) == 3
    assert "resumed at 640 env steps" in opening(pipeline, 640)
    pipeline.notes.append("something slow")
    assert opening(pipeline, 0)[-1] == "note: something slow"
    pipeline.notes.clear()


def test_the_end_puts_samples_per_step_beside_the_speed():
    lines = closing(SUMMARY)
    assert lines[0] == (
        "20,032 env steps, 2,248 updates of 64 (8 samples per step) in 1.0 s: 19,314 env steps/s while learning, "
        "first window 0.95 of the median"
    )
    assert lines[1] == "greedy return 199.52 [190.24, 209.72] over 100 episodes · steps 200 [190, 210]"
    assert lines[2:4] == ["run      runs/x", "report   runs/x/report.html"]
    assert lines[-1] == "weights  runs/x/weights.safetensors"
    cut = closing({**SUMMARY, "unfinished_episodes": 3})
    assert cut[2] == "3 of these episodes did not end and are counted as they stood"
    assert not [line for line in closing({**SUMMARY, "report": None}) if line.startswith("report")]


def test_the_end_says_what_went_wrong():
    lines = "\n".join(closing({**SUMMARY, "refused_updates": 3, "stopped_by_signal": 2, "env_steps_per_s": None}))
    assert "3 updates refused: loss or gradient was not finite" in lines
    assert "stopped by a signal; checkpoint saved, go on with: hotloop resume runs/x" in lines
    assert "while learning" not in lines


def test_shares_are_those_of_each_thread():
    clock = FakeClock()
    trace = Trace(clock=clock)
    trace.track("main")
    for name, ms in (("act", 30), ("env", 10)):
        with trace.section(name):
            clock.advance(ms * 1_000_000)
    assert shares(trace) == "main: act 75% env 25%"
    assert shares(Trace()) == ""


def test_lines_come_every_so_often_and_at_evaluations(pipeline):
    out = io.StringIO()
    shown = Lines(out, every_s=1e9)
    shown._last = math.inf
    shown.ready(pipeline, 0)
    before = out.getvalue()
    shown.row(ROW)
    assert out.getvalue() == before
    shown.row({**ROW, "eval_return_mean": 33.0})
    assert "greedy return 33" in out.getvalue().removeprefix(before)
    often = Lines(out := io.StringIO(), every_s=0)
    often.row(ROW)
    often.note("look")
    often.finish(SUMMARY)
    assert out.getvalue().count("\n") == 2 + len(closing(SUMMARY)) and "note: look\n" in out.getvalue()


def test_quiet_speaks_on_stderr_only(pipeline, capsys):
    shown = Quiet()
    shown.ready(pipeline, 0)
    shown.row(ROW)
    shown.finish(SUMMARY)
    assert capsys.readouterr() == ("", "")
    shown.note("disk is full")
    assert capsys.readouterr() == ("", "hotloop: disk is full\n")


def test_live_shows_the_same_words(pipeline, capsys):
    shown = Live()
    shown.note("[red]as it is[/red]")
    shown.ready(pipeline, 0)
    shown.row(ROW)
    shown.close()
    shown.close()  # after an error it is closed again
    shown.finish(SUMMARY)
    text = capsys.readouterr().out
    for word in (
        "note: [red]as it is[/red]",
        "cartpole: 4 lanes",
        "samples per step",
        "12,000 / 960",
        "greedy return 199.52",
    ):
        assert word in text, word


def test_the_display_fits_where_the_output_goes(monkeypatch):
    assert isinstance(display(quiet=True, json=False), Quiet) and isinstance(display(quiet=False, json=True), Quiet)
    assert isinstance(display(quiet=False, json=False), Lines)
    monkeypatch.setattr(console.sys.stdout, "isatty", lambda: True, raising=False)
    assert isinstance(display(quiet=False, json=False), Live)
