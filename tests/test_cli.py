"""The command line as a user meets it: what it prints, where, with which exit code; and one line for every mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotloop import cli
from hotloop.config import TrainConfig
from hotloop.core import discover, toml
from hotloop.core.errors import UserError
from hotloop.presets import presets_of
from hotloop.run import RunFolder
from tests import running

ROOT = Path(__file__).parent.parent
FAST = ["--compile", "false", "--evaluate-episodes", "4", "--network.hidden", "8", "--env-steps", "600"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    running.train(path, "identity")
    return path


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """The command in this process -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main([str(a) for a in args])
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return call


def process(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as it is installed."""
    command = [sys.executable, "-W", "error", "-m", "hotloop", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


# --- mistakes --------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("bench snake_enf", "unknown stage 'snake_enf'; did you mean 'snake_env'?"),
    ("bench --quik", "unknown option '--quik'; did you mean '--quick'?"),
    ("trian", "unknown command 'trian'; did you mean 'train'?"),
    ("train", "train needs a WORKLOAD"),
    ("train --lanes 4", "train needs a WORKLOAD"),
    ("train cartpoel", "unknown workload 'cartpoel'; did you mean 'cartpole'?"),
    ("train CartPole-v9", "unknown workload 'CartPole-v9'; did you mean 'CartPole-v"),
    ("train no_such_module:make", "no module named 'no_such_module'"),
    ("train :", "expected module:name"),
    ("train Pendulum-v1", "Pendulum-v1 has continuous actions"),
    ("train cartpole twice", "unexpected word 'twice'"),
    ("train cartpole --lnaes 4", "unknown option 'lnaes'; did you mean 'lanes'?"),
    ("train cartpole --learner.gama 4", "unknown option 'learner.gama'; did you mean 'learner.gamma'?"),
    ("train cartpole --lanes", "option lanes = 'true': expected a whole number"),
    ("train cartpole --lanes many", "option lanes = 'many': expected a whole number"),
    ("train cartpole --lanes 0", "option lanes = 0: must be at least 1"),
    ("train cartpole --learner.gamma 1.5", "option learner.gamma = 1.5: must be at most 1"),
    ("train cartpole --learner 5", "option learner is a group"),
    ("train cartpole --learner 5 --learner.gamma 1", "learner is given twice"),
    ("train cartpole --preset fast", "unknown preset of cartpole 'fast'; did you mean 'default'?"),
    ("train cartpole --variant ddqn", "unknown variant 'ddqn'; did you mean 'dqn'?"),
    ("train cartpole --network mpl", "unknown network 'mpl'; did you mean 'mlp'?"),
    ("train cartpole --head double", "option network.head = 'double': choose one of scalar, dueling"),
    ("train cartpole --workers 3", "cannot be shared equally by workers = 3; nearest: --workers 2, or --lanes 18"),
    ("train cartpole --run", "--run needs a value"),
    ("train cartpole --quiet yes", "--quiet takes no value; got 'yes'"),
    ("train cartpole --config nowhere.toml", "--config nowhere.toml: No such file or directory"),
    ("train cartpole --config .", "--config .: Is a directory"),
    ("train cartpole --config corrupt.toml", "--config corrupt.toml: not TOML: "),
    ("train cartpole --config latin.toml", "--config latin.toml: not TOML: "),
    ("train cartpole --config deep.toml", "--config deep.toml: not TOML: "),
    ("train cartpole --config key.toml", "unknown option 'learner.batchsize'; did you mean 'learner.batch_size'?"),
    ("train cartpole --config snake.toml", "the options are for workload 'snake', not for 'cartpole'"),
    ("train cartpole --samples-per-step 0.12345678", "not a whole number; nearest: --samples-per-step"),
    (
        "train cartpole --learner.batch-size 100000 --replay.capacity 1000 --samples-per-step 6250",
        "is more than replay",
    ),
    (
        "train cartpole --learning-starts-env-steps 1e6 --env-steps 5e5",
        "leaves nothing of total_env_steps = 500000 to learn in",
    ),
    ("train cartpole --replay.capacity 1e12", "option replay.capacity = 1000000000000: the replay needs 28.0 TB, but"),
    ("train cartpole --replay.capacity 1e18", "the largest that fits: replay.capacity = "),
    ("train cartpole --replay.capacity 1e19", "must be at most 9223372036854775807"),
    ("train cartpole --samples-per-step 1e9", "lower samples_per_step, lanes or learner.batch_size"),
    ("train CartPole-v1 --env.kwargs.gravity 3", "CartPole-v1 cannot be made with env.kwargs"),
    ("train cartpole --run RUN", "already holds a run (config.toml); resume it or choose another folder"),
    ("train cartpole --run corrupt.toml", "cannot make the run folder corrupt.toml: File exists; choose another"),
    ("resume", "resume needs a RUN"),
    ("resume nowhere", "nowhere is not a run: no such folder"),
    ("resume .", ". is not a run: no config.toml in it"),
    ("resume RUN --lanes 3", "unknown option '--lanes'; known: --env-steps, --json, --quiet"),
    ("resume RUN --env-steps many", "option total_env_steps = 'many': expected a whole number"),
    ("resume emptied", "no checkpoint in emptied/checkpoints"),
    ("resume damaged", "no sound checkpoint in damaged/checkpoints (checkpoint-000000000960: "),
    ("resume garbled", "garbled/config.toml is damaged"),
    ("eval nowhere", "nowhere is not a run: no such folder"),
    ("eval emptied", "emptied/weights.safetensors cannot be read"),
    ("eval RUN --episodes 0", "--episodes 0: must be at least 1"),
    ("eval RUN --episodes x", "--episodes 'x': expected a whole number"),
    ("eval RUN --seed -1", "--seed -1: must be at least 0"),
    ("eval RUN --seed 9223372036854775808", "must be below 2^63"),
    ("eval RUN --polcy x", "unknown option '--polcy'"),
    ("play snake", "play needs --policy random, heuristic or the folder of a run"),
    ("play snake --policy RUN", "is a run of identity, not of snake"),
    ("play snake --policy nowhere", "nowhere is not a run"),
    ("play CartPole-v1 --policy heuristic", "CartPole-v1 ships no heuristic policy"),
    ("play snake --policy random --lanes 3", "unknown option '--lanes'"),
    ("play snake --policy random --env.sise 3", "unknown option 'env.sise'; did you mean 'env.size'?"),
    ("list --all", "unknown option '--all'; known: --json"),
]


@pytest.fixture
def files(tmp_path, finished):
    """What the mistakes above stumble over."""
    import shutil

    (tmp_path / "corrupt.toml").write_text("lanes = = 4\n")
    (tmp_path / "latin.toml").write_bytes("name = 'é'".encode("latin-1"))
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "key.toml").write_text("[learner]\nbatchsize = 4\n")
    (tmp_path / "snake.toml").write_text('workload = "snake"\n')
    for name in ("emptied", "damaged", "garbled"):
        shutil.copytree(finished, tmp_path / name)
    shutil.rmtree(tmp_path / "emptied" / "checkpoints")
    (tmp_path / "emptied" / "checkpoints").mkdir()
    (tmp_path / "emptied" / "weights.safetensors").unlink()
    (tmp_path / "damaged" / "checkpoints" / "checkpoint-000000000960" / "arrays.safetensors").write_bytes(b"x" * 99)
    (tmp_path / "garbled" / "config.toml").write_text("lanes = = 4\n")


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_one_line_and_exit_code_2(call, files, finished, words, said):
    began = time.perf_counter()
    code, out, err = call(*words.replace("RUN", str(finished)).split())
    assert code == 2 and out == ""
    assert err.startswith("hotloop: ") and err.count("\n") == 1 and err.endswith("\n")
    assert said in err
    assert time.perf_counter() - began < 10
    left = Path("runs")
    assert not left.exists() or not [p for run in left.iterdir() for p in run.iterdir()]


def test_a_missing_extra_is_one_line_with_what_to_type(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)  # what the import system takes for a package that is not there
    monkeypatch.delitem(gymnasium.registry, "ALE/Pong-v5", raising=False)
    said = 'hotloop: ALE/Pong-v5 needs an extra: pip install "hotloop[atari]"\n'
    assert call("train", "ALE/Pong-v5") == (2, "", said)


@pytest.mark.parametrize("words", ["trian", "train cartpole --lanes x", "resume nowhere", "train Pendulum-v1"])
def test_the_installed_command_shows_no_traceback_either(tmp_path, words):
    done = process(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_no_trainer_uses_a_folder_that_another_one_uses(call, tmp_path):
    with RunFolder.create(tmp_path / "run", "identity", 0):
        code, _, err = call("train", "identity", "--run", tmp_path / "run")
    assert code == 2 and f"is in use by process {os.getpid()}; stop it or choose another folder" in err


words = st.text(st.characters(exclude_characters="\0"), max_size=12) | st.sampled_from(
    [
        "--lanes",
        "--seed",
        "--learner.gamma",
        "--network",
        "--env.size",
        "--run",
        "--config",
        "--json",
        "--quiet",
        "0",
        "-1",
        "x",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["train", "resume", "eval", "play", "list", "?"]), st.lists(words, max_size=5))
def test_any_words_at_all(monkeypatch, tmp_path, verb, args):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run", lambda *a, **k: 0)  # words are tried here, not training
    try:
        cli.run([verb, *args])
    except UserError as error:
        assert "\n" not in str(error)


def test_an_interrupt_while_nothing_is_to_be_saved(call, monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_list", interrupted)
    assert call("list") == (130, "", "hotloop: interrupted\n")


def test_memory_that_runs_out_is_one_line(call, monkeypatch):
    def hungry(args):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(cli, "_list", hungry)
    code, _, err = call("list")
    assert (
        code == 2 and err.startswith("hotloop: out of memory: Unable to allocate 9 TiB; lower") and err.count("\n") == 1
    )


# --- train -----------------------------------------------------------------------------------------------------------


def test_train_shows_the_run_and_leaves_its_folder(call, tmp_path):
    code, out, err = call("train", "identity", *FAST)
    assert (code, err) == (0, "")
    run = Path("runs/identity-s0-1")
    assert (
        "identity: 8 lanes, 600 env steps, 8 samples per step (8 updates of 32 per cycle of 4 × 8 env steps), seed 0"
        in out
    )
    for line in (f"run      {run}", f"report   {run}/report.html", f"weights  {run}/weights.safetensors"):
        assert f"{line}\n" in out
    assert (run / "report.html").stat().st_size > 100_000
    names = {p.name for p in run.iterdir()}
    files = ["config.toml", "metrics.jsonl", "trace.json", "summary.json", "weights.safetensors", "report.html"]
    assert names == {"checkpoints", *files}
    assert "\x1b" not in out  # no terminal, no escapes


def test_json_is_the_last_line_and_the_summary(call):
    code, out, err = call("train", "identity", "--run", "r", "--json", *FAST)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out) == RunFolder.open(Path("r")).read_summary()
    code, out, err = call("resume", "r", "--json", "--env-steps", "700")
    assert (code, out.count("\n")) == (0, 1)
    assert json.loads(out)["env_steps"] == 704
    assert err == "hotloop: the budget was 600 env steps and is 700\n"


def test_quiet_prints_nothing(call):
    assert call("train", "identity", "--quiet", *FAST) == (0, "", "")
    assert call("resume", "runs/identity-s0-1", "--quiet") == (0, "", "")


def test_flags_win_over_the_file_and_the_file_over_the_preset(call):
    Path("o.toml").write_text("lanes = 4\nseed = 7\n[learner]\ngamma = 0.25\nbatch_size = 16\n")
    flags = ["--learner.batch-size=8", "--learner.gamma", "0.75", "--no-overlap", "--config", "o.toml", *FAST]
    assert call("train", "identity", "--quiet", *flags)[0] == 0
    config = tomllib.loads(Path("runs/identity-s7-1/config.toml").read_text())
    assert (config["lanes"], config["seed"], config["overlap"]) == (4, 7, False)
    assert (config["learner"]["gamma"], config["learner"]["batch_size"]) == (0.75, 8)
    assert config["learner"]["optimizer"]["learning_rate"] == 5e-3  # the preset's


def test_the_config_of_a_run_trains_the_same_run_again(call, finished):
    assert call("train", "identity", "--config", finished / "config.toml", "--run", "again", "--quiet")[0] == 0
    running.assert_same(Path("again"), finished)


def test_short_flags_and_underscores(call):
    chosen = [
        "--head",
        "dueling",
        "--variant",
        "dqn",
        "--network",
        "mlp",
        "--total_env_steps",
        "500",
        "--variant.double",
    ]
    assert call("train", "identity", "--quiet", *FAST[:-2], *chosen)[0] == 0
    config = tomllib.loads(Path("runs/identity-s0-1/config.toml").read_text())
    assert (config["network"]["head"], config["total_env_steps"], config["variant"]["double"]) == ("dueling", 500, True)


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["", "-h", "--help", "help"])
def test_usage_names_every_command(call, words):
    code, out, err = call(*words.split())
    assert (code, err) == (0, "")
    for verb in ("train", "resume", "eval", "play", "list"):
        assert f"hotloop {verb}" in out


@pytest.mark.parametrize("verb", ["train", "resume", "eval", "play", "list"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(call, verb, flag):
    code, out, err = call(verb, flag)
    assert (code, err) == (0, "") and out.startswith(f"hotloop {verb}")


def flags(cls: type, prefix: str = "--") -> list[str]:
    found = []
    for f in fields(cls):
        default = f.default
        if is_dataclass(default):
            found += flags(type(default), f"{prefix}{f.name}.")
        elif f.name not in ("workload", "env", "network", "variant", "sampler"):
            found.append(f"{prefix}{f.name}".replace("_", "-"))
    return found


@pytest.mark.parametrize(
    ("workload", "preset"), [("snake", "grid"), ("cartpole", "default"), ("CartPole-v1", "default")]
)
def test_help_shows_every_option_with_its_value(call, workload, preset):
    code, out, err = call("train", workload, "--preset", preset, "--lanes", "3", "--samples-per-step", "64", "--help")
    assert (code, err) == (0, "")
    shown = {line.split()[0]: line for line in out.splitlines() if line.startswith("  --")}
    wanted = flags(TrainConfig)
    name = {"snake": "snake"}.get(workload, "cartpole" if workload == "cartpole" else "gymnasium")
    for package, part, group in (
        ("hotloop.envs", name, "env"),
        ("hotloop.networks", "nature_cnn" if preset == "grid" else "mlp", "network"),
        ("hotloop.learn.variants", "dqn", "variant"),
        ("hotloop.replay.samplers", "uniform", "sampler"),
    ):
        wanted += flags(discover.load(package, part).Options, f"--{group}.")
    assert set(wanted) <= set(shown)
    assert "--lanes 3 " in shown["--lanes"] and "copies of the environment" in shown["--lanes"]
    for flag in wanted:
        assert len(shown[flag].split(None, 2)) == 3 or flag in ("--env.kwargs",), f"{flag} has no help"


def test_list_names_every_part(call):
    code, out, err = call("list")
    assert (code, err) == (0, "")
    parts = [*discover.names("hotloop.networks"), *discover.names("hotloop.learn.variants"), "scalar", "dueling"]
    parts += discover.names("hotloop.replay.samplers")
    for name in ("snake", "cartpole", "identity", *parts, *presets_of("snake")):
        assert re.search(rf"\b{name}\b", out), name
    code, out, _ = call("list", "--json")
    assert {"worlds", "networks", "heads", "variants", "samplers"} <= set(json.loads(out))


def test_bench_prints_what_is_kept_and_measures_only_what_is_named(call, monkeypatch):
    asked = []

    class Done:
        returncode = 1

    monkeypatch.setattr(cli.subprocess, "run", lambda words: (asked.append([str(w) for w in words[2:]]), Done())[1])
    for words in ("bench", "bench snake_env overlap --quick", "bench --all", "bench --quick"):
        assert call(*words.split())[0] == 1, "the exit code is that of the measuring"
    assert asked == [["--show"], ["--only", "snake_env", "overlap", "--quick"], ["--all"], ["--quick"]]
    monkeypatch.setattr(cli, "__file__", "/usr/lib/python3/site-packages/hotloop/cli.py")
    code, _, err = call("bench")
    assert code == 2 and "clone the repository" in err


def test_version(call):
    from hotloop import __version__

    assert call("--version") == (0, f"hotloop {__version__}\n", "")


# --- eval and play ---------------------------------------------------------------------------------------------------


def test_eval_gives_the_summary_s_figures(call, finished):
    code, out, err = call("eval", finished, "--episodes", "8", "--json")
    assert (code, err) == (0, "")
    got, summary = json.loads(out), RunFolder.open(finished).read_summary()
    assert (got["episodes"], got["return"][0]) == (8, summary["return_mean"])
    assert got["return"][1:3] == summary["return_ci"] and got["correct"][0] == summary["measures"]["correct"][0]
    other = json.loads(call("eval", finished, "--episodes", "8", "--seed", "1", "--json")[1])
    assert other["return"] != got["return"]


def test_eval_and_play_show_figures_and_frames(call, finished):
    code, out, err = call("eval", finished, "--episodes", "3")
    assert (code, err) == (0, "") and "identity, greedy" in out and re.search(r"return +\d+\.\d+ +\[.*\] +best", out)
    code, out, _ = call("eval", finished, "--episodes", "2", "--render")
    assert code == 0 and out.count("show ") == 20 and "2 episodes" in out
    code, out, _ = call("play", "identity", "--policy", finished, "--episodes", "4")
    assert code == 0 and "4 episodes" in out


@pytest.mark.parametrize("policy", ["random", "heuristic"])
def test_play_snake(call, policy):
    code, out, err = call("play", "snake", "--policy", policy, "--episodes", "20", "--json", "--env.size", "6")
    assert (code, err) == (0, "")
    got = json.loads(out)
    assert got["episodes"] == 20 and got["unfinished"] == 0
    assert got["return"][1] <= got["return"][0] <= got["return"][2] <= got["return"][3]
    assert (
        json.loads(call("play", "snake", "--policy", policy, "--episodes", "20", "--json", "--env.size", "6")[1]) == got
    )


def test_play_a_gymnasium_id(call):
    code, out, _ = call("play", "CartPole-v1", "--policy", "random", "--episodes", "5")
    assert code == 0 and "CartPole-v1, policy random: 5 episodes" in out


def test_a_reader_that_leaves_early_is_no_error(finished):
    command = f"{sys.executable} -m hotloop eval {finished} --render --episodes 50 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("show ") and done.stderr == ""


def test_options_written_as_toml_are_what_flags_say(call):
    Path("o.toml").write_text(toml.dumps({"explore": {"schedule": "exponential"}, "network": {"hidden": [8, 8]}}))
    assert call("train", "identity", "--quiet", "--config", "o.toml", "--run", "a", *FAST[:-4], *FAST[-2:])[0] == 0
    chosen = ["--explore.schedule", "exponential", *FAST, "--network.hidden", "8,8"]
    assert call("train", "identity", "--quiet", "--run", "b", *chosen)[0] == 0
    assert Path("a/config.toml").read_text() == Path("b/config.toml").read_text()


def test_a_film_has_a_frame_for_every_env_step(call, tmp_path):
    from PIL import Image

    code, _, err = call("play", "snake", "--policy", "heuristic", "--episodes", 2, "--gif", "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert code == 0 and film.n_frames > 20 and film.size == (240, 240)
        assert err == f"film.gif: {film.n_frames} frames\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cartpole --gif film.gif", "cartpole shows itself as text only; use --render in place of --gif"),
        ("snake --gif film.png", "--gif film.png: the name has to end in .gif"),
        ("snake --gif nowhere/film.gif", "--gif nowhere/film.gif: no folder nowhere"),
    ],
)
def test_a_film_that_cannot_be_made_is_one_line(call, words, said):
    code, _, err = call("play", *words.split(), "--policy", "random", "--episodes", "1")
    assert (code, err) == (2, f"hotloop: {said}\n")
