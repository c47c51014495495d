"""Calls a compiled package through its C interface, so that Python runs on beside it. torch's own loader keeps the
interpreter locked for as long as the call lasts: with it, a learner's thread and a collector's take turns."""

from __future__ import annotations

import ctypes
import tempfile
import weakref
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hotloop.core import atomic
from hotloop.core.jit import kernel

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Function:
    """The function of a package: flat list of tensors in, list of tensors out. One call at a time."""

    def __init__(self, package: Path) -> None:
        library = _library(package)
        container, count = ctypes.c_void_p(), ctypes.c_size_t()
        check(
            library.AOTInductorModelContainerCreateWithDevice(
                ctypes.byref(container), ctypes.c_size_t(1), b"cpu", ctypes.c_void_p()
            )
        )
        check(library.AOTInductorModelContainerGetNumOutputs(container, ctypes.byref(count)))
        self.outputs = count.value
        self.container = container.value or 0
        self._run = library.AOTInductorModelContainerRun  # ctypes lets go of the interpreter while it is in there
        self._run.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_void_p, ctypes.c_void_p),
        ]
        self.run_address = atomic.address_of(self._run)
        weakref.finalize(self, library.AOTInductorModelContainerDelete, container)

    def __call__(self, tensors: list[Tensor]) -> Sequence[Tensor]:
        handles = _handles(tensors)
        inputs, outputs = (ctypes.c_void_p * len(handles))(*handles), (ctypes.c_void_p * self.outputs)()
        check(self._run(self.container, inputs, len(inputs), outputs, len(outputs), None, None))
        return _tensors(outputs)


class Chain:
    """Several calls of one function, each of which begins with the state that the one before has left: the first
    tensors in are the first tensors out. Made and read by Python, run without it, all of it once."""

    def __init__(self, function: Function, state: list[Tensor], rests: Sequence[list[Tensor]]) -> None:
        calls, inputs, outputs = len(rests), len(state) + len(rests[0]), function.outputs
        self._function = function  # and with it the machine code, until the chain is done
        self._in = np.zeros((calls, inputs), np.int64)
        self._out = np.zeros((calls, outputs), np.int64)
        self._in[0] = _handles([*state, *rests[0]])
        for i in range(1, calls):
            self._in[i, len(state) :] = _handles(rests[i])
        # What run_chain reads, in its order.
        self.words = np.array(
            [
                *(function.run_address, function.container, calls, inputs, outputs, len(state)),
                *(self._in.ctypes.data, self._out.ctypes.data, _new_handle()),
            ],
            np.int64,
        )

    def run(self) -> None:
        """In this thread, without the interpreter."""
        check(run_chain(self.words))

    def results(self) -> list[Sequence[Tensor]]:
        """Outputs of each call, once."""
        return [_tensors(row.tolist()) for row in self._out]  # sync: addresses, not values


@kernel
def run_chain(words):
    """Run a chain -> 0, or the status of the call that failed."""
    run, container, calls, inputs, outputs, state = words[0], words[1], words[2], words[3], words[4], words[5]
    into, out, new_handle = words[6], words[7], words[8]
    for i in range(calls):
        if i:
            for k in range(state):
                # A call takes its inputs over, and the outputs of the one before are still wanted: a second handle.
                made = atomic.word_at(out + 8 * ((i - 1) * outputs + k))
                failed = atomic.call(new_handle, made, into + 8 * (i * inputs + k), 0, 0, 0, 0, 0) & 0xFFFFFFFF
                if failed:
                    return failed
        here = into + 8 * i * inputs
        failed = atomic.call(run, container, here, inputs, out + 8 * i * outputs, outputs, 0, 0) & 0xFFFFFFFF
        if failed:
            return failed
    return 0


def check(status: int) -> None:
    """Raise where a call has failed."""
    if status:
        raise RuntimeError("the compiled function failed; torch has said why on stderr")


def _handles(tensors: list[Tensor]) -> list[int]:
    """New handles to the same tensors; a call takes them over, and hands over those of its results."""
    return [_pointer(c, None) for c in torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors)]


def _tensors(handles: Sequence[int]) -> Sequence[Tensor]:
    return torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs([_capsule(p, None, None) for p in handles])


@cache
def _new_handle() -> int:
    """torch's C function that makes a second handle to a tensor."""
    return atomic.address_of(ctypes.CDLL(torch._C.__file__).aoti_torch_new_tensor_handle)


def _library(package: Path) -> ctypes.CDLL:
    """Load the machine code inside the package; the file it is loaded from is gone again afterwards."""
    with zipfile.ZipFile(package) as archive, tempfile.TemporaryDirectory(prefix="hotloop-") as folder:
        (name,) = [n for n in archive.namelist() if n.endswith(".so")]
        file = Path(folder) / "function.so"
        file.write_bytes(archive.read(name))
        return ctypes.CDLL(str(file))
