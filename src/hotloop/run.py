"""The run folder: its names, its lock, and what is written into it while a run goes on. A full disk costs rows, never
the run. Knows neither what the figures mean nor how a checkpoint looks inside; imports no torch."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import re
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotloop.core import toml
from hotloop.core.errors import MissingExtra, UserError

RUNS = Path("runs")
CONFIG, METRICS, SUMMARY, CHECKPOINTS = "config.toml", "metrics.jsonl", "summary.json", "checkpoints"
_PID = "trainer.pid"

Row = Mapping[str, Any]
Warn = Callable[[str], None]


def to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


class RunFolder:
    """One run on disk. `create` returns it locked; `open` does not lock: reports may read a run that goes on."""

    def __init__(self, path: Path, warn: Warn = to_stderr) -> None:
        self.path = Path(path)
        self.warn = warn
        self.metrics_lost = 0  # rows that could not be written
        self._lock: int | None = None
        self._metrics: int | None = None
        self.on_close = ExitStack()

    @staticmethod
    def create(path: Path | None, workload: str, seed: int, warn: Warn = to_stderr) -> RunFolder:
        """A folder for a new run: the one named, or the next free one of runs/<workload>-s<seed>-<n>."""
        try:
            if path is None:
                path = next_free(workload, seed)
            else:
                os.makedirs(path, exist_ok=True)
            _sync(Path(path).resolve().parent)
        except OSError as why:
            raise UserError(f"cannot make the run folder {path or RUNS}: {why.strerror}; choose another") from None
        folder = RunFolder(path, warn).lock()
        if found := [n for n in (CONFIG, METRICS, SUMMARY, CHECKPOINTS) if (folder.path / n).exists()]:
            folder.close()
            raise UserError(f"{path} already holds a run ({found[0]}); resume it or choose another folder")
        return folder

    @staticmethod
    def open(path: Path, warn: Warn = to_stderr) -> RunFolder:
        """A run that exists."""
        if not (Path(path) / CONFIG).is_file():
            why = f"no {CONFIG} in it" if Path(path).is_dir() else "no such folder"
            raise UserError(f"{path} is not a run: {why}; name a folder that `hotloop train` has made")
        return RunFolder(path, warn)

    def lock(self) -> RunFolder:
        """Keep other trainers out until `close` or the death of this process, after which the kernel lets go. A child
        that was forked without exec holds on too, for as long as it lives."""
        import fcntl

        if self._lock is not None:
            return self
        directory = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(directory)
            raise UserError(f"{self.path} is in use by {self._holder()}; stop it or choose another folder") from None
        except OSError as why:
            self.warn(f"{self.path} cannot be locked ({why.strerror}); see that no second run uses it")
        self._lock = directory
        try:
            (self.path / _PID).write_text(f"{os.getpid()}\n")  # for the message above only: the lock is the kernel's
        except OSError as why:
            self.warn(f"{self.path / _PID}: {why.strerror}; others will be refused without being told by whom")
        return self

    def _holder(self) -> str:
        try:
            return f"process {int((self.path / _PID).read_text())}"
        except (OSError, ValueError):
            return "another process"

    def close(self) -> None:
        """Let go of the lock and the files."""
        self.on_close.close()
        if self._metrics is not None:
            os.close(self._metrics)
            self._metrics = None
        if self._lock is not None:
            (self.path / _PID).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def drop_if_empty(self) -> None:
        """Remove the folder if nothing was ever written into it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what is in it

    @property
    def trace(self) -> Path:
        return self.path / "trace.json"

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def write_config(self, config: Mapping[str, Any]) -> None:
        publish(self.path / CONFIG, toml.dumps(config))

    def read_config(self) -> dict[str, Any]:
        """The resolved config, None spelled "none" (core.options reads it so)."""
        return _parsed(self.path / CONFIG, tomllib.loads)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        publish(self.path / SUMMARY, strict_json(summary, indent=2) + "\n")

    def read_summary(self) -> dict[str, Any]:
        return _parsed(self.path / SUMMARY, json.loads)

    def metrics(self, row: Row) -> None:
        """Append one line; it is with the kernel when this returns. A failure is told once and counted."""
        line = (strict_json(row) + "\n").encode()
        try:
            if self._metrics is None:
                self._metrics = _open_lines(self.path / METRICS)
            _append(self._metrics, line)
        except OSError as why:
            self.metrics_lost += 1
            if self.metrics_lost == 1:
                self.warn(f"{self.path / METRICS}: {why.strerror}; the run goes on, rows are lost until there is room")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All rows so far. A line that a killed run left unfinished is passed over."""
        return [row for _, row in _rows(self.path / METRICS)]

    def cut_metrics(self, env_steps: int) -> None:
        """Drop what was written after the checkpoint a run resumes from: it is going to be written again."""
        if (self.path / METRICS).exists():
            kept = [line for line, row in _rows(self.path / METRICS) if _env_steps(row) <= env_steps]
            if self._metrics is not None:
                os.close(self._metrics)
                self._metrics = None
            publish(self.path / METRICS, "".join(kept))


def strict_json(value: Any, indent: int | None = None) -> str:
    """JSON that any reader takes: NaN and infinities become null, NumPy's values plain ones."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


