"""Run as a process of its own: writers of a ring, or of weights, that are killed, and a reader that checks all it gets.
Prints one JSON object. What a block holds says who wrote it: its number within its start, the start, and so on through
the block, so that halves of two records, a record twice and a record too few are all seen."""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from hotloop.collect import memory, ring, weights

BLOCK_BYTES, BLOCKS, ENV_STEPS = 256, 3, 8
POINTS = ("claimed", "half", "made", "published", "dropping", "dropped")
LOST = {"made": ENV_STEPS, "dropping": ENV_STEPS}  # by a kill at this point; nothing at the others


def new_ring() -> ring.Ring:
    size = ring.bytes_for(BLOCK_BYTES, BLOCKS)
    segment = memory.reserved({"ring": size}, "")
    segment.close()
    return ring.Ring(segment.parts["ring"], BLOCK_BYTES, BLOCKS)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def forked(child: Callable[[], None]) -> Iterator[int]:
    """A process that shares what is shared and nothing else. It is gone at the end."""
    pid = os.fork()
    if not pid:
        try:
            child()
        finally:
            os._exit(0)
    try:
        yield pid
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def gone(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


# --- both ends of a ring ---------------------------------------------------------------------------------------------


def content(epoch: int, number: int) -> int:
    return epoch * 1_000_000 + number


def write(
    shared: ring.Ring, epoch: int, records: int, point: str = "", at: int = 0, drop_every: int = 0, bug: str = ""
) -> None:
    """A worker. Dies at the named point of record `at`, if there is one."""
    shared.take_over(epoch)
    dropped = 0
    for number in range(records):
        faulty = number == at

        def reach(here: str, faulty: bool = faulty) -> None:
            if faulty and here == point:
                die()

        if drop_every and number % drop_every == drop_every - 1:
            shared.made(ENV_STEPS)
            reach("dropping")
            shared.drop(ENV_STEPS)
            reach("dropped")
            dropped += 1
            continue
        while (slot := shared.claim(1.0)) is None:
            pass
        reach("claimed")
        words, value = slot.view(np.int64), content(epoch, number - dropped)
        if bug == "publish first":
            shared.made(ENV_STEPS)
            shared.publish(ENV_STEPS, 0)
        elif bug == "cursor of its own":
            shared.words[ring.WRITE] = number - dropped
        words[: len(words) // 2] = value
        reach("half")
        words[len(words) // 2 :] = value
        if bug != "publish first":
            shared.made(ENV_STEPS)
            reach("made")
            shared.publish(ENV_STEPS, 0)
        reach("published")


class Reader:
    """Takes records, and counts what is wrong with them."""

    def __init__(self, shared: ring.Ring, releases_first: bool = False) -> None:
        self.ring, self.releases_first = shared, releases_first
        self.records = self.torn = self.disordered = self.stored = self.miscounted = 0
        self.last = (0, -1)  # start, number

    def take(self, timeout_s: float) -> bool:
        found = self.ring.peek(timeout_s)
        if found is None:
            return False
        header, block = found
        if self.releases_first:
            self.ring.release()
            time.sleep(0.0002)
        words = block.view(np.int64)
        first, second = words[: len(words) // 2].copy(), words[len(words) // 2 :].copy()
        epoch, number = divmod(int(first[0]), 1_000_000)
        whole = (first == first[0]).all() and (second == first[0]).all() and epoch == header.epoch
        follows = number == self.last[1] + 1 if epoch == self.last[0] else epoch > self.last[0] and number == 0
        self.torn += not whole
        self.disordered += not follows or header.seq != self.records
        self.stored += header.env_steps
        self.miscounted += header.published != self.stored
        self.miscounted += header.produced != header.published + header.dropped + header.lost
        self.records += 1
        self.last = (epoch, number)
        if not self.releases_first:
            self.ring.release()
        return True

    def found(self) -> dict[str, int]:
        counts = self.ring.counts()
        missing = counts.produced - counts.stored - counts.in_flight - counts.dropped - counts.lost - counts.making
        self.miscounted += missing != 0 or counts.stored != self.stored
        wrong = {"torn": self.torn, "disordered": self.disordered, "miscounted": self.miscounted}
        told = {"lost": counts.lost, "dropped": counts.dropped, "produced": counts.produced, "stored": counts.stored}
        return {**wrong, **told, "records": self.records, "in_flight": counts.in_flight, "making": counts.making}


def until_gone(pid: int, reader: Reader) -> None:
    while not gone(pid):
        reader.take(0.02)


# --- what may be asked -----------------------------------------------------------------------------------------------


def points(times: int, bug: str = "") -> dict[str, int]:
    """A kill at each named point, so many times; then one worker that lives."""
    shared = new_ring()
    reader, epoch, lost, rng = Reader(shared), 0, 0, random.Random(times)
    try:
        for point in POINTS * times:
            epoch += 1
            at = rng.randrange(9)
            at += (point in ("dropping", "dropped")) * (2 - at % 3) - (point not in ("dropping", "dropped")) * (at % 3)
            with forked(lambda e=epoch, p=point, a=at: write(shared, e, 12, p, a, drop_every=3, bug=bug)) as pid:
                until_gone(pid, reader)
            lost += LOST.get(point, 0)
        with forked(lambda: write(shared, epoch + 1, 12, drop_every=3, bug=bug)) as pid:
            until_gone(pid, reader)
        while reader.take(0.0):
            pass
    except ring.DamagedRing:
        return {"damaged": 1, **vars_of(reader)}
    return {"damaged": 0, "expected_lost": lost, **reader.found()}


def vars_of(reader: Reader) -> dict[str, int]:
    return {"torn": reader.torn, "disordered": reader.disordered, "miscounted": reader.miscounted}


def random_kills(kills: int, seed: int, releases_first: bool = False) -> dict[str, int]:
    """Kills at any moment, while the reader reads."""
    shared, rng = new_ring(), random.Random(seed)
    reader, most, before = Reader(shared, releases_first), 0, 0
    for epoch in range(1, kills + 2):
        with forked(lambda e=epoch: write(shared, e, 1_000_000, drop_every=5)) as pid:
            until = time.perf_counter() + rng.uniform(0.0, 0.006)
            while time.perf_counter() < until:
                reader.take(0.001)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shared.take_over(epoch)  # in the name of the dead: what it had not published is lost
        lost = shared.counts().lost
        most, before = max(most, lost - before), lost
    while reader.take(0.0):
        pass
    return {"kills": kills, "most_lost": most, **reader.found()}


def account(env_steps: int, kills: int, seed: int) -> dict[str, int]:
    """So many env steps and so many kills, every unit counted."""
    shared, rng = new_ring(), random.Random(seed)
    reader, epoch = Reader(shared), 0
    while shared.counts().produced < env_steps:
        epoch += 1
        with forked(lambda e=epoch: write(shared, e, 10_000_000, drop_every=7)) as pid:
            share = env_steps * min(epoch, kills + 1) // (kills + 1) + rng.randrange(100)
            while shared.counts().produced < share:
                reader.take(0.001)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    shared.take_over(epoch)
    while reader.take(0.0):
        pass
    return {"kills": epoch, **reader.found()}


# --- a kill after every store ----------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_TRACE_ME, _GO_ON, _STEP = 0, 7, 9


def moments(act: Callable[[], None], part: np.ndarray) -> list[bytes]:
    """Do it in another process, one machine instruction at a time -> what a kill would have left in shared memory,
    for each moment that differs."""

    def child() -> None:
        if _libc.ptrace(_TRACE_ME, 0, None, None):
            os._exit(77)
        os.kill(os.getpid(), signal.SIGSTOP)
        act()

    with forked(child) as pid:
        left = [part.tobytes()]
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            raise PermissionError("this system does not let a process watch its child")
        while _libc.ptrace(_STEP, pid, None, None) == 0:
            _, status = os.waitpid(pid, 0)
            if os.WIFEXITED(status):
                break
            now = part.tobytes()
            if now != left[-1]:
                left.append(now)
    return left


def every_store() -> dict[str, int]:
    """A worker killed after each of its stores into the ring: a block is published, then one is dropped."""
    segment = memory.reserved({"ring": ring.bytes_for(BLOCK_BYTES, BLOCKS)}, "")
    segment.close()
    part = segment.parts["ring"]
    shared = ring.Ring(part, BLOCK_BYTES, BLOCKS)
    write(shared, 1, 2)
    slot = shared.claim(0.0)
    assert slot is not None
    slot.view(np.int64)[:] = content(1, 2)

    def act() -> None:
        shared.made(ENV_STEPS)
        shared.publish(ENV_STEPS, 3, 1, (4, 5))
        shared.made(ENV_STEPS)
        shared.drop(ENV_STEPS)

    left = moments(act, part)
    wrong = {"torn": 0, "disordered": 0, "miscounted": 0}
    records, lost = [], []
    for memory_then in left:
        part[...] = np.frombuffer(memory_then, np.uint8)
        reader = Reader(shared)
        reader.take(0.0)
        write(shared, 2, 1)
        while reader.take(0.0):
            pass
        found = reader.found()
        for name in wrong:
            wrong[name] += found[name]
        wrong["miscounted"] += found["produced"] != found["stored"] + found["dropped"] + found["lost"]
        records.append(found["records"])
        lost.append(found["lost"])
    return {"moments": len(left), "records": records, "lost": lost, **wrong}


def every_store_of_weights() -> dict[str, int]:
    """A learner killed after each of its stores: what is read is whole, and the next publishes on."""
    count, torn, read = 5, 0, []
    segment = memory.reserved({"weights": weights.bytes_for(count)}, "")
    segment.close()
    part = segment.parts["weights"]
    shared, out = weights.Weights(part, count), np.zeros(count, np.float32)
    for version in range(3):
        shared.publish(np.full(count, version, np.float32), version)
    left = moments(lambda: shared.publish(np.full(count, 3, np.float32), 3), part)
    for memory_then in left:
        part[...] = np.frombuffer(memory_then, np.uint8)
        read.append(shared.read(out))
        torn += not (out == read[-1]).all()
        shared.publish(np.full(count, 4, np.float32), 4)
        torn += shared.read(out) != 4 or not (out == 4).all()
    return {"moments": len(left), "torn": torn, "read": read}


def interrupted_reads(moments: int) -> dict[str, int]:
    """A reader that is stopped in the middle, at so many moments of its reading, while a learner publishes twice."""
    count, torn, versions = 1_500, 0, []
    segment = memory.reserved({"weights": weights.bytes_for(count), "out": 4 * count, "version": 8}, "")
    segment.close()
    shared = weights.Weights(segment.parts["weights"], count)
    out, told = segment.parts["out"].view(np.float32), segment.parts["version"].view(np.int64)

    def read() -> None:
        if _libc.ptrace(_TRACE_ME, 0, None, None):
            os._exit(77)
        os.kill(os.getpid(), signal.SIGSTOP)
        told[0] = shared.read(out)

    def publish_twice() -> None:
        for _ in range(2):
            version = shared.newest() + 1
            shared.publish(np.full(count, version, np.float32), version)

    def steps(most: int) -> int:
        """Of a reader until it ends, or until so many were made and the learner was at work."""
        with forked(read) as pid:
            done, (_, status) = 0, os.waitpid(pid, 0)
            while os.WIFSTOPPED(status) and done < most:
                _libc.ptrace(_STEP, pid, None, None)
                done, (_, status) = done + 1, os.waitpid(pid, 0)
            if os.WIFSTOPPED(status):
                publish_twice()
                _libc.ptrace(_GO_ON, pid, None, None)
                os.waitpid(pid, 0)
        return done

    publish_twice()
    shared.read(np.zeros(count, np.float32))  # compiled here, once
    whole = steps(10_000_000)
    for k in range(moments):
        steps(whole * (k + 1) // (moments + 1))
        torn += not (out == told[0]).all()
        versions.append(int(told[0]))
    return {"steps": whole, "torn": torn, "backwards": versions != sorted(versions)}


def weights_under_fire(reads: int, kills: int, seed: int, looks_once: bool = False) -> dict[str, int]:
    """A learner that publishes without a pause and is killed now and then, and one reader. looks_once: the reader takes
    what it has copied without another look at its sequence."""
    count = 10_001
    segment = memory.reserved({"weights": weights.bytes_for(count)}, "")
    segment.close()
    shared, out, rng = (
        weights.Weights(segment.parts["weights"], count),
        np.zeros(count, np.float32),
        random.Random(seed),
    )
    shared.publish(np.zeros(count, np.float32), 0)
    shared.read(out)

    def publish() -> None:
        params = np.zeros(count, np.float32)
        version = shared.newest()
        while True:
            version += 1
            params[...] = version % 1_000_003
            shared.publish(params, version)

    torn = backwards = read = refused = have = longest = 0
    for _ in range(kills):
        with forked(publish) as pid:
            until = read + reads // kills
            while read < until and not (looks_once and torn):
                began = time.perf_counter_ns()
                if looks_once:
                    newest = int(shared.words[weights.LATEST])
                    out.view(np.int32)[...] = shared._buffers.reshape(2, -1)[newest & 1, 2 : 2 + count]
                    version = newest // 2 - 1
                else:
                    version = shared.read(out, have)
                longest = max(longest, time.perf_counter_ns() - began)
                backwards += version < have
                if version != have:
                    torn += not (out == version % 1_000_003).all()
                    read += 1
                else:
                    refused += 1
                have = version
            time.sleep(rng.uniform(0, 0.0005))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return {"read": read, "torn": torn, "backwards": backwards, "refused": refused, "longest_us": longest // 1000}


# --- waiting ---------------------------------------------------------------------------------------------------------


def blocked(seconds: float) -> dict[str, float]:
    """Share of a core that waiting takes, at either end, and that looking all the time takes."""
    shared = new_ring()
    empty = share_while(lambda: shared.peek(seconds))
    write(shared, 1, BLOCKS)
    full = share_while(lambda: shared.claim(seconds))
    any_of = share_while(lambda: ring.await_any([new_ring(), new_ring()], seconds))

    def look() -> None:
        until = time.perf_counter() + seconds / 4
        while time.perf_counter() < until:
            shared.claim(0.0)

    counts = shared.counts()
    return {
        "empty": empty, "full": full, "any": any_of, "looking": share_while(look),
        "blocked_s": counts.blocked_ns / 1e9, "waited_s": counts.waited_ns / 1e9,
    }  # fmt: skip


def share_while(act: Callable[[], object]) -> float:
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    act()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime) / (time.perf_counter() - began)


def leftovers(kills: int) -> dict[str, int]:
    """Descriptors, names and mappings that are there after kills and were not before."""

    def there() -> tuple[set[str], set[str], int]:
        with open("/proc/self/maps") as maps:
            return set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm")), maps.read().count("memfd:hotloop")

    before = there()
    for epoch in range(kills):
        shared = new_ring()
        with forked(lambda e=epoch, s=shared: write(s, e, 5, "half", 1)) as pid:
            os.waitpid(pid, 0)
        del shared
    after = there()
    return {"fds": len(after[0] - before[0]), "names": len(after[1] - before[1]), "mappings": after[2] - before[2]}


ASKED = {f.__name__: f for f in (points, random_kills, account, every_store, every_store_of_weights)}
ASKED |= {f.__name__: f for f in (interrupted_reads, weights_under_fire, blocked, leftovers)}

if __name__ == "__main__":
    warm = Reader(new_ring())
    write(warm.ring, 1, 1)
    warm.take(0.0)
    ring.await_any([warm.ring], 0.001)
    warm.ring.peek(0.001)
    answers = [ASKED[what](**words) for what, words in json.loads(sys.argv[1])]
    print(json.dumps(answers, default=int))
