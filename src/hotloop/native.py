"""Calls a compiled package through its C interface, so that Python runs on beside it. torch's own loader keeps the
interpreter locked for as long as the call lasts: with it, a learner's thread and a collector's take turns."""

from __future__ import annotations

import ctypes
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def function_of(package: Path) -> Callable[[list[Tensor]], Sequence[Tensor]]:
    """The package's function: flat list of tensors in, list of tensors out. One call at a time."""
    library = _library(package)
    container, count = ctypes.c_void_p(), ctypes.c_size_t()
    _check(
        library.AOTInductorModelContainerCreateWithDevice(
            ctypes.byref(container), ctypes.c_size_t(1), b"cpu", ctypes.c_void_p()
        )
    )
    _check(library.AOTInductorModelContainerGetNumOutputs(container, ctypes.byref(count)))
    outputs = (ctypes.c_void_p * count.value)()
    run = library.AOTInductorModelContainerRun  # ctypes lets go of the interpreter while it is in there
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t] + [
        ctypes.c_void_p
    ] * 2

    def call(tensors: list[Tensor]) -> Sequence[Tensor]:
        # New handles to the same tensors; the call takes them over, and hands over those of its results.
        handles = [_pointer(c, None) for c in torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors)]
        inputs = (ctypes.c_void_p * len(handles))(*handles)
        _check(run(container, inputs, len(handles), outputs, len(outputs), None, None))
        return torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs([_capsule(p, None, None) for p in outputs])

    weakref.finalize(call, library.AOTInductorModelContainerDelete, container)
    return call


def _library(package: Path) -> ctypes.CDLL:
    """Load the machine code inside the package; the file it is loaded from is gone again afterwards."""
    with zipfile.ZipFile(package) as archive, tempfile.TemporaryDirectory(prefix="hotloop-") as folder:
        (name,) = [n for n in archive.namelist() if n.endswith(".so")]
        file = Path(folder) / "function.so"
        file.write_bytes(archive.read(name))
        return ctypes.CDLL(str(file))


def _check(status: int) -> None:
    if status:
        raise RuntimeError("the compiled function failed; torch has said why on stderr")
