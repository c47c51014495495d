"""A pure function of tensors → one native call, compiled whole by AOTInductor and cached on disk.

Knows nothing of what the function computes. Where there is no compiler the same function runs eagerly, and the
reason is one line. A package loads in milliseconds, where a warm torch.compile needs seconds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

import numba
import torch
from torch import Tensor

from hotloop import matmul, native

Function = Callable[..., Sequence[Tensor]]


class Job(Protocol):
    """Calls that are prepared, made and read by whom it suits."""

    def run(self) -> None: ...
    def results(self) -> list[Sequence[Tensor]]: ...


@dataclass(frozen=True)
class Program:
    """A callable of flat tensors, and where it came from."""

    name: str
    call: Callable[[list[Tensor]], Sequence[Tensor]]  # consumes the list it is given
    origin: Literal["compiled", "cache", "eager"]
    seconds: float  # to compile or load
    note: str = ""  # why it is eager, where it was not asked to be

    @property
    def native(self) -> bool:
        """Whether its chains run without the interpreter."""
        return isinstance(self.call, native.Function)

    def chain(self, state: list[Tensor], rests: Sequence[list[Tensor]]) -> Job:
        """Several calls in a row, not yet made: each begins with the state that the one before has left, which is to
        say that the first tensors in are the first tensors out."""
        if isinstance(self.call, native.Function) and not numba.config.DISABLE_JIT:
            return native.Chain(self.call, state, rests)
        return Chain(self.call, state, rests)


class Chain:
    """As native.Chain, for any function."""

    def __init__(
        self, call: Callable[[list[Tensor]], Sequence[Tensor]], state: list[Tensor], rests: Sequence[list[Tensor]]
    ) -> None:
        self._call, self._state, self._rests = call, state, rests
        self._results: list[Sequence[Tensor]] = []

    def run(self) -> None:
        state = self._state
        for rest in self._rests:
            out = self._call([*state, *rest])
            state = list(out[: len(state)])
            self._results.append(out)

    def results(self) -> list[Sequence[Tensor]]:
        """Outputs of each call."""
        return self._results


def eager(name: str, function: Function, note: str = "") -> Program:
    """The reference: the function as it is written."""

    def call(tensors: list[Tensor]) -> Sequence[Tensor]:
        with torch.no_grad():
            return function(*tensors)

    return Program(name, call, "eager", 0.0, note)


def compiled(
    name: str,
    function: Function,
    examples: Sequence[Tensor],
    dynamic: dict[int, str],
    *,
    fingerprint: str,
    threads: int,
    beside: bool = False,
    half: bool = False,
) -> Program:
    """Compile `function`, or load it from the cache.

    examples: tensors of the shapes to compile for; never written to.
    dynamic: index of an argument -> name of its leading dimension, which may then differ from call to call.
    beside: the call is long and other threads are to run on meanwhile; costs 5 µs more per call.
    half: matrix products and convolutions of bfloat16.
    fingerprint: all that the function's arithmetic depends on besides this package's source and torch.
    """
    started = time.perf_counter()
    shapes = [(tuple(e.shape), str(e.dtype)) for e in examples]
    key = _digest(
        name, repr(shapes), repr(sorted(dynamic.items())), fingerprint, f"{threads}{' bfloat16' * half}", _environment()
    )
    path = cache_folder() / f"{name}-{key}.pt2"
    origin: Literal["compiled", "cache"] = "cache"
    try:
        if not path.exists():
            origin = "compiled"
            _build(function, examples, dynamic, path, threads, half)
        call = _load(path, beside)
    except Exception as reason:
        if origin == "cache":  # a package that does not load any more is made again, once
            path.unlink(missing_ok=True)
            return compiled(
                name, function, examples, dynamic, fingerprint=fingerprint, threads=threads, beside=beside, half=half
            )
        first_line = (str(reason).strip().splitlines() or [type(reason).__name__])[0]
        return eager(name, function, f"{name} runs eagerly, it could not be compiled: {first_line[:200]}")
    return Program(name, call, origin, time.perf_counter() - started)


def _build(
    function: Function, examples: Sequence[Tensor], dynamic: dict[int, str], path: Path, threads: int, half: bool
) -> None:
    """Export and compile to `path`, which appears only when it is whole."""
    dimensions = {n: torch.export.Dim(n, min=1, max=2**31 - 1) for n in dynamic.values()}
    shapes = (tuple({0: dimensions[dynamic[i]]} if i in dynamic else None for i in range(len(examples))),)
    folder = Path(tempfile.mkdtemp(prefix=".building-", dir=path.parent))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # torch's own deprecations while it exports; none concern the user
            program = torch.export.export(
                _Module(function), tuple(e.clone() for e in examples), strict=False, dynamic_shapes=shapes
            )
            made = torch._inductor.aoti_compile_and_package(
                program,
                package_path=str(folder / "package.pt2"),
                inductor_configs={
                    "cpp.threads": threads,
                    "compile_threads": 1,
                    # Sums of scattered values by a loop of its own instead of torch's; with threads they would race.
                    "cpp.fallback_scatter_reduce_sum": threads > 1,
                    "post_grad_custom_pre_pass": matmul.passes(threads, half),
                },
            )
        os.replace(made, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Module(torch.nn.Module):
    """torch.export takes modules only."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.function(*tensors))


def _load(path: Path, beside: bool = False) -> Callable[[list[Tensor]], Sequence[Tensor]]:
    with zipfile.ZipFile(path) as archive:  # torch runs what it finds; a bad sector or a torn write is machine code too
        damaged = archive.testzip()
    if damaged is not None:
        raise OSError(f"{path}: {damaged} is damaged")
    if beside:
        return native.Function(path)
    # The C++ loader itself: the Python class around it imports the compiler, a second that a warm start need not pay.
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", True, 1, -1)
    return loader.boxed_run


def cache_folder() -> Path:
    """Where packages are kept: $HOTLOOP_CACHE, else the user's cache directory, else a folder of this process."""
    base = os.environ.get("HOTLOOP_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hotloop"
    )
    folder = Path(base)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return _process_folder()
    return folder


@cache
def _process_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="hotloop-"))


@cache
def _environment() -> str:
    """What a package depends on beside its function: torch, the CPU's instruction set, and our source that computes
    with tensors."""
    source = hashlib.sha256()
    root = Path(__file__).parent
    ours = [*root.glob("learn/**/*.py"), *root.glob("networks/*.py"), root / "collect" / "forward.py"]
    ours += [Path(__file__), root / "matmul.py", matmul.HEADER, matmul.HALF_HEADER]
    for file in sorted(ours):
        source.update(file.relative_to(root).as_posix().encode())
        source.update(file.read_bytes())
    return _digest(torch.__version__, platform.machine(), _instructions(), source.hexdigest())


def _instructions() -> str:
    """All that this CPU can execute: packages are compiled for it alone, and a home directory may be shared."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        return f"{torch.backends.cpu.get_cpu_capability()} {platform.processor()}"


def digest_of(tensor: Tensor) -> str:
    """Content of a tensor that is compiled in as a constant."""
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
