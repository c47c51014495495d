"""What stages share: interleaved repeats, median and interval, verdicts, peers in processes of their own, and the
facts of machine and commit. Knows no stage; needs NumPy only, so that a rival's environment can import it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LEVEL = 0.95
RESAMPLES = 10_000
# One thread inside each operation. For rivals: we have to keep to our threads as users start us, without any help.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Run = Callable[[bool], "tuple[dict[str, Any], list[Row]]"]


@dataclass(frozen=True)
class Row:
    """One figure: all repeats of it, and what it should be."""

    what: str
    unit: str
    values: tuple[float, ...]  # one per repeat, in the order measured; none: it could not be measured, `note` says why
    better: Literal["more", "less"] = "more"
    must: float | None = None
    aim: float | None = None
    samples_per_step: float | None = None  # updates × batch / env steps, as counted by the harness; None: no learning
    note: str = ""
    middle: Literal["median", "interquartile mean"] = "median"
    detail: dict[str, Any] = field(default_factory=dict)


# --- statistics ------------------------------------------------------------------------------------------------------


def interval(values: Sequence[float], seed: int = 0, middle: str = "median") -> tuple[float, float]:
    """95 % percentile bootstrap of the middle (Efron 1979, doi 10.1214/aos/1176344552)."""
    data = np.asarray(values, np.float64)
    draws = np.random.default_rng(seed).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(MIDDLES[middle](data[draws]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """[…, n] -> […], the mean of the middle half; values that it cuts through count in part (Agarwal et al. 2021,
    arXiv 2108.13264)."""
    ordered, n = np.sort(values, axis=-1), values.shape[-1]
    inside = np.clip(np.minimum(np.arange(1, n + 1), 0.75 * n) - np.maximum(np.arange(n), 0.25 * n), 0.0, 1.0)
    return ordered @ (inside / inside.sum())


MIDDLES = {"median": lambda values: np.median(values, axis=-1), "interquartile mean": interquartile_mean}


def finished(row: Row) -> dict[str, Any]:
    """The row as it stands in the JSON file: with its middle, the interval of it, and the verdict. `median` holds the
    middle whatever it is."""
    if not row.values:
        return {**asdict(row), "values": [], "median": None, "interval": None, "verdict": "NOT MEASURED"}
    low, high = interval(row.values, middle=row.middle)
    median = float(MIDDLES[row.middle](np.asarray(row.values, np.float64)))
    return {
        **asdict(row),
        "values": [float(v) for v in row.values],
        "median": median,
        "interval": [low, high],
        "verdict": verdict(row, median, (low, high)),
    }


def verdict(row: Row, median: float, interval: tuple[float, float]) -> str:
    """By the median; `?` where the worse end of the interval does not reach what the median does."""
    worse = interval[0] if row.better == "more" else interval[1]
    for name, bound in (("aim", row.aim), ("must", row.must)):
        if bound is not None and _reaches(median, bound, row.better):
            return name if _reaches(worse, bound, row.better) else f"{name}?"
    return "" if row.must is None else "MISSED"


def _reaches(value: float, bound: float, better: str) -> bool:
    return value >= bound if better == "more" else value <= bound


def interleaved(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[Any]]:
    """Each side once per round; every second round in the reverse order, so that a drift hits all sides alike."""
    out: dict[str, list[Any]] = {name: [] for name in sides}
    for round_number in range(repeats):
        names = list(sides) if round_number % 2 == 0 else list(reversed(sides))
        for name in names:
            out[name].append(sides[name]())
    return out


def ratios(over: Sequence[float], under: Sequence[float]) -> tuple[float, ...]:
    """One ratio per round."""
    return tuple(a / b for a, b in zip(over, under, strict=True))


def theil_sen(x: Sequence[float], y: Sequence[float]) -> float:
    """Median slope over all pairs of points (Sen 1968, doi 10.1080/01621459.1968.10480934)."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    i, j = np.triu_indices(len(xs), 1)
    apart = xs[j] != xs[i]
    return float(np.median((ys[j] - ys[i])[apart] / (xs[j] - xs[i])[apart]))


# --- processes -------------------------------------------------------------------------------------------------------


