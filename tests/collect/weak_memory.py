"""All that can happen to a few small programs on a machine with weak memory, one of which may be killed before any of
its memory operations and started anew. Every state is visited; nothing is left to chance.

A program is issued in order, and what it has issued takes effect in any order, with these exceptions: the same word; a
load that acquires, before all that comes after it; a store that releases, after all that comes before it; fences, as
C11 has them. A load may even be guessed, so that what depends on it takes effect first, as long as the guess turns
out to be true: more than any processor does, but no more than the language allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

RELAXED, ACQUIRE, RELEASE = "relaxed", "acquire", "release"
_LOAD, _GUESS, _STORE, _ACQUIRE_FENCE, _RELEASE_FENCE = "L", "G", "S", "A", "R"
_WINDOW = 6  # operations that a processor has issued and that have not taken effect
Term = Callable[[Any], Any]  # of the registers
Wanted = Callable[[Any, Any], bool]  # of word -> value, and the registers of each program


@dataclass(frozen=True)
class Op:
    kind: str  # load, store, fence, set, jump, check
    word: Term | None = None  # its address
    register: str = ""  # that a load or set fills
    value: Term | None = None
    order: str = RELAXED
    to: str = ""  # the label that a jump goes to
    label: str = ""
    name: str = ""  # of the ordering, so that a test can take it away
    guesses: tuple[int, ...] = ()  # what a load may be taken to be if it does not acquire


def load(register: str, word: Term, order: str = RELAXED, **more: Any) -> Op:
    return Op("load", word, register, order=order, **more)


def store(word: Term, value: Term, order: str = RELAXED, **more: Any) -> Op:
    return Op("store", word, value=value, order=order, **more)


def fence(order: str, **more: Any) -> Op:
    return Op("fence", order=order, **more)


def put(register: str, value: Term, **more: Any) -> Op:
    return Op("set", register=register, value=value, **more)


def jump(to: str, when: Term = lambda q: True, **more: Any) -> Op:
    return Op("jump", value=when, to=to, **more)


def check(value: Term, **more: Any) -> Op:
    return Op("check", value=value, **more)


def without(program: Sequence[Op], name: str) -> list[Op]:
    """The program with one ordering taken away."""
    found = [op for op in program if op.name == name]
    assert len(found) == 1, f"{name!r} stands {len(found)} times"
    return [Op(**{**vars(op), "order": RELAXED}) if op.name == name else op for op in program]


class Process(NamedTuple):
    """Where one program is."""

    at: int
    registers: tuple[int | None, ...]
    issued: tuple[tuple[str, Any, Any], ...]  # (kind, word, value, register or order) not yet in effect, oldest first
    life: int = 0  # times it was started again
    dead: bool = False


@dataclass(frozen=True)
class Found:
    states: int
    bad: int  # ways into a state where a check fails
    stuck: int  # from where what is wanted can no longer happen, whatever happens


class Machine:
    def __init__(self, programs: Sequence[Sequence[Op]], registers: Sequence[type], memory: Iterable[Any]) -> None:
        """registers: one NamedTuple with defaults per program; `life` in it is filled. memory: words, 0 at first."""
        self.programs = [list(p) for p in programs]
        self.types = list(registers)
        self.labels = [{op.label: i for i, op in enumerate(p) if op.label} for p in self.programs]
        self.where = {word: i for i, word in enumerate(memory)}

    def explore(self, mortal: int, kills: int, wanted: Wanted, alone: int | None = None) -> Found:
        """Program number `mortal` may be killed so often, and is started again. alone: a program that must get where
        it is wanted from every state by its own moves, though nobody else ever makes another one."""
        seen, before, bad = self._visited(mortal, kills, enough=None)
        return Found(len(seen), bad, self._stuck(seen, before, wanted, alone))

    def goes_wrong(self, mortal: int, kills: int) -> bool:
        """Whether a check can fail; the first one found is enough."""
        return self._visited(mortal, kills, enough=1)[2] > 0

    def _visited(self, mortal: int, kills: int, enough: int | None) -> tuple[set[Any], Any, int]:
        first = tuple(Process(0, tuple(t()), ()) for t in self.types)
        begin = self._settled(tuple([0] * len(self.where)), first)
        assert begin is not None
        seen, todo, bad = {begin}, [begin], 0
        before: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        while todo and bad != enough:
            state = todo.pop()
            for mover, memory, processes in self._next(state, mortal, kills):
                after = self._settled(memory, processes)
                if after is None:
                    bad += 1
                    if bad == enough:
                        break
                    continue
                before[after].append((mover, state))
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return seen, before, bad

    def _stuck(self, seen: set[Any], before: Any, wanted: Wanted, alone: int | None) -> int:
        def reached(state: Any) -> bool:
            words = {word: state[0][i] for word, i in self.where.items()}
            return wanted(words, [t(*p.registers) for t, p in zip(self.types, state[1], strict=True)])

        fine = {state for state in seen if reached(state)}
        todo = list(fine)
        while todo:
            for mover, state in before[todo.pop()]:
                if state not in fine and alone in (None, mover):
                    fine.add(state)
                    todo.append(state)
        # A guess that does not come true leads nowhere and never happened.
        return sum(1 for s in seen - fine if all(e[0] not in (_GUESS, _LOAD) for p in s[1] for e in p.issued))

    def _settled(self, memory: Any, processes: tuple[Process, ...]) -> Any:
        """Run what touches no memory. None where a check fails."""
        done = []
        for k, process in enumerate(processes):
            at, registers, waits = process.at, self.types[k](*process.registers), process.issued
            program = self.programs[k]
            while not process.dead and at < len(program) and program[at].kind in ("set", "jump", "check"):
                if any(e[0] == _LOAD for e in waits):  # it is not known yet
                    break
                op = program[at]
                assert op.value is not None
                at += 1
                if op.kind == "set":
                    registers = registers._replace(**{op.register: op.value(registers)})
                elif op.kind == "jump":
                    at = self.labels[k][op.to] if op.value(registers) else at
                elif not op.value(registers) and all(e[0] != _GUESS for e in waits):
                    return None
                elif any(e[0] == _GUESS for e in waits):  # judged when it is known that it happened
                    at -= 1
                    break
            done.append(process._replace(at=at, registers=tuple(registers)))
        return memory, tuple(done)

    def _next(self, state: Any, mortal: int, kills: int) -> Iterable[Any]:
        """(who moved, memory, processes)"""
        memory, processes = state
        for k, process in enumerate(processes):
            moves = [*self._effects(memory, process, k)]
            if not process.dead:
                moves += self._issue(memory, process, k)
                if k == mortal and process.life < kills and all(e[0] not in (_LOAD, _GUESS) for e in process.issued):
                    nothing = tuple(self.types[k]())
                    moves.append((memory, Process(0, nothing, process.issued, process.life + 1, True)))
            elif not process.issued:  # its last stores have arrived
                moves.append((memory, Process(0, tuple(self.types[k](life=process.life)), (), process.life)))
            for words, after in moves:
                yield k, words, (*processes[:k], after, *processes[k + 1 :])

    def _issue(self, memory: Any, process: Process, k: int) -> Iterable[Any]:
        program = self.programs[k]
        if process.at >= len(program) or program[process.at].kind not in ("load", "store", "fence"):
            return
        if len(process.issued) == _WINDOW:
            return
        op, registers = program[process.at], self.types[k](*process.registers)
        issued, ahead = process.issued, process._replace(at=process.at + 1)
        if op.kind == "fence":
            if op.order != RELAXED:
                kind = _ACQUIRE_FENCE if op.order == ACQUIRE else _RELEASE_FENCE
                ahead = ahead._replace(issued=(*issued, (kind, None, None, None)))
            yield memory, ahead
            return
        assert op.word is not None
        word = self.where[op.word(registers)]
        if op.kind == "store":
            assert op.value is not None
            yield memory, ahead._replace(issued=(*issued, (_STORE, word, op.value(registers), op.order)))
        elif op.order == ACQUIRE:  # takes effect at once, since nothing after it may do so before
            if not any(e[1] == word or e[0] == _ACQUIRE_FENCE for e in issued):
                yield memory, ahead._replace(registers=tuple(registers._replace(**{op.register: memory[word]})))
        elif op.guesses:
            for value in op.guesses if all(e[0] != _GUESS for e in issued) else ():  # one at a time
                guessed = tuple(registers._replace(**{op.register: value}))
                yield memory, ahead._replace(registers=guessed, issued=(*issued, (_GUESS, word, value, None)))
        else:
            yield memory, ahead._replace(issued=(*issued, (_LOAD, word, None, op.register)))

    def _effects(self, memory: Any, process: Process, k: int) -> Iterable[Any]:
        issued = process.issued
        for i, (kind, word, value, more) in enumerate(issued):
            if any(_holds_back(earlier, issued[i]) for earlier in issued[:i]):
                continue
            after = process._replace(issued=(*issued[:i], *issued[i + 1 :]))
            if kind == _STORE:
                yield (*memory[:word], value, *memory[word + 1 :]), after
            elif kind == _LOAD:
                registers = self.types[k](*process.registers)._replace(**{more: memory[word]})
                yield memory, after._replace(registers=tuple(registers))
            elif kind != _GUESS or memory[word] == value:
                yield memory, after


def _holds_back(earlier: tuple, later: tuple) -> bool:
    """Whether what was issued later must not take effect before what was issued earlier."""
    if earlier[0] == _ACQUIRE_FENCE or (earlier[1] is not None and earlier[1] == later[1]):
        return True
    if later[0] == _ACQUIRE_FENCE:
        return earlier[0] in (_LOAD, _GUESS)
    if later[0] == _RELEASE_FENCE or (later[0] == _STORE and later[3] == RELEASE):
        return True
    return earlier[0] == _RELEASE_FENCE and later[0] == _STORE
