"""Arrays and a manifest ⇄ one directory per checkpoint, published whole or not at all. Owns names, order, digests and
retention. Knows neither what the arrays mean nor when to save. Expects one writer per folder (run.py's lock)."""

# A crash at any instruction leaves a loadable checkpoint because what stands under a name that loads never changes: a
# save happens under a name that cannot load, `rename` publishes it, and what goes is renamed before it is taken apart.
# Files are written by write(2) only, never through a mapping, so nothing on disk changes between two system calls.

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.types import Arrays

FORMAT = 1  # of what is written; a reader takes this one and older ones
DATA, MANIFEST = "arrays.safetensors", "manifest.json"

_NAME = re.compile(r"checkpoint-(\d{12,18})(?:\.(\d{1,6}))?")  # env steps, and how often they were saved before
_TEMPORARY = ".writing-"
_CHUNK = 1 << 20  # still in the cache when, after the write, it is hashed
_MANIFEST_LIMIT = 1 << 20
_HEADER_LIMIT = 100_000_000  # safetensors' own

# How safetensors calls what NumPy calls "<f4". Whatever else an array may hold is refused when it is saved.
_DTYPES = {
    **{f"<f{n}": f"F{8 * n}" for n in (2, 4, 8)},
    **{f"<i{n}": f"I{8 * n}" for n in (2, 4, 8)},
    **{f"<u{n}": f"U{8 * n}" for n in (2, 4, 8)},
    "|i1": "I8",
    "|u1": "U8",
    "|b1": "BOOL",
}
_KINDS = {name: np.dtype(kind) for kind, name in _DTYPES.items()}


@dataclass(frozen=True)
class Checkpoint:
    """What one checkpoint holds, checked."""

    arrays: Arrays
    meta: dict[str, Any]
    env_steps: int
    path: Path
    refused: list[str] = field(default_factory=list)  # newer ones that are not sound, each with the reason


class Refused(Exception):
    """Why a directory is not a sound checkpoint."""


def save(folder: Path, env_steps: int, arrays: Mapping[str, np.ndarray], meta: dict[str, Any], keep: int = 3) -> Path:
    """Write a checkpoint, read it back, and only then drop all but the newest `keep`. On failure the earlier ones are
    as they were and nothing of this one is left. `meta` is what JSON holds, and comes back as it went in."""
    if keep < 1 or not 0 <= operator.index(env_steps) < 10**18:
        raise ValueError(f"keep = {keep}, env_steps = {env_steps}: out of range")
    layout = _layout(arrays)
    left: Path | None = None  # what a failure has to take away
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder)
            _sync(folder.parent)
        _sweep(folder)
        target = folder / _free_name(folder, env_steps)
        left = folder / f"{_TEMPORARY}{target.name}"
        os.mkdir(left)
        seal = _write(left, env_steps, layout, meta)
        os.rename(left, target)
        left = target
        _sync(folder)
        if _verify(target) != seal:
            raise Refused("it reads back as something else")
    except BaseException as why:
        if left is not None:
            _discard(left)
        if isinstance(why, OSError | Refused):
            raise _not_saved(folder, env_steps, layout, why) from None
        raise
    _prune(folder, target, keep)
    return target


def load_latest(folder: Path, upto: int | None = None) -> Checkpoint:
    """The newest sound checkpoint, of those up to so many env steps; `refused` says which newer ones are not, and
    why."""
    try:
        listed = _listed(folder)
    except OSError as why:
        raise UserError(f"no checkpoints in {folder}: {why.strerror}; name the folder of a run") from None
    refused: list[str] = []
    for (steps, _), path in reversed(listed):
        if upto is not None and steps > upto:
            continue
        try:
            arrays, manifest = _read(path)
        except Refused as why:
            refused.append(f"{path.name}: {why}")
        else:
            return Checkpoint(arrays, manifest["meta"], manifest["env_steps"], path, refused)
    if refused:
        raise UserError(f"no sound checkpoint in {folder} ({'; '.join(refused)}); start a new run")
    raise UserError(f"no checkpoint in {folder}; start a new run or name another folder")


def load(path: Path) -> Checkpoint:
    """One checkpoint, by its directory."""
    try:
        arrays, manifest = _read(path)
    except Refused as why:
        raise UserError(f"checkpoint {path} is refused: {why}; choose another one") from None
    return Checkpoint(arrays, manifest["meta"], manifest["env_steps"], path)


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, dtypes, shapes and values, whatever the order of the names."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = _plain(arrays[name])
        total.update(json.dumps([name, array.dtype.str, array.shape]).encode() + b"\n")
        for chunk in _chunks(array):
            total.update(chunk)
    return total.hexdigest()


