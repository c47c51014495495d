"""Nothing is left of a run with worker processes, however it ends: no process, no shared memory, no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotloop.core import toml
from tests import running

ROOT = Path(__file__).parent.parent
MARK = "HOTLOOP_TEST_RUN"  # in the environment of every process of a run
ENDS = ("end", "exception", "SIGTERM", "SIGKILL", "SIGKILL of the group", "SIGKILL of the zygote")


def processes(mark: str) -> list[int]:
    """Of a run, those that are more than an entry in a table."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes() and (path / "maps").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def named(pids: list[int], text: str) -> list[int]:
    return [pid for pid in pids if text in Path(f"/proc/{pid}/cmdline").read_text()]


def leftovers(tmp_path: Path, how: str, number: int) -> None:
    """One run and its end."""
    mark = f"{os.getpid()}-{how}-{number}"
    kwargs = {"every": 90, "always": "raise"} if how == "exception" else {"every": 10**9}
    layers = {
        **running.BASE, "lanes": 4, "workers": 2, "env": {"kwargs": kwargs}, "collect": {"restarts_per_minute": 0},
        "total_env_steps": 800 if how == "end" else 10**8, "evaluate_episodes": 1, "log_every_env_steps": 40,
    }  # fmt: skip
    (tmp_path / "options.toml").write_text(toml.dumps(layers))
    before = (set(os.listdir("/dev/shm")), set(os.listdir("/tmp")))
    run = tmp_path / f"run{number}"
    words = ("train", "tests.references.hostile_envs:Hostile", "--run", run, "--config", tmp_path / "options.toml")
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", *map(str, words), "--quiet"], cwd=ROOT, stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark}, start_new_session=True,
    )  # fmt: skip
    if how not in ("end", "exception"):
        until = time.monotonic() + 60
        while not (run / "metrics.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert len(processes(mark)) == 4  # the trainer, the zygote, two workers
    if how == "SIGTERM":
        process.terminate()
    elif how == "SIGKILL":
        process.kill()
    elif how == "SIGKILL of the group":
        os.killpg(process.pid, signal.SIGKILL)
    elif how == "SIGKILL of the zygote":
        (zygote,) = named([p for p in processes(mark) if p != process.pid], "_worker_zygote")[:1]
        os.kill(zygote, signal.SIGKILL)
    process.wait(60)
    until = time.monotonic() + 1.0
    while processes(mark) and time.monotonic() < until:
        time.sleep(0.005)
    assert processes(mark) == []
    assert set(os.listdir("/dev/shm")) <= before[0]
    assert not [name for name in set(os.listdir("/tmp")) - before[1] if name.startswith("hotloop-")]


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_nothing_is_left(tmp_path, how):
    leftovers(tmp_path, how, 0)


@pytest.mark.prove
@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_after_thirty(tmp_path, how):
    for number in range(30):
        leftovers(tmp_path, how, number)
