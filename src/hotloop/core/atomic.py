"""What numba has no words for: atomic loads and stores of words that two threads or processes share, fences between
them, C functions called by their address, and sleeping until a word changes. Compiled code only: plain Python has no
such operations."""

from __future__ import annotations

import ctypes
import errno
import platform
import sys
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hotloop.core.jit import kernel

_WORD = ir.IntType(64)
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
_FUTEX_WAITV = 449  # of any machine, since Linux 5.16
_WAIT, _WAKE = 0, 1  # without FUTEX_PRIVATE_FLAG: the word may lie in memory that processes share
AVAILABLE = sys.platform == "linux" and _FUTEX is not None


def address_of(function: object) -> int:
    """Of a C function that ctypes has found."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def addresses() -> np.ndarray:
    """[2] int64: what `sleep_while`, `wake` and `now` call. An argument, because a kernel that is cached on disk
    cannot hold an address."""
    library = ctypes.CDLL(None)
    return np.array([address_of(library.syscall), address_of(library.clock_gettime)], np.int64)


@intrinsic
def load_acquire(typing_context, words, i):
    """words[i], int64: what was written before the store that put it there is seen by all that follows."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_pointer(context, builder, signature, args), "acquire", 8)

    return types.int64(words, types.intp), generate


@intrinsic
def store_release(typing_context, words, i, value):
    """words[i] = value, int64: whoever loads it with `load_acquire` sees all that was written before."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _pointer(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


@intrinsic
def fetch_add(typing_context, words, i, value):
    """words[i] before `value` was added to it, int64: of several threads that add, each gets another number."""

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _pointer(context, builder, signature, args), args[2], "acq_rel")

    return types.int64(words, types.intp, types.int64), generate


@intrinsic
def load_relaxed(typing_context, words, i):
    """words[i], whole: never half of one store and half of another. Says nothing about other words."""

    def generate(context, builder, signature, args):
        size = signature.args[0].dtype.bitwidth // 8
        return builder.load_atomic(_pointer(context, builder, signature, args), "monotonic", size)

    return words.dtype(words, types.intp), generate


@intrinsic
def store_relaxed(typing_context, words, i, value):
    """words[i] = value, whole. Says nothing about other words."""

    def generate(context, builder, signature, args):
        size = signature.args[0].dtype.bitwidth // 8
        builder.store_atomic(args[2], _pointer(context, builder, signature, args), "monotonic", size)
        return context.get_dummy_value()

    return types.void(words, types.intp, words.dtype), generate


@intrinsic
def fence_acquire(typing_context):
    """Loads before it stay before every load and store after it."""
    return types.void(), lambda context, builder, signature, args: _fence(context, builder, "acquire")


@intrinsic
def fence_release(typing_context):
    """Every load and store before it stays before the stores after it."""
    return types.void(), lambda context, builder, signature, args: _fence(context, builder, "release")


def _fence(context, builder, order):
    builder.fence(order)
    return context.get_dummy_value()


def _pointer(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [args[1]])


@intrinsic
def word_at(typing_context, address):
    """The int64 that stands at an address."""

    def generate(context, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def call(typing_context, address, a, b, c, d, e, f, g):
    """The C function at an address, with seven words; it may take fewer. Returns a word, of which a function that
    returns int fills the lower half only."""

    def generate(context, builder, signature, args):
        function = builder.inttoptr(args[0], ir.FunctionType(_WORD, [_WORD] * 7).as_pointer())
        return builder.call(function, list(args[1:]))

    return types.int64(*[types.int64] * 8), generate


@kernel
def sleep_while(addresses, words, i, value):
    """Sleep while words[i] is `value`. May wake without a reason, so it belongs in a loop. Only the lower half of the
    word is looked at, which is where a count changes."""
    call(addresses[0], _FUTEX, words.ctypes.data + 8 * i, _WAIT, value & 0xFFFFFFFF, 0, 0, 0)


@kernel
def sleep_while_for(addresses, words, i, value, nanoseconds, room):
    """The same, for so long at the most. room: four words of the caller's own, which are overwritten."""
    room[2], room[3] = nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
    call(addresses[0], _FUTEX, words.ctypes.data + 8 * i, _WAIT, value & 0xFFFFFFFF, room.ctypes.data + 16, 0, 0)


@kernel
def wake(addresses, words, i):
    """Wake whoever sleeps on words[i]."""
    call(addresses[0], _FUTEX, words.ctypes.data + 8 * i, _WAKE, 0x7FFFFFFF, 0, 0, 0)


@kernel
def await_change(addresses, words, i, value, spins):
    """Return once words[i] is no longer `value`: look so many times, then sleep."""
    looked = 0
    while load_acquire(words, i) == value:
        looked += 1
        if looked > spins:
            sleep_while(addresses, words, i, value)


@kernel
def await_change_for(addresses, words, i, value, most_ns, room):
    """Sleep until words[i] is no longer `value`, for so long at the most -> ns slept. Whether it has changed is for
    the caller to look at. room: four words of the caller's own."""
    if load_acquire(words, i) != value or most_ns <= 0:
        return 0
    began, slept = now(addresses, room, 0), 0
    while slept < most_ns and load_acquire(words, i) == value:
        sleep_while_for(addresses, words, i, value, most_ns - slept, room)
        slept = now(addresses, room, 0) - began
    return slept


@cache
def can_sleep_while_all() -> bool:
    """Whether the system knows how, and lets this process."""
    library, word = ctypes.CDLL(None, use_errno=True), np.zeros(1, np.int64)
    wait = np.array([[1, word.ctypes.data, 2]], np.int64)  # for a word that is not what it is said to be
    library.syscall(ctypes.c_long(_FUTEX_WAITV), ctypes.c_void_p(wait.ctypes.data), 1, 0, None, 1)
    return ctypes.get_errno() == errno.EAGAIN


@kernel
def sleep_while_all(addresses, waits, most_ns, room):
    """Sleep while every one of several words is what it was, for so long at the most. waits: [n, 3] int64: the lower
    half of the value that was seen, the word's address, 2. Only where `can_sleep_while_all`."""
    until = now(addresses, room, 0) + most_ns
    room[2], room[3] = until // 1_000_000_000, until % 1_000_000_000
    call(addresses[0], _FUTEX_WAITV, waits.ctypes.data, waits.shape[0], 0, room.ctypes.data + 16, 1, 0)


@kernel
def now(addresses, room, i):
    """Monotonic time in ns, the clock of time.perf_counter_ns. room: two words from i on that it may overwrite."""
    call(addresses[1], 1, room.ctypes.data + 8 * i, 0, 0, 0, 0, 0)
    return room[i] * 1_000_000_000 + room[i + 1]