# --- writing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """A safetensors file before it is written."""

    head: bytes  # length, then the JSON header, padded so that the data begin on a multiple of 8
    arrays: list[np.ndarray]  # in the order of the file, the widest items first so that each lies aligned

    @property
    def bytes(self) -> int:
        return len(self.head) + sum(a.nbytes for a in self.arrays)


def _layout(arrays: Mapping[str, np.ndarray]) -> _Layout:
    header: dict[str, Any] = {}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    end = 0
    for name, array in ordered:
        if name == "__metadata__":
            raise ValueError("an array cannot be called '__metadata__': safetensors keeps that name for itself")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _DTYPES[_kind(array)], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _HEADER_LIMIT:
        raise ValueError(f"{len(arrays)} arrays have a header of {len(text)} bytes; at most {_HEADER_LIMIT}")
    return _Layout(len(text).to_bytes(8, "little") + text, [array for _, array in ordered])


def _write(folder: Path, env_steps: int, layout: _Layout, meta: dict[str, Any]) -> str:
    """Both files and the directory that names them, down to the disk. Returns the manifest's seal."""

    def pieces() -> Iterator[memoryview]:
        yield memoryview(layout.head)
        for array in layout.arrays:
            yield from _chunks(_plain(array))  # a copy only of an array that is not contiguous, one at a time

    sha256 = _write_file(folder / DATA, pieces())
    manifest = {
        "format": FORMAT,
        "env_steps": operator.index(env_steps),
        "data": {"bytes": layout.bytes, "sha256": sha256},
        "meta": meta,
    }
    text = _sealed(manifest)
    if len(text) > _MANIFEST_LIMIT:
        raise ValueError(f"the manifest takes {len(text)} bytes; at most {_MANIFEST_LIMIT}: put arrays into `arrays`")
    _write_file(folder / MANIFEST, [memoryview(text)])
    _sync(folder)
    return json.loads(text)["sha256"]


def _write_file(path: Path, pieces: Iterable[memoryview]) -> str:
    """Write, sync and hash a new file in one pass."""
    total = hashlib.sha256()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for piece in pieces:
            left = piece
            while left:
                left = left[os.write(file, left) :]  # a nearly full disk takes a part without complaint
            total.update(piece)
        os.fsync(file)
    finally:
        os.close(file)
    return total.hexdigest()


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    """The manifest's one spelling, with the digest of all the rest of it. NaN and infinities are Python's, so that
    what was saved comes back bit for bit."""
    seal = hashlib.sha256(_spelled(manifest)).hexdigest()
    return _spelled({**manifest, "sha256": seal})


def _spelled(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, indent=1).encode() + b"\n"


def _plain(array: np.ndarray) -> np.ndarray:
    """C-contiguous and little-endian; the array itself where it is so already."""
    return np.asarray(array, dtype=_kind(array), order="C")


def _kind(array: np.ndarray) -> str:
    kind = array.dtype.newbyteorder("<").str
    if kind not in _DTYPES:
        raise TypeError(f"a checkpoint cannot hold an array of dtype {array.dtype}; it holds {', '.join(_DTYPES)}")
    return kind


def _chunks(array: np.ndarray) -> Iterator[memoryview]:
    flat = array.reshape(-1).view(np.uint8).data
    for begin in range(0, len(flat), _CHUNK):
        yield flat[begin : begin + _CHUNK]


def _sync(folder: Path) -> None:
    """Make the names in a directory outlast a power failure."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _not_saved(folder: Path, env_steps: int, layout: _Layout, why: Exception) -> UserError:
    reason = why.strerror if isinstance(why, OSError) else str(why)
    return UserError(
        f"checkpoint at {env_steps} env steps ({layout.bytes / 1e6:.1f} MB) not saved in {folder}: {reason}; "
        "earlier checkpoints are intact, free space or mend the folder"
    )


# --- names, order, retention -----------------------------------------------------------------------------------------


def _listed(folder: Path) -> list[tuple[tuple[int, int], Path]]:
    """The checkpoints by what their names count, oldest first. Time and text order play no part."""
    found = [(match, folder / name) for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    return sorted(((int(match[1]), int(match[2] or 0)), path) for match, path in found)


def _free_name(folder: Path, env_steps: int) -> str:
    """No checkpoint is ever overwritten: what was saved before at the same step, sound or not, keeps its name."""
    saved = [again for (steps, again), _ in _listed(folder) if steps == env_steps]
    name = f"checkpoint-{env_steps:012d}"
    return f"{name}.{max(saved) + 1}" if saved else name


def _prune(folder: Path, newest: Path, keep: int) -> None:
    """Drop what is older than the newest `keep` up to the one just verified, and what it supersedes. Later numbers, of
    which a resume has refused to start, are left to be looked at. A failure is the next save's to mend."""
    try:
        listed = _listed(folder)
    except OSError:
        return
    upto = listed[: [path for _, path in listed].index(newest) + 1]
    last_of_step = {steps: path for (steps, _), path in upto}
    kept = list(last_of_step.values())[-keep:]
    for _, path in upto:
        if path not in kept:
            _discard(path)


