"""Arrays as bytes and back: a line that says what they are, and their values. For sockets, not for files."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from hotloop.core.types import Arrays


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    head = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    return json.dumps(head).encode() + b"\n" + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())


def unpacked(message: bytes) -> Arrays:
    head, _, data = message.partition(b"\n")
    arrays, at = {}, 0
    for name, kind, shape in json.loads(head):
        array = np.frombuffer(data, kind, int(np.prod(shape, dtype=np.int64)), at).reshape(shape)
        arrays[name], at = array.copy(), at + array.nbytes
    return arrays
