"""`hotloop search`: what is varied, that bad trials are given up, what is written, and one line for every mistake."""

from __future__ import annotations

import tomllib

import pytest

from hotloop import cli, search
from hotloop.config import resolve
from hotloop.core.errors import MissingExtra, UserError
from hotloop.search import Range, Stopped, Tried, nested, ranges, usual
from tests import running
from tests.test_pqn import PQN

OPTIONS = {"total_env_steps": 320, "learning_starts_env_steps": 64, "log_every_env_steps": 0, "evaluate_episodes": 2}


def config(workload: str = "identity", **options):
    return running.config(workload, **{**OPTIONS, **options})


@pytest.fixture
def scored(monkeypatch):
    """Runs that end at once, with a score that their options decide; all that were asked for, by seed."""
    asked = []

    def score(of):
        def scores(config, first_seed, seeds, measure):
            for seed in range(first_seed, first_seed + seeds):
                asked.append((seed, config))
                yield of(config, seed)

        monkeypatch.setattr(search, "_scores", scores)
        return asked

    return score


def test_usual_ranges_lie_around_the_settings_and_leave_out_what_the_variant_fixes():
    found = {r.path: r for r in usual(config(learner={"target_every_updates": 40}))}
    assert list(found) == [
        "learner.optimizer.learning_rate", "learner.gamma", "explore.decay_env_steps", "learner.target_every_updates",
        "replay.n_step",
    ]  # fmt: skip
    rate = found["learner.optimizer.learning_rate"]
    assert (rate.low, rate.high, rate.log) == (3e-3 / 8, 3e-3 * 8, True)
    assert found["learner.target_every_updates"].whole and found["learner.target_every_updates"].high == 160
    pqn = [r.path for r in usual(resolve(running.BASE, PQN, {"workload": "snake", "lanes": 4}))]
    assert "replay.n_step" not in pqn and "learner.target_every_updates" not in pqn


def test_ranges_that_are_asked_for():
    found = ranges("learner.gamma=0.9..0.99,lanes=2|4,explore.decay-env-steps=10..1000", config())
    assert found == [
        Range("learner.gamma", 0.9, 0.99),
        Range("lanes", choices=("2", "4")),
        Range("explore.decay_env_steps", 10, 1000, log=True, whole=True),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learner.gama=0.1..0.2", "unknown option 'learner.gama'; did you mean 'learner.gamma'"),
        ("lanes", "expected OPTION=LOW..HIGH or OPTION=A|B|C"),
        ("lanes=", "expected OPTION=LOW..HIGH"),
        ("learner.gamma=a..b", "is no LOW..HIGH of numbers"),
        ("learner.gamma=0.9..0.1", "LOW must be below HIGH"),
        ("learner.gamma=0.9..inf", "both finite"),
    ],
)
def test_ranges_that_make_no_sense_are_one_line(text, message):
    with pytest.raises(UserError) as why:
        ranges(text, config())
    assert message in str(why.value) and "\n" not in str(why.value)


def test_it_finds_what_is_better_and_says_what_it_was(scored):
    asked = scored(lambda config, seed: -abs(config.learner.gamma - 0.7) + 0.001 * (seed % 3))
    found = search.search(config(), ranges("learner.gamma=0.5..0.95", config()), 15, 3, None, "return")
    assert abs(found[0].values["learner.gamma"] - 0.7) < 0.05 and len(found) == 15
    assert [t.mean for t in found if not t.why] == sorted((t.mean for t in found if not t.why), reverse=True)
    assert any(t.values == {} for t in found) and any(t.why == "given up" and len(t.scores) < 3 for t in found)
    assert {seed for seed, _ in asked} == {0, 1, 2}


def test_one_seed_one_search(scored):
    def runs():
        scored(lambda config, seed: config.learner.gamma)
        return [t.values for t in search.search(config(), usual(config()), 12, 2, None, "return")]

    assert runs() == runs()


def test_combinations_that_are_refused_cost_nothing_and_are_named(scored):
    scored(lambda config, seed: 1.0)
    found = search.search(config(), [Range("learner.batch_size", choices=("7", "16"))], 8, 2, None, "return")
    refused = [t for t in found if not t.scores]
    assert refused and all("samples_per_step" in t.why for t in refused) and found[0].scores


def test_settings_that_do_not_run_themselves_end_the_search():
    with pytest.raises(UserError, match="identity has return, correct"):
        search.search(config(), usual(config()), 5, 1, None, "shots")


def test_no_trial_begins_once_the_minutes_are_over(scored, monkeypatch):
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(search.time, "perf_counter", lambda: next(clock))
    scored(lambda config, seed: 1.0)
    assert len(search.search(config(), usual(config()), 50, 1, 2.0, "return")) == 3


def test_a_signal_ends_it_with_what_there_is(scored):
    def of(config, seed):
        if config.learner.gamma != 0.99:
            raise Stopped(2)
        return 1.0

    scored(of)
    found = search.search(config(), ranges("learner.gamma=0.5..0.9", config()), 9, 2, None, "return")
    assert len(found) == 2 and found[0].values == {} and found[1].why == "stopped by signal 2"


def test_the_best_is_judged_on_seeds_that_chose_nothing(scored):
    asked = scored(lambda config, seed: 100 * config.learner.gamma + seed % 2)
    said = search.confirmed(config(), Tried({"learner.gamma": 0.5}, (1.0,)), 4, "return")
    assert said.startswith("50.5 against 99.5 of the settings as they were, on 4 fresh seeds")
    assert "-49" in said and {seed for seed, _ in asked} == {1_000_000, 1_000_001, 1_000_002, 1_000_003}
    assert "nothing was better" in search.confirmed(config(), Tried({}, (1.0,)), 4, "return")


def test_values_nest():
    assert nested({"a.b.c": 1, "a.b.d": 2, "e": 3}) == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}


def test_the_command_runs_prints_and_writes_what_train_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [
        *("identity", "--env-steps", "320", "--compile", "false", "--learning-starts-env-steps", "64", "--lanes", "4"),
        *("--evaluate-episodes", "2", "--network.hidden", "8", "--trials", "3", "--seeds", "2"),
    ]
    assert cli.run(["search", *flags, "--vary", "learner.gamma=0.5..0.9,lanes=2|4", "--out", "f.toml"]) == 0
    out, err = capsys.readouterr()
    assert "(2 seeds)" in out and "written   f.toml" in out and "trial 3 of 3" in err
    written = (tmp_path / "f.toml").read_text()
    assert written.startswith("# hotloop search identity; use it with: hotloop train identity")
    values = tomllib.loads(written)
    assert values["workload"] == "identity" and all(not isinstance(v, str) for k, v in values.items() if k == "lanes")
    assert cli.run(["train", *flags[:-4], "--config", "f.toml", "--run", "r", "--quiet"]) == 0
    assert not list(tmp_path.glob("runs*"))


def test_without_the_extra_the_way_to_it_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r'pip install "hotloop\[search\]"'):
        search.search(config(), usual(config()), 2, 1, None, "return")
