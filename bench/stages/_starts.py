"""Runs of the command line, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

COMMAND = [sys.executable, "-m", "hotloop", "train"]


def train(*words: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """hotloop train … --json -> its summary, and `process_s`: from the start of the process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            [*COMMAND, *words, "--run", f"{folder}/run", "--json"],
            env={**os.environ, **(env or {})}, capture_output=True, text=True,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"hotloop train {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "process_s": seconds}
