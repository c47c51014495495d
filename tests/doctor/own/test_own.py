"""The doctor of hotloop's own runs: its model of a cycle, what it measures, what it advises and how it tells it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest

from hotloop import cli
from hotloop.api import configure
from hotloop.collect import act
from hotloop.doctor.own import examine, telling, tune
from hotloop.doctor.own.costs import Costs, costs
from hotloop.doctor.own.examined import Baseline, Examined
from hotloop.doctor.own.side import NEVER, Side, Slice
from hotloop.doctor.own.trial import NotTried, Result, Trial, attempt, interval
from tests import running

MS = 1_000_000
# Collecting takes 4 of 10 ms, the updates 8 beside it.
OVERLAPPED = Costs(10 * MS, 1 * MS, 2 * MS, 4 * MS, 1 * MS, 8 * MS, 0.5 * MS, 4 * MS, 0.5 * MS, True)


@pytest.fixture(scope="module")
def side():
    with Side(running.config("snake")) as made:
        yield made


# --- the model -------------------------------------------------------------------------------------------------------


def test_a_cycle_is_its_longer_half_and_what_both_wait_for():
    assert OVERLAPPED.modelled == OVERLAPPED.cycle
    assert replace(OVERLAPPED, overlap=False).modelled == 14 * MS


@pytest.mark.parametrize(
    ("parts", "gain"),
    [
        ({"env": 0}, 1.0),  # hidden behind the updates
        ({"update": 0, "sample": 0}, 10 / 5),
        ({"update": 2 * MS}, 10 / 6),
        ({"sample": 0}, 10 / 9),
    ],
)
def test_what_a_part_would_give_were_it_free(parts, gain):
    assert OVERLAPPED.gain(OVERLAPPED.without(**parts)) == pytest.approx(gain)


def test_shares_of_a_thread_add_up_to_the_time():
    spent = {
        ("main", "act"): (8, 1 * MS), ("main", "env"): (8, 2 * MS), ("main", "collect"): (2, 4 * MS),
        ("main", "sample"): (2, 1 * MS), ("main", "commit"): (2, 1 * MS), ("main", "wait"): (2, 3 * MS),
        ("learn", "update"): (2, 7 * MS),
    }  # fmt: skip
    found = costs(spent, 10 * MS, 2, overlap=True)
    assert found.collect + found.sample + found.commit + found.wait + found.rest == found.cycle == 5 * MS
    assert (found.update, found.rest) == (3.5 * MS, 0.5 * MS)


# --- measuring -------------------------------------------------------------------------------------------------------


def test_a_side_learns_in_every_slice_with_the_samples_it_declares(side):
    found = side.run(0.05)
    config = running.config("snake")
    assert side.config.total_env_steps == NEVER
    assert found.updates * config.learner.batch_size == found.env_steps * config.samples_per_step
    assert found.ns >= 0.05e9 and found.spent["main", "collect"][0] == found.env_steps // 32


def test_it_explores_as_a_run_does_for_most_of_its_length(side):
    collector, config = side.pipeline.collector, running.config("snake")
    assert act.epsilon(collector.explore, collector.env_steps) == config.explore.end
    assert act.temperature(collector.explore, collector.env_steps) == config.explore.temperature_end


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Side(running.config("identity")) as made:
        made.run(0.01)
    assert list(tmp_path.iterdir()) == []


def test_leaving_out_what_takes_the_time_gains_what_was_predicted(side):
    slow = running.config("tests.references.run_envs:Slow", lanes=2, overlap=False, replay={"capacity": 400})
    with Side(slow) as made:
        (trial,) = examine.trials(slow, ["free_environment"])
        found = attempt(slow, made, trial, 3, 0.15)
    assert not isinstance(found, NotTried) and found.predicted
    # On a busy machine the two differ, since what waits for a core is counted where it waits.
    assert found.gain > 2.5 and found.predicted > 2.5
    assert 0.4 < found.predicted / found.gain < 2.5


def test_what_cannot_be_is_not_tried_and_says_why(side):
    impossible = Trial("lanes", "7 lanes", "same learning", {"lanes": 100_000})
    found = attempt(running.config("snake"), side, impossible, 2, 0.01)
    assert isinstance(found, NotTried) and "replay.capacity" in found.why


def test_interval_of_the_median_holds_it_and_narrows():
    values = tuple(1 + 0.01 * k for k in range(21))
    low, high = interval(values)
    assert 1.0 <= low < 1.1 < high <= 1.2


# --- advice ----------------------------------------------------------------------------------------------------------


def examined(costs: Costs = OVERLAPPED, results: tuple[Result, ...] = (), **baseline) -> Examined:
    found = Baseline(
        env_steps_per_s=1e5, samples_per_step=4.0, first_window_ratio=1.0, seconds=3.0, cycles=300, cycle_env_steps=32,
        updates_per_cycle=8, costs=costs, spent={}, cold_start_s={"compile": 0.1}, origin="cache", cores_busy=1.5,
        recorder_share=0.001, replay_bytes=2**20, resident_bytes=2**28, resident_growth=0, refused_updates=0, notes=(),
    )  # fmt: skip
    return Examined(running.config("snake"), 2, 2**33, replace(found, **baseline), results, ())


def result(name: str, gain: float, learning="same learning", samples=(4.0, 4.0), **change) -> Result:
    trial = Trial(name, f"{name} changed", learning, change, remedy=f"--{name} x")
    nothing = Slice(1, 1, 1, {})
    return Result(trial, gain, (gain - 0.05, gain + 0.05), (gain,) * 3, None, samples, (nothing,), OVERLAPPED)


def names_of(seen: Examined) -> list[str]:
    return [a.name for a in examine.advice(seen)]


def test_advice_is_what_was_measured_and_costs_no_learning():
    seen = examined(replace(OVERLAPPED, wait=0), (result("threads", 1.3), result("lanes", 1.04)))
    assert [a.remedy for a in examine.advice(seen)] == ["--threads x"]


def test_waiting_for_the_updates_is_named_with_what_less_of_them_gave():
    seen = examined(results=(result("learn_less", 1.6, "changes learning", (4.0, 2.0)),))
    (found,) = examine.advice(seen)
    assert (found.name, found.measured_gain) == ("waits_for_learner", 1.6)
    assert found.learning == "changes learning (samples per step 4 → 2)"


def test_an_idle_learner_is_named_with_what_feeding_it_gave():
    idle = replace(OVERLAPPED, update=2 * MS, wait=0.0, collect=8 * MS)
    seen = examined(idle, (result("workers", 1.5), result("lanes", 1.1)))
    assert names_of(seen)[0] == "idle_learner" or "idle_learner" in names_of(seen)
    assert next(a for a in examine.advice(seen) if a.name == "idle_learner").remedy == "--workers x"


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"replay_bytes": 6 * 2**30}, "memory"),
        ({"resident_growth": 100 * 2**20}, "growth"),
        ({"refused_updates": 3}, "unstable"),
    ],
)
def test_evidence_is_what_triggers_a_diagnosis(facts, name):
    calm = replace(OVERLAPPED, wait=0)
    assert name not in names_of(examined(calm)) and name in names_of(examined(calm, **facts))


# --- telling ---------------------------------------------------------------------------------------------------------


def test_shares_as_told_add_up_per_thread():
    text = telling.text(examined(), [])
    for thread in ("main", "learn"):
        shares = [float(line.split()[-2]) for line in text.splitlines() if line.startswith(f"  {thread} ")]
        assert sum(shares) == pytest.approx(100, abs=0.5), text


def test_the_command_examines_and_tells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = ["--only", "no_updates,overlap", "--rounds", "2", "--seconds", "0.05"]
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "identity", *few, "--no-compile", "--json"])
    out, err = capsys.readouterr()
    assert left.value.code == 0 and "2/2" in err
    found = json.loads(out)
    assert [e["name"] for e in found["experiments"]] == ["no_updates", "overlap"]
    assert found["experiments"][0]["learning"].startswith("changes learning (samples per step ")
    assert found["recorder_share"] < 0.01
    trace = json.loads((tmp_path / "hotloop-doctor-trace.json").read_text())
    assert {e["name"] for e in trace["traceEvents"]} >= {"act", "env", "update", "collect"}


def test_profiles_are_written_where_they_are_wanted(tmp_path, monkeypatch):
    import pstats

    from hotloop.doctor.own import profiles

    monkeypatch.setattr(profiles, "SECONDS", 0.05)
    config = running.config("identity")
    profiles.with_cprofile(config, tmp_path / "p.prof")
    assert any("next_block" in key[2] for key in pstats.Stats(str(tmp_path / "p.prof")).stats)  # type: ignore[attr-defined]
    profiles.with_torch_profile(config, tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_tuned_settings_are_a_file_that_train_takes(tmp_path):
    config = running.config("identity")
    best = replace(config, lanes=8, overlap=False)
    tune.write(tmp_path / "tuned.toml", config, best, "1.20×", ["lanes 8: 1.20×, taken"])
    written = tomllib.loads((tmp_path / "tuned.toml").read_text())
    again = configure("identity", "default", written)
    assert (again.lanes, again.overlap, again.workers) == (8, False, 0)
    assert (tmp_path / "tuned.toml").read_text().startswith("# hotloop tune-system identity: 1.20×\n")


def test_tuning_keeps_the_samples_per_step_and_takes_only_what_is_faster(monkeypatch):
    config = running.config("identity")
    tried = []

    def attempted(now, side, trial, rounds, seconds):
        tried.append(dict(trial.change))
        return result("tune", 1.5 if trial.change.get("lanes") == 8 else 0.9)

    monkeypatch.setattr(tune, "attempt", attempted)
    monkeypatch.setattr(tune, "Side", lambda config: Side(running.config("identity")))
    best, said = tune.tune(config, 2, 0.01, lambda text: None)
    assert (best.lanes, best.samples_per_step, best.overlap) == (8, config.samples_per_step, config.overlap)
    assert sum("taken" in line for line in said) == 1 and {"lanes": 16, "cycle_steps": 0} in tried
