"""Memory that processes share: reserved at once or refused with the sum, sealed, and gone with the last who has it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from hotloop.collect import memory
from hotloop.core import atomic
from hotloop.core.errors import UserError

SIZES = {"ring": 1000, "weights": 64, "nothing": 0, "words": 5}


def test_parts_begin_at_cache_lines_are_zero_and_do_not_overlap():
    segment = memory.reserved(SIZES, "")
    segment.close()
    assert {name: part.nbytes for name, part in segment.parts.items()} == SIZES
    for number, part in enumerate(segment.parts.values()):
        assert part.ctypes.data % 64 == 0 and part.dtype == np.uint8 and (part == 0).all()
        part[...] = number + 1
    assert all((part == n + 1).all() for n, part in enumerate(segment.parts.values()))


def test_another_process_sees_the_same_and_may_not_change_its_size():
    segment = memory.reserved(SIZES, "")
    code = """
import os, sys
from hotloop.collect import memory
sizes, descriptor = eval(sys.argv[1]), int(sys.argv[2])
parts = memory.attached(descriptor, sizes).parts
assert parts["ring"][999] == 7
parts["words"][:] = 9
for size in (0, 1 << 20):
    try:
        os.ftruncate(descriptor, size)
        raise SystemExit("its size was changed")
    except PermissionError:
        pass
"""
    segment.parts["ring"][999] = 7
    command = [sys.executable, "-c", code, repr(SIZES), str(segment.descriptor)]
    subprocess.run(command, pass_fds=(segment.descriptor,), check=True)
    assert (segment.parts["words"] == 9).all() and (segment.parts["weights"] == 0).all()
    with pytest.raises(ValueError, match="are planned"):
        memory.attached(segment.descriptor, {"ring": 10})
    seals = fcntl.fcntl(segment.descriptor, fcntl.F_GET_SEALS)
    assert seals == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    segment.close()
    assert (segment.parts["words"] == 9).all(), "it lives on without the descriptor"


def test_nothing_is_left_when_the_last_array_is_gone():
    def mapped() -> int:
        with open("/proc/self/maps") as maps:
            return maps.read().count("memfd:hotloop")

    descriptors, names = set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))
    before = mapped()
    segment = memory.reserved(SIZES, "")
    part = segment.parts["words"]
    segment.close()
    del segment
    assert mapped() == before + 1
    del part
    assert mapped() == before
    assert set(os.listdir("/proc/self/fd")) <= descriptors and set(os.listdir("/dev/shm")) == names


def test_too_much_is_refused_with_the_sum_before_it_is_taken():
    with pytest.raises(UserError) as refused:
        memory.reserved({"rings": 3_000_000, "weights": 500_000}, "set ring_blocks lower", free=2_000_000)
    text = str(refused.value)
    assert text == (
        "shared memory of 3.5 MB (rings 3.0 MB + weights 500.0 KB) is needed, but 2.0 MB are free and a tenth is left "
        "for the rest; set ring_blocks lower"
    )


@pytest.mark.parametrize("call", ["memfd_create", "posix_fallocate"])
def test_a_system_that_gives_none_is_told_in_one_line_and_leaves_nothing(monkeypatch, call):
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(UserError, match=r"1\.2 KB .*No space left on device\); fewer") as refused:
        memory.reserved(SIZES, "fewer")
    assert "\n" not in str(refused.value)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_more_than_a_process_may_map_is_refused_and_does_not_end_it():
    """By the real limit of a process: what a container that is too small says."""
    code = """
import resource, sys
from hotloop.collect import memory
from hotloop.core.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    memory.reserved({"rings": 1 << 24}, "fewer")
except UserError as refused:
    print(refused)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("shared memory of 16.8 MB (rings 16.8 MB) is needed, but") and not done.stderr


def test_systems_that_cannot_are_told_so(monkeypatch):
    with monkeypatch.context() as changed:
        changed.setattr(atomic, "AVAILABLE", False)
        with pytest.raises(UserError, match="need Linux"):
            memory.reserved(SIZES, "")
    with monkeypatch.context() as changed:
        changed.setattr(numba.config, "DISABLE_JIT", True)
        with pytest.raises(UserError, match="NUMBA_DISABLE_JIT"):
            memory.reserved(SIZES, "")
