"""A thousand small blocks written into a ring and taken out again, by one process: what a block costs by itself."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    import numpy as np

    from hotloop.collect import ring

    size, blocks = 4_096, 4
    memory = np.zeros(ring.bytes_for(size, blocks) // 8, np.int64).view(np.uint8)
    writer, reader = ring.Ring(memory, size, blocks), ring.Ring(memory, size, blocks)
    writer.take_over(1)
    block = np.arange(size, dtype=np.uint8)

    def work() -> None:
        for _ in range(1_000):
            slot = writer.claim(1.0)
            assert slot is not None
            slot[...] = block
            writer.made(16)
            writer.publish(16, 0)
            assert reader.peek(1.0) is not None
            reader.release()

    return work
