"""The orderings that the protocols need stand in the machine code that is made for an ARM processor, where a plain load
or store has none. Translated here, on any machine; run on none."""

from __future__ import annotations

import ast
import inspect
import re

import numpy as np
import pytest
from llvmlite import binding
from numba import njit, typeof

from hotloop.collect import ring, weights
from hotloop.core import atomic

WORDS, ADDRESSES, ROOM = np.zeros(64, np.int64), np.zeros(2, np.int64), np.zeros(4, np.int64)
HEADERS, NOTES = np.zeros((3, 16), np.int64), np.zeros(ring.NOTES, np.int64)
BUFFERS, PARAMS = np.zeros(32, np.int32), np.zeros(6, np.int32)


def for_arm(function, *arguments) -> list[str]:
    """Its instructions, and the labels that are jumped to."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    # Without counting references, which numba writes for the machine it runs on.
    bare = njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    bare.compile(tuple(typeof(a) for a in arguments))
    (code,) = bare.inspect_llvm().values()
    code = re.sub(r'^target .*$|"target-(cpu|features)"="[^"]*"', "", code, flags=re.MULTILINE)
    module = binding.parse_assembly(code)
    module.triple = "aarch64-unknown-linux-gnu"
    machine = binding.Target.from_triple(module.triple).create_target_machine(cpu="generic", opt=2)
    lines = [line.split("//")[0].strip() for line in machine.emit_assembly(module).splitlines()]
    lines = [re.sub(r"\s+", " ", line) for line in lines if line and (line[0] != "." or line.startswith(".LBB"))]
    # Where a kernel's value goes is its first argument, which may be moved for the time of a call.
    value = "|".join({"x0", *re.findall(r"mov (x\d+), x0", "\n".join(lines))})
    return [line for line in lines if not re.match(rf"st.* \[({value})\]$", line)]


KINDS = {
    "ret": "return",
    "ldar": "acquire",
    "stlr": "release",
    "dmb ishld": "fence of loads",
    "dmb ish": "fence",
    "st": "store",
    "ld": "load",
}


def kind(line: str) -> str:
    """Of an instruction that touches memory which is not the stack."""
    found = next((kind for begin, kind in KINDS.items() if line.startswith(begin)), "")
    if found in ("store", "load") and re.search(r"\bsp\b", line):
        return ""
    return "number" if found == "load" and re.match(r"ld\w+ w", line) else found


def reached(code: list[str], start: int = 0, before: str = "") -> set[str]:
    """Kinds of the instructions that may follow `start`, by whatever way, until one of the kind `before`."""
    labels = {line[:-1]: i for i, line in enumerate(code) if line.endswith(":")}
    kinds, seen, todo = set(), set(), [start]
    while todo:
        at = todo.pop()
        if at in seen or at >= len(code):
            continue
        seen.add(at)
        if before and kind(code[at]) == before:
            continue
        kinds.add(kind(code[at]))
        jump = re.search(r"^(b|b\.\w+|cbn?z|tbn?z) (?:.*, )?(\.LBB\w+)$", code[at])
        todo += [labels[jump[2]]] if jump else []
        if not code[at].startswith("ret") and not (jump and jump[1] == "b"):
            todo.append(at + 1)
    return kinds - {""}


def after(code: list[str], wanted: str, before: str = "") -> set[str]:
    """What may follow any instruction of a kind."""
    places = [i for i, line in enumerate(code) if kind(line) == wanted]
    assert places, f"there is no {wanted}"
    return set().union(*(reached(code, i + 1, before) for i in places))


def test_a_block_is_published_after_it_is_written_and_written_after_its_room_was_seen():
    code = for_arm(ring._publish.py_func, ADDRESSES, WORDS, HEADERS, 1, 1, 1, 1, NOTES)
    assert reached(code, before="acquire") == {"load"} and "store" in reached(code)
    assert after(code, "release") <= {"load", "return"}


def test_a_slot_is_given_back_after_it_was_read():
    code = for_arm(ring._release.py_func, ADDRESSES, WORDS, HEADERS)
    assert reached(code, before="acquire") == {"load"}
    assert after(code, "release") <= {"load", "return"}


@pytest.mark.parametrize("kernel", [ring._await_room, ring._await_record])
def test_no_way_leads_around_a_look_at_the_other_side_that_acquires(kernel):
    code = for_arm(kernel.py_func, ADDRESSES, WORDS, 3, 1, ROOM)
    assert reached(code, before="acquire") == {"load"} and not any("dmb" in line for line in code)


def test_words_of_the_other_side_are_never_read_plainly_nor_cursors_written_so():
    theirs = {
        **dict.fromkeys((ring._await_room, ring._publish), "READ"),
        **dict.fromkeys((ring._await_record, ring._release), "WRITE"),
        **dict.fromkeys((weights._read, weights._newest, weights._wait), "LATEST SEQUENCE"),
    }
    for kernel, words in theirs.items():
        tree = ast.parse(inspect.getsource(kernel.py_func))
        plain = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and ast.unparse(n.value) == "words"]
        read = {ast.unparse(n.slice) for n in plain}
        written = {ast.unparse(n.slice) for n in plain if isinstance(n.ctx, ast.Store)}
        assert not read & set(words.split()) and not written & {"READ", "WRITE", "LATEST", "at"}


def test_weights_are_written_between_an_odd_sequence_and_an_even_one():
    code = for_arm(weights._publish.py_func, ADDRESSES, WORDS, BUFFERS, PARAMS, 1)
    assert reached(code, before="fence") == {"load", "store"}
    assert "store" in after(code, "fence", before="release")
    assert after(code, "release") == {"release", "load", "return"}
    first = next(i for i, line in enumerate(code) if kind(line) == "release")
    assert [kind(line) for line in code[first:] if kind(line)][:2] == ["release", "release"]


def test_weights_are_read_between_two_looks_at_their_sequence():
    code = for_arm(weights._read.py_func, WORDS, BUFFERS, PARAMS, 1)
    assert "number" not in reached(code, before="acquire")
    assert after(code, "acquire", before="number") >= {"load"} and "number" in after(code, "acquire")
    assert "load" not in after(code, "number", before="fence of loads") and "load" in after(code, "fence of loads")


def test_plain_words_have_no_order_and_a_loop_that_looks_at_one_never_looks_again():
    def plain(words):
        while words[0] == 0:
            pass
        words[1] = 1

    def atomically(words):
        while atomic.load_acquire(words, 0) == 0:
            pass
        atomic.store_release(words, 1, 1)

    hoisted, looking = for_arm(plain, WORDS), for_arm(atomically, WORDS)
    assert reached(hoisted) <= {"load", "store", "return"} and reached(looking) == {"acquire", "release", "return"}
    assert not _loops_with(hoisted, "ld") and _loops_with(looking, "ldar")


def _loops_with(code: list[str], instruction: str) -> bool:
    """Whether there is a jump back over such an instruction."""
    labels = {line.partition(":")[0]: i for i, line in enumerate(code) if line.startswith(".LBB")}
    back = [(labels[t], i) for i, line in enumerate(code) for t in re.findall(r"\.LBB\w+$", line) if labels[t] <= i]
    return any(line.startswith(instruction) for first, last in back for line in code[first:last])
