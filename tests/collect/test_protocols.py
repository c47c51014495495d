"""The protocols of rings and weights on a machine with weak memory, the writer killed before every memory operation:
nothing goes wrong, and without any one of their orderings something does."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.collect.weak_memory import (
    ACQUIRE,
    RELEASE,
    Machine,
    check,
    fence,
    jump,
    load,
    put,
    store,
    without,
)

# --- the ring --------------------------------------------------------------------------------------------------------

SLOTS, RECORDS = 2, 4
WRITE, READ = "write", "read"


class Worker(NamedTuple):
    life: int = 0
    w: int = 0
    r: int | None = None


class Trainer(NamedTuple):
    life: int = 0
    r: int = 0
    w: int | None = None
    a: int | None = None
    b: int | None = None


def worker(late_block: bool = False, cursor_of_its_own: bool = False) -> list:
    """Record n is n + 1, twice."""
    block = [
        store(lambda q: ("slot", q.w % SLOTS, 0), lambda q: q.w + 1),
        store(lambda q: ("slot", q.w % SLOTS, 1), lambda q: q.w + 1),
    ]
    publish = [store(lambda q: WRITE, lambda q: q.w + 1, RELEASE, name="publish")]
    return [
        put("w", lambda q: 0) if cursor_of_its_own else load("w", lambda q: WRITE),
        jump("end", lambda q: q.w == RECORDS, label="next"),
        load("r", lambda q: READ, ACQUIRE, name="claim", label="full", guesses=tuple(range(RECORDS + 1))),
        jump("full", lambda q: q.w - q.r >= SLOTS),
        *(publish + block if late_block else block + publish),
        put("w", lambda q: q.w + 1),
        jump("next"),
        put("r", lambda q: None, label="end"),
    ]


def trainer(early_release: bool = False) -> list:
    read = [
        load("a", lambda q: ("slot", q.r % SLOTS, 0)),
        load("b", lambda q: ("slot", q.r % SLOTS, 1)),
    ]
    release = [store(lambda q: READ, lambda q: q.r + 1, RELEASE, name="release")]
    return [
        jump("end", lambda q: q.r == RECORDS, label="next"),
        load("w", lambda q: WRITE, ACQUIRE, name="peek", label="empty", guesses=tuple(range(RECORDS + 1))),
        jump("empty", lambda q: q.w == q.r),
        *(release + read if early_release else read + release),
        check(lambda q: 0 < q.w - q.r <= SLOTS and q.a == q.b == q.r + 1),
        put("r", lambda q: q.r + 1),
        jump("next"),
        put("w", lambda q: None, label="end"),
    ]


def ring(worker: list, trainer: list) -> Machine:
    memory = [WRITE, READ, *(("slot", s, k) for s in range(SLOTS) for k in range(2))]
    return Machine([worker, trainer], [Worker, Trainer], memory)


def test_a_ring_passes_every_record_once_and_whole_whoever_is_killed_when():
    found = ring(worker(), trainer()).explore(0, 2, lambda words, processes: processes[1].r == RECORDS)
    assert found.states > 1_000 and (found.bad, found.stuck) == (0, 0)


@pytest.mark.parametrize("name", ["publish", "claim", "peek", "release"])
def test_a_ring_needs_each_of_its_orderings(name):
    writing, reading = worker(), trainer()
    if name in ("publish", "claim"):
        writing = without(writing, name)
    else:
        reading = without(reading, name)
    assert ring(writing, reading).goes_wrong(0, kills=0)


def test_what_would_break_a_ring_is_found():
    assert ring(worker(late_block=True), trainer()).goes_wrong(0, kills=0)
    assert ring(worker(), trainer(early_release=True)).goes_wrong(0, kills=0)
    assert not ring(worker(cursor_of_its_own=True), trainer()).goes_wrong(0, kills=0)
    assert ring(worker(cursor_of_its_own=True), trainer()).goes_wrong(0, kills=1)


# --- the weights -----------------------------------------------------------------------------------------------------

VERSIONS = 3  # two in one buffer
MORE = (0, True), (2, False)  # kills, and whether LATEST may be guessed
LATEST = "latest"


class Learner(NamedTuple):
    life: int = 0
    latest: int | None = None
    b: int | None = None
    s: int | None = None
    content: int = 0


class Actor(NamedTuple):
    life: int = 0
    have: int = 0  # version
    latest: int | None = None
    s: int | None = None
    a: int | None = None
    b: int | None = None
    t: int | None = None


def version(latest: int) -> int:
    return latest // 2


def learner(buffers: int = 2, sequence_of_version: bool = False) -> list:
    """What version v holds depends on the life that wrote it: v * 4 + life, twice."""

    def odd(q: Learner) -> int:
        return 2 * version(q.latest) + 1 if sequence_of_version else q.s + 1 + q.s % 2

    return [
        load("latest", lambda q: LATEST, label="next"),
        jump("end", lambda q: version(q.latest) == VERSIONS),
        put("b", lambda q: (1 - q.latest % 2) % buffers),
        put("content", lambda q: (version(q.latest) + 1) * 4 + q.life),
        load("s", lambda q: ("sequence", q.b)),
        put("s", odd),
        store(lambda q: ("sequence", q.b), lambda q: q.s),
        fence(RELEASE, name="odd first"),
        store(lambda q: ("numbers", q.b, 0), lambda q: q.content),
        store(lambda q: ("numbers", q.b, 1), lambda q: q.content),
        store(lambda q: ("sequence", q.b), lambda q: q.s + 1, RELEASE, name="even last"),
        store(lambda q: LATEST, lambda q: 2 * (version(q.latest) + 1) + q.b, RELEASE, name="latest last"),
        jump("next"),
        put("s", lambda q: None, label="end"),
    ]


def actor(looks_again: bool = True, guesses: bool = False) -> list:
    evens = tuple(range(0, 4 * VERSIONS, 2))
    latests = tuple(range(2 * VERSIONS + 2)) if guesses else ()
    return [
        load("latest", lambda q: LATEST, label="again", guesses=latests),
        jump("again", lambda q: version(q.latest) <= q.have),
        load("s", lambda q: ("sequence", q.latest % 2), ACQUIRE, name="sequence", guesses=evens),
        jump("again", lambda q: q.s % 2 == 1),
        load("a", lambda q: ("numbers", q.latest % 2, 0)),
        load("b", lambda q: ("numbers", q.latest % 2, 1)),
        fence(ACQUIRE, name="numbers first"),
        load("t", lambda q: ("sequence", q.latest % 2)),
        jump("again", lambda q: looks_again and q.s != q.t),
        check(lambda q: q.a == q.b and q.a // 4 >= version(q.latest)),
        put("have", lambda q: q.a // 4),
        *(put(name, lambda q: None) for name in ("latest", *"sabt")),
        jump("again"),
    ]


def weights(learner: list, actor: list) -> Machine:
    memory = [LATEST, *(("sequence", b) for b in range(2)), *(("numbers", b, k) for b in range(2) for k in range(2))]
    return Machine([learner, actor], [Learner, Actor], memory)


def up_to_date(words, processes) -> bool:
    return processes[1].have >= version(words[LATEST])


@pytest.mark.parametrize(
    ("kills", "guesses"), [(1, False), *(pytest.param(k, g, marks=pytest.mark.prove) for k, g in MORE)]
)
def test_weights_are_whole_never_go_back_and_wait_for_nobody(kills, guesses):
    found = weights(learner(), actor(guesses=guesses)).explore(0, kills, up_to_date, alone=1)
    assert found.states > 1_000 and (found.bad, found.stuck) == (0, 0)


@pytest.mark.parametrize("name", ["odd first", "even last", "sequence", "numbers first"])
def test_weights_need_each_of_their_orderings(name):
    writing, reading = learner(), actor()
    if name in ("odd first", "even last"):
        writing = without(writing, name)
    else:
        reading = without(reading, name)
    assert weights(writing, reading).goes_wrong(0, kills=0)


def test_without_the_last_ordering_readers_wait_for_the_learner():
    found = weights(without(learner(), "latest last"), actor()).explore(0, 0, up_to_date, alone=1)
    assert found.stuck and not found.bad


def test_what_would_break_weights_is_found():
    one = weights(learner(buffers=1), actor()).explore(0, 0, up_to_date, alone=1)
    assert one.stuck and not one.bad
    assert weights(learner(), actor(looks_again=False)).goes_wrong(0, kills=0)


@pytest.mark.prove
def test_a_sequence_made_from_the_version_is_taken_for_another():
    of_version = weights(learner(sequence_of_version=True), actor())
    assert not of_version.goes_wrong(0, kills=0) and of_version.goes_wrong(0, kills=1)