def stage(run: Run) -> None:
    """The main of a stage: one JSON object on the last line of stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="shorter and fewer repeats: shows that it runs")
    settings, rows = run(parser.parse_args().quick)
    print(json.dumps({"settings": settings, "rows": [finished(r) for r in rows]}), flush=True)


class Peer:
    """One side of a comparison: a process that waits, using no time, until it is asked."""

    def __init__(
        self,
        name: str,
        python: str | Path = sys.executable,
        tree: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """name: a file of bench/peers, or of bench itself. python: the interpreter of a rival's own environment.
        tree: whose bench and, where it is not this one, whose package. environment: more variables."""
        self.name = name
        threads = {} if str(python) == sys.executable else ONE_THREAD
        package = {} if tree == ROOT else {"PYTHONPATH": str(tree / "src")}
        env = {**os.environ, **threads, **package, **(environment or {})}
        inner = "" if (tree / "bench" / f"{name}.py").exists() else "peers."
        self._process = subprocess.Popen(
            [str(python), "-m", f"bench.{inner}{name}"],
            cwd=tree, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        reply = json.loads(line) if line else {"error": f"ended with exit code {self._process.wait()}"}
        if "error" in reply:
            raise RuntimeError(f"peer {self.name}: {reply['error']}")
        return reply

    def peak_mb(self) -> float | None:
        """The most memory that it and its children have held at a time each, as the kernel counts."""
        children: dict[int, list[int]] = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            fields = "".join(_lines(str(file))).rpartition(")")[2].split()
            if fields:
                children.setdefault(int(fields[1]), []).append(int(file.parent.name))
        family, kib = [self._process.pid], 0
        for pid in family:
            family += children.get(pid, [])
            kib += sum(int(x.split()[1]) for x in _lines(f"/proc/{pid}/status") if x.startswith("VmHWM"))
        return round(kib / 1024, 1) or None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve(handlers: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """The main of a peer: requests in, replies out, one JSON object per line."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no reply
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = handlers[request.pop("do")](**request)
        except Exception:
            reply = {"error": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")


def rival_python(rival: str) -> Path:
    """The interpreter of a rival's own environment."""
    python = ROOT / "bench" / ".venvs" / SHARED.get(rival, rival) / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"no environment for the rival {rival}; make it with: python bench/run.py --setup")
    return python


# Rivals that live in another's environment: what is written here needs no packages of its own.
SHARED = {"cleanrl_style": "sb3", "gymnax_env": "jax_whole"}


# --- facts -----------------------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """Where and from what a figure comes."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit(),
        "machine": machine(),
        "versions": versions("hotloop", "torch", "numpy", "numba", "gymnasium"),
    }


def commit() -> dict[str, Any]:
    """Results themselves do not make a tree dirty: they are written while it is measured."""
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", ":(exclude)bench/results")
    return {"commit": head or "unknown", "dirty": bool(changed)}


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


class Neighbours:
    """How many cores others kept busy meanwhile: what the machine worked, less what this process and its children
    did. Above 0.1 or so, do not believe the figures."""

    def __enter__(self) -> Neighbours:
        self.began, self.busy, self.own = time.perf_counter(), _busy_s(), _own_s()
        self.cores: float | None = None
        return self

    def __exit__(self, *error: object) -> None:
        busy = _busy_s()
        if busy is not None and self.busy is not None:
            theirs = busy - self.busy - (_own_s() - self.own)
            self.cores = round(max(0.0, theirs / (time.perf_counter() - self.began)), 2)


def _busy_s() -> float | None:
    """Seconds that all cores together have worked since boot."""
    first = _lines("/proc/stat")[:1]
    if not first:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(n) for n in first[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


def machine() -> dict[str, Any]:
    cpu = [x.partition(":")[2].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")]
    memory = [int(x.split()[1]) for x in _lines("/proc/meminfo") if x.startswith("MemTotal:")]
    return {
        "cpu": cpu[0] if cpu else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory[0] / 2**20, 1) if memory else None,
        "system": platform.system(),
    }


def versions(*packages: str) -> dict[str, str]:
    out = {"python": platform.python_version()}
    for package in packages:
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "unknown"
    return out


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