def _discard(path: Path) -> None:
    """Take a directory apart, under a name that cannot load. Never fails: what stays is swept by the next save."""
    try:
        if not path.name.startswith(_TEMPORARY):
            hidden = path.with_name(f"{_TEMPORARY}pruned-{path.name}")
            os.rename(path, hidden)
            path = hidden
        shutil.rmtree(path)
    except OSError:
        pass


def _sweep(folder: Path) -> None:
    """What saves that were killed have left. First of all, since it may be what fills the disk."""
    for name in os.listdir(folder):
        if name.startswith(_TEMPORARY):
            shutil.rmtree(folder / name, ignore_errors=True)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and manifest of a sound checkpoint, read and hashed in one pass."""
    manifest = _manifest(path)
    total = hashlib.sha256()
    arrays: Arrays = {}
    with _opened(path / DATA, manifest["data"]["bytes"]) as data:
        for name, kind, shape in _header(data, manifest["data"]["bytes"], total.update):
            arrays[name] = np.empty(shape, kind)
            for chunk in _chunks(arrays[name]):
                if data.readinto(chunk) != len(chunk):
                    raise Refused(f"{DATA} ends too early")
                total.update(chunk)
    if total.hexdigest() != manifest["data"]["sha256"]:
        raise Refused(f"{DATA} does not match its digest")
    return arrays, manifest


def _verify(path: Path) -> str:
    """The seal of a checkpoint that reads back sound. Needs no room for its arrays."""
    manifest = _manifest(path)
    total = hashlib.sha256()
    with _opened(path / DATA, manifest["data"]["bytes"]) as data:
        while chunk := data.read(_CHUNK):
            total.update(chunk)
    if total.hexdigest() != manifest["data"]["sha256"]:
        raise Refused(f"{DATA} does not match its digest")
    return manifest["sha256"]


def _manifest(path: Path) -> dict[str, Any]:
    with _opened(path / MANIFEST) as file:
        text = file.read(_MANIFEST_LIMIT + 1)
    if len(text) > _MANIFEST_LIMIT:
        raise Refused(f"{MANIFEST} is larger than {_MANIFEST_LIMIT} bytes")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{MANIFEST} is not JSON") from None
    match manifest:
        case {"format": int(version)} if version > FORMAT:
            raise Refused(
                f"its format {version} is newer than {FORMAT}, the newest this hotloop reads; upgrade hotloop"
            )
        case {"format": 1, "env_steps": int(steps), "meta": dict(), "data": {"bytes": int(), "sha256": str()}}:
            pass
        case _:
            raise Refused(f"{MANIFEST} is not that of a checkpoint")
    if _sealed({k: v for k, v in manifest.items() if k != "sha256"}) != text:
        raise Refused(f"{MANIFEST} does not match its digest")
    if (named := _NAME.fullmatch(path.name)) and int(named[1]) != steps:
        raise Refused(f"it is of env step {steps}, its name says {int(named[1])}")
    return manifest


def _header(data: IO[bytes], size: int, hashed: Callable[[bytes], None]) -> list[tuple[str, np.dtype, tuple[int, ...]]]:
    """(name, dtype, shape) in the order of the file; every byte of it is accounted for before any is allocated."""
    prefix = data.read(8)
    length = int.from_bytes(prefix, "little")
    if length > min(size - 8, _HEADER_LIMIT):
        raise Refused(f"the header of {DATA} is longer than the file or than {_HEADER_LIMIT} bytes")
    text = data.read(length)
    hashed(prefix + text)
    rows = []
    end = 0
    try:
        for name, entry in json.loads(text).items():
            kind, shape = _KINDS[entry["dtype"]], tuple(map(operator.index, entry["shape"]))
            begin, end = end, end + kind.itemsize * math.prod(shape)
            if entry["data_offsets"] != [begin, end] or min(shape, default=0) < 0:
                raise Refused(f"the header of {DATA} contradicts itself at {name!r}")
            rows.append((name, kind, shape))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(f"the header of {DATA} is damaged") from None
    if 8 + length + end != size:
        raise Refused(f"{DATA} is {size} bytes long, its header says {8 + length + end}")
    return rows


@contextmanager
def _opened(path: Path, size: int | None = None) -> Iterator[BufferedReader]:
    """A plain file, of the size it must have: no link, no pipe to wait on for ever."""
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path.name} is not a file")
        if size is not None and found.st_size != size:
            raise Refused(f"{path.name} is {found.st_size} bytes long instead of {size}")
        with open(path, "rb") as file:
            yield file
    except OSError as why:
        raise Refused(f"{path.name}: {why.strerror}") from None