# --- TensorBoard -----------------------------------------------------------------------------------------------------


def events(folder: RunFolder, asked: bool = True, resumed_at: int | None = None) -> Callable[[Row], None] | None:
    """A function that takes metrics rows and writes their numbers as TensorBoard scalars over env steps; None where
    not asked for. Points after `resumed_at` that an earlier start has written are purged by TensorBoard itself."""
    if not asked:
        return None
    try:
        protocol = importlib.import_module("tensorboard.compat.proto.event_pb2")
        summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        records = importlib.import_module("tensorboard.summary.writer.record_writer")
    except ImportError:
        raise MissingExtra("tensorboard", "writing TensorBoard events") from None
    directory = folder.path / "tensorboard"

    def put(step: int, **what: Any) -> None:
        # Wall time is for display alone: TensorBoard offers it as an axis.
        writer.write(protocol.Event(wall_time=time.time(), step=step, **what).SerializeToString())
        writer.flush()

    try:
        directory.mkdir(exist_ok=True)
        start = sum(1 for _ in directory.iterdir())  # TensorBoard reads files in the order of their names
        file = open(directory / f"events.out.tfevents.{start:06d}", "xb")  # noqa: SIM115, closed with the folder
        folder.on_close.callback(_close, file)
        writer = records.RecordWriter(file)
        put(0, file_version="brain.Event:2")
        if resumed_at is not None:
            put(resumed_at + 1, session_log=protocol.SessionLog(status=protocol.SessionLog.START))
    except OSError as why:
        raise UserError(f"cannot write TensorBoard events in {directory}: {why.strerror}; leave them out") from None
    alive = True

    def write(row: Row) -> None:
        nonlocal alive
        if alive:
            values = [summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(row)]
            try:
                put(int(row["env_steps"]), summary=summaries.Summary(value=values))
            except OSError as why:
                alive = False  # the file may end in half a record, behind which nothing would be read
                folder.warn(f"{directory}: {why.strerror}; the run goes on without TensorBoard events")

    return write


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # of what could not be written, the user has been told
        file.close()


def _scalars(row: Row, prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{key}/")
        elif key == "env_steps" and not prefix:
            continue  # the axis
        elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)


# --- files -----------------------------------------------------------------------------------------------------------


def next_free(workload: str, seed: int | str) -> Path:
    """Numbered, since a wall clock may stand still or go back. Two that start at once take two numbers."""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', workload).strip('-.') or 'run'}-s{seed}-"
    RUNS.mkdir(exist_ok=True)
    taken = [int(p.name[len(name) :]) for p in RUNS.iterdir() if re.fullmatch(re.escape(name) + r"\d{1,9}", p.name)]
    n = max(taken, default=0)
    while True:
        n += 1
        try:
            os.mkdir(RUNS / f"{name}{n}")
        except FileExistsError:
            continue
        return RUNS / f"{name}{n}"


def publish(path: Path, text: str) -> None:
    """Replace a file whole: a reader, or a crash, meets the old text or the new one."""
    temporary = path.with_name(f".writing-{path.name}")
    try:
        data = text.encode()
    except UnicodeEncodeError as why:
        raise UserError(
            f"cannot write {path}: {text[why.start : why.end]!r} is not Unicode; change that text"
        ) from None
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as why:
        with suppress(OSError):
            temporary.unlink()
        raise UserError(f"cannot write {path}: {why.strerror}; free space or mend the folder") from None


def _parsed(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        found = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"no {path.name} in {path.parent}; the run has not come so far, or this is not one") from None
    except OSError as why:
        raise UserError(f"cannot read {path}: {why.strerror}; mend the folder") from None
    except (ValueError, RecursionError) as why:
        raise UserError(f"{path} is damaged: {str(why).splitlines()[0]}; restore or remove it") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it holds no table; restore or remove it")
    return found


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except OSError as why:
        raise UserError(f"cannot read {path}: {why.strerror}; mend the folder") from None
    for line in text.split("\n")[:-1]:  # what follows the last line end is unfinished
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield line + "\n", row


def _env_steps(row: Row) -> float:
    steps = row.get("env_steps")
    return steps if isinstance(steps, int | float) else 0


def _open_lines(path: Path) -> int:
    """Open for appending; an unfinished last line is closed, so that the next one stands alone."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def _append(file: int, line: bytes) -> None:
    """The whole line or nothing of it: a full disk may take a part."""
    size = os.fstat(file).st_size
    left = memoryview(line)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _sync(directory: Path) -> None:
    """Make the names in a directory outlast a power failure."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
