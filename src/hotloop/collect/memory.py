"""Memory that processes share: without a name, so that nothing is left behind whoever dies; reserved when it is made,
so that a machine that is too small says so then; sealed, so that no process can make another's mapping end."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numba
import numpy as np

from hotloop.core import atomic
from hotloop.core.errors import UserError
from hotloop.replay.plan import HEADROOM, available, in_units

LINE = 64  # bytes of a cache line: where a part begins, no other part shares its line
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")


@dataclass(frozen=True)
class Segment:
    """Zeroed memory in named parts. Pass `descriptor` to a child (`pass_fds`), which opens it with `attached`."""

    descriptor: int
    parts: dict[str, np.ndarray]  # uint8, each at the beginning of a cache line

    def close(self) -> None:
        """Let go of the descriptor. The memory lives as long as an array of any process."""
        os.close(self.descriptor)


def reserved(sizes: Mapping[str, int], way_out: str, free: int | None = None) -> Segment:
    """New memory for parts of so many bytes. way_out: what the user may change where there is not enough of it.
    free: bytes that may be taken, by default measured."""
    _check_system()
    total = _plan(sizes)[-1]
    if free is None:
        free = available()
    if free is not None and total > free * HEADROOM:
        raise _too_large(sizes, f"{in_units(free)} are free and a tenth is left for the rest", way_out)
    try:
        descriptor = os.memfd_create("hotloop", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as why:
        raise _too_large(sizes, f"the system gives none ({why.strerror})", way_out) from None
    try:
        os.posix_fallocate(descriptor, 0, total)  # without it a write would end the process, hours later
        for seal in _SEALS:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, getattr(fcntl, seal))
        return Segment(descriptor, _mapped(descriptor, sizes))
    except OSError as why:
        os.close(descriptor)
        raise _too_large(sizes, f"the system does not give it ({why.strerror})", way_out) from None
    except BaseException:
        os.close(descriptor)
        raise


def attached(descriptor: int, sizes: Mapping[str, int]) -> Segment:
    """What another process has reserved, with the same sizes in the same order."""
    have, total = os.fstat(descriptor).st_size, _plan(sizes)[-1]
    if have != total:
        raise ValueError(f"shared memory has {have} bytes, and {total} are planned")
    return Segment(descriptor, _mapped(descriptor, sizes))


def _mapped(descriptor: int, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    edges = _plan(sizes)
    # Populated: the first block is written as fast as the others.
    whole = np.frombuffer(mmap.mmap(descriptor, edges[-1], mmap.MAP_SHARED | mmap.MAP_POPULATE), np.uint8)
    return {name: whole[at : at + size] for (name, size), at in zip(sizes.items(), edges, strict=False)}


def _plan(sizes: Mapping[str, int]) -> list[int]:
    """Where each part begins, and the sum."""
    edges = [0]
    for size in sizes.values():
        edges.append(edges[-1] + -(-size // LINE) * LINE)
    edges[-1] = max(edges[-1], LINE)  # nothing cannot be mapped
    return edges


def _check_system() -> None:
    if numba.config.DISABLE_JIT:
        raise UserError("NUMBA_DISABLE_JIT is set: worker processes need compiled kernels; unset it, or workers = 0")
    if not atomic.AVAILABLE or not hasattr(os, "memfd_create"):
        raise UserError("worker processes need Linux on x86-64 or aarch64; elsewhere set workers = 0")


def _too_large(sizes: Mapping[str, int], why: str, way_out: str) -> UserError:
    parts = " + ".join(f"{name} {in_units(size)}" for name, size in sizes.items())
    return UserError(f"shared memory of {in_units(_plan(sizes)[-1])} ({parts}) is needed, but {why}; {way_out}")
