"""Whatever it is given, the doctor gives a verdict, in time, with its exit code, and no traceback of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotloop.doctor.script import DONE, FAILED, NOTHING, UNUSABLE

DURATION_S = 2.0
GRACE_S = 5.0
EXAMINE = (
    "import sys; from hotloop.doctor.script import examine; "
    "sys.exit(examine(sys.argv[2], sys.argv[3:], duration_s=float(sys.argv[1])))"
)
ENV = """
import random
class Env:
    def reset(self): return 0
    def step(self, action): return 0, 1.0, random.random() < 0.01, {}
"""
SCRIPTS = {
    "syntax error": ("def f(:\n    pass\n", FAILED, "SyntaxError at script.py:1"),
    "import error": ("import no_such_module\n", FAILED, "ModuleNotFoundError at script.py:1"),
    "endless loop": ("x = 0\nwhile True:\n    x += 1\n", NOTHING, "stopped by the doctor"),
    "forks": (
        "import os, time\nfor _ in range(3):\n    if not os.fork():\n        os.setsid()\n        break\n"
        "while True:\n    sum(range(999))\n",
        NOTHING,
        "3 × fork",
    ),
    "exits at once": ("import sys\nsys.exit(0)\n", NOTHING, "ended by itself"),
    "leaves without a word": ("import os\nos._exit(3)\n", FAILED, "exit code 3"),
    "kills itself": ("import os\nos.kill(os.getpid(), 11)\n", FAILED, "killed by SIGSEGV"),
    "takes all signals": (
        "import signal\nfor s in signal.valid_signals():\n    try:\n        signal.signal(s, lambda *a: None)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass\n",
        NOTHING,
        "stopped by the doctor",
    ),
    "has no torch": (ENV + "env = Env()\nenv.reset()\nwhile True:\n    env.step(0)\n", DONE, "env steps/s"),
    "crashes in the middle": (
        ENV + "import time\nenv = Env()\nenv.reset()\nend = time.monotonic() + 0.9\nwhile True:\n    env.step(0)\n"
        "    if time.monotonic() > end:\n        1 / 0\n",
        DONE,
        "ZeroDivisionError at script.py:13",
    ),
    "empty": ("", NOTHING, "ended by itself"),
    "binary": (b"\x00\x01\xff\xfe" * 999, FAILED, "SyntaxError"),
}


def examined(*words: str) -> tuple[int, str, float]:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", EXAMINE, str(DURATION_S), *words], capture_output=True, text=True, timeout=60,
        env={k: v for k, v in os.environ.items() if not k.startswith("COV")},
    )  # fmt: skip
    assert "hotloop/doctor" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.stderr == ""
    return done.returncode, done.stdout, time.perf_counter() - began


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_verdict_in_time_with_its_exit_code(kind: str, tmp_path: Path) -> None:
    text, code, said = SCRIPTS[kind]
    script = tmp_path / "script.py"
    script.write_bytes(text if isinstance(text, bytes) else text.encode())
    left_with, told, seconds = examined(str(script))
    assert left_with == code, told
    assert said in " ".join(told.split()), told
    assert seconds <= DURATION_S + GRACE_S


def test_what_cannot_be_run_is_said_at_once(tmp_path: Path) -> None:
    for words, said in (
        ([str(tmp_path / "missing.py")], "no such file"),
        ([str(tmp_path)], "is a folder"),
    ):
        code, told, seconds = examined(*words)
        assert (code, said in told) == (UNUSABLE, True), told
        assert seconds < GRACE_S


def test_no_process_of_the_script_outlives_the_doctor(tmp_path: Path) -> None:
    script = tmp_path / "forking_away.py"
    script.write_bytes(SCRIPTS["forks"][0].encode())  # type: ignore[union-attr]
    examined(str(script))
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _readable(file)]
    assert not [words for words in commands if str(script).encode() in words]


def _readable(file: Path) -> bool:
    try:
        file.read_bytes()
    except OSError:
        return False
    return True
