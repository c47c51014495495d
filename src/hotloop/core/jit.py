"""How kernels are compiled: once, cached on disk, without the GIL, and with IEEE arithmetic so that the same file
run as plain Python (NUMBA_DISABLE_JIT=1) is its own reference."""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
inline = njit(cache=True, nogil=True, error_model="numpy", inline="always")
