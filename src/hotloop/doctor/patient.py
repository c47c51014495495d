"""One run of somebody's script in a process of its own: started, sampled, watched, stopped in time. It knows how to
make a recording, not what one means."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

INSIDE = Path(__file__).parent / "inside"
SAMPLE_EVERY_S = 0.004
LOOK_EVERY_S = 0.05
KEPT_BYTES = 64_000
SIGNAL = getattr(signal, "SIGURG", None)


@dataclass(frozen=True)
class Ending:
    """How a run of the patient came to its end."""

    code: int | None  # what the process left with, negative for a signal; None where the doctor stopped it
    seconds: float
    output: str  # the last of what it printed, both streams

    @property
    def stopped(self) -> bool:
        return self.code is None


@dataclass(frozen=True)
class Patient:
    """What is run."""

    python: str
    script: str
    args: tuple[str, ...] = ()


def run(
    patient: Patient, folder: Path, control: Mapping[str, Any], limit_s: float, enough: Callable[[float], bool]
) -> Ending:
    """Run it with the probes; rows appear in `folder`. enough(seconds so far) ends it early."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "control.json"
    file.write_text(json.dumps({**control, "folder": str(folder), "file": str(file)}))
    began = time.perf_counter()
    process = subprocess.Popen(
        [patient.python, str(INSIDE / "boot.py"), str(file), patient.script, *patient.args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    kept: deque[bytes] = deque()
    reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
    reader.start()
    try:
        code = _watch(process, folder, began, limit_s, enough)
    finally:
        _end_all(process, folder)
    seconds = time.perf_counter() - began
    reader.join(1.0)
    if process.stdout is not None and not reader.is_alive():
        process.stdout.close()
    return Ending(code, seconds, b"".join(kept).decode("utf-8", "replace")[-KEPT_BYTES:])


def _watch(
    process: subprocess.Popen[bytes], folder: Path, began: float, limit_s: float, enough: Callable[[float], bool]
) -> int | None:
    """Send the sampling signal until it ends, or until it has run long enough."""
    pids: set[int] = set()
    looked = 0.0
    while process.poll() is None:
        at = time.perf_counter() - began
        if at >= limit_s:
            return None
        if at - looked >= LOOK_EVERY_S:
            looked = at
            pids = _sampled(folder)
            if enough(at):
                return None
        for pid in list(pids):
            if not _send(pid):
                pids.discard(pid)
        time.sleep(SAMPLE_EVERY_S * random.uniform(0.5, 1.5))  # not in step with a loop of the script's
    return process.returncode


def _sampled(folder: Path) -> set[int]:
    """Processes that have written a row, and so have the handler."""
    return {int(file.stem.partition("-")[2]) for file in folder.glob("rows-*.jsonl") if file.stat().st_size}


def _send(pid: int) -> bool:
    if SIGNAL is None:
        return False
    try:
        os.kill(pid, SIGNAL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_all(process: subprocess.Popen[bytes], folder: Path) -> None:
    """It and whatever it started: in its session, or gone into one of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
    for pid in {int(file.stem.partition("-")[2]) for file in folder.glob("rows-*.jsonl")}:
        if _is_patient(pid, folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def _is_patient(pid: int, folder: Path) -> bool:
    """Whether a process that recorded is still that process: its number may have been given to another."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return str(folder).encode() in words or b"_hotloop_boot" in words


def _drain(stream: IO[bytes] | None, kept: deque[bytes]) -> None:
    """A script must not stand still because nobody reads what it says."""
    held = 0
    while stream is not None:
        piece = os.read(stream.fileno(), 65536)
        if not piece:
            return
        kept.append(piece)
        held += len(piece)
        while held > 2 * KEPT_BYTES and len(kept) > 1:
            held -= len(kept.popleft())


def python_works(python: str) -> str | None:
    """None, or why this interpreter cannot be used."""
    try:
        done = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info >= (3, 9))"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        return str(why)
    words: Sequence[str] = done.stdout.split()
    return None if words == ["True"] else "it is older than Python 3.9" if words else "it is no Python"
