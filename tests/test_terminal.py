"""The live panel on a real terminal: a pseudo-terminal that the command takes for one."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys


def on_a_terminal(*words: str) -> tuple[int, str]:
    """Run hotloop on a terminal of its own -> (exit code, what was on the screen, without colours and movements)."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed: Linux says EIO
            break
        if not more:
            break
        seen += more
    os.close(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())


def test_the_panel_shows_how_the_run_goes(tmp_path):
    code, seen = on_a_terminal(
        "train", "identity", "--env-steps", "4000", "--no-compile", "--run", str(tmp_path / "run")
    )
    assert code == 0, seen
    for word in (
        "env steps/s",
        "samples per step",
        "epsilon",
        "loss",
        "return",
        "update",
        "100%",
        "weights",
        "greedy return",
    ):
        assert word in seen, word


def test_an_error_leaves_the_terminal_in_order(tmp_path):
    code, seen = on_a_terminal("train", "identity", "--env.size", "0")
    assert code == 2
    assert len(seen.strip().splitlines()) == 1, seen
