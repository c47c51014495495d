"""What is known of each forward: its module, how many rows, whether it was then acted upon or learnt from, and whether
it computed again what had just been computed."""

from __future__ import annotations

from typing import Any

from .probing import forgiving
from .recorder import Recorder

PROVE_EVERY = 16  # of forwards that look like repeats, those whose outputs are compared
MACS_AT = 5  # the forward with gradients whose multiplications are counted


class Forwards:
    def __init__(self, rec: Recorder) -> None:
        self.rec = rec
        self.torch: Any = None
        self.tensor: Any = None  # the first one among the arguments that `rows` was asked about last
        self.modules: dict[int, tuple[int, Any]] = {}  # id -> (number, module); number -1 where it has no parameters
        self.batched: dict[tuple[int, int], bool] = {}  # (module, dimensions of its input) -> is the first one rows?
        self.pending: list[Any] = []  # forwards since the last env step or backward
        self.learning = -1  # the module whose gradients were last computed
        self.rows_learnt = 0
        self.last: dict[int, tuple[Any, Any, Any, int]] = {}  # module -> its last input, version, output, state
        self.repeats = 0
        self._params: dict[int, list[Any]] = {}
        self._macs: dict[int, int] = {}

    def number(self, module: Any) -> int:
        known = self.modules.get(id(module))
        if known is None:
            params = list(module.parameters())
            count = sum(p.numel() for p in params)
            taken = sum(number >= 0 for number, _ in self.modules.values())
            known = self.modules[id(module)] = (taken if params else -1, module)
            self._params[known[0]] = params
            if params:
                cls = type(module)
                self.rec.row(
                    "module", known[0], cls.__module__ + "." + cls.__qualname__, count, str(params[0].device),
                    str(params[0].dtype), len(params),
                )  # fmt: skip
        return known[0]

    def rows(self, number: int, args: Any, kwargs: Any) -> int:
        self.tensor = tensor = first_tensor(args) if args else first_tensor(tuple(kwargs.values()))
        if tensor is None:
            return 0
        shape = tensor.shape
        if self.batched.get((number, len(shape)), len(shape) > 1):
            return int(shape[0]) if len(shape) else 1
        return 1

    def saw(self, key: Any, module: Any, given: Any, out: Any) -> None:
        """After a forward. key: (what, track, code, lasti, module, rows, grad)."""
        number, grad = key[4], key[6]
        if len(self.pending) < 64:
            self.pending.append(key)
        result = out if hasattr(out, "data_ptr") else first_tensor((out,))
        if result is None or given is None:
            return
        kind = (number, len(given.shape))
        if kind not in self.batched:
            self.batched[kind] = len(result.shape) > 1 and len(given.shape) > 1 and result.shape[0] == given.shape[0]
        if grad and result.requires_grad:
            count = self._macs[number] = self._macs.get(number, 0) + 1
            if count == MACS_AT:
                count_macs(self.rec, number, module)
            return
        if is_untracked(given) or is_untracked(result):
            return
        state = version(self._params[number])
        before = self.last.get(number)
        self.last[number] = (given, given._version, result, state)
        if before is not None and same(before, given, state):
            self.repeats += 1
            again = ("repeat", *key[1:])
            counts = self.rec.counts
            counts[again] = counts.get(again, 0) + 1
            if self.repeats % PROVE_EVERY == 1:
                proof = ("repeat equal" if self.torch.equal(before[2], result) else "repeat differs", *key[1:])
                counts[proof] = counts.get(proof, 0) + 1

    def acted(self) -> None:
        """An env step: what was computed since the last one was for acting."""
        self._settle("for acting")

    def learnt(self) -> None:
        """A backward."""
        graded = [key for key in self.pending if key[6]]
        if graded:
            self.learning, self.rows_learnt = graded[-1][4], graded[-1][5]
        self.rec.trained_rows += self.rows_learnt
        self._settle("for learning")

    def _settle(self, what: str) -> None:
        if self.pending:
            counts = self.rec.counts
            for key in self.pending:
                settled = (what, *key[1:])
                counts[settled] = counts.get(settled, 0) + 1
            self.pending.clear()


def first_tensor(values: Any) -> Any | None:
    for value in values:
        if hasattr(value, "data_ptr"):
            return value
        if isinstance(value, dict):
            value = tuple(value.values())
        if isinstance(value, (tuple, list)):
            found = first_tensor(value)
            if found is not None:
                return found
    return None


def same(before: tuple[Any, Any, Any, int], given: Any, state: int) -> bool:
    """Whether a module got again what it was last given, and has not changed since. The last input is kept alive, so
    that its memory is not another tensor's."""
    last, was, _, weights = before
    if weights != state or was != given._version or last.shape != given.shape or last.dtype != given.dtype:
        return False
    return last is given or (last.data_ptr() == given.data_ptr() and last.stride() == given.stride())


def is_untracked(tensor: Any) -> bool:
    """Made in inference mode: nothing says whether it was written to."""
    return bool(getattr(tensor, "is_inference", bool)())


def version(params: list[Any]) -> int:
    """Changes with every write into a parameter that autograd can see; those it cannot see show in the proofs."""
    return sum([p._version for p in params])


def count_macs(rec: Recorder, number: int, module: Any) -> None:
    """Multiplications per row of the module's next forward, by its linear and convolutional parts."""
    found, handles = [0], []

    def hook(part: Any, given: Any, out: Any) -> None:
        weight = part.weight
        if len(weight.shape) >= 2 and hasattr(out, "numel"):
            found[0] += out.numel() // max(1, out.shape[0]) * weight[0].numel()

    def done(part: Any, given: Any, out: Any) -> None:
        for handle in handles:
            handle.remove()
        rec.row("macs", number, found[0])

    for part in module.modules():
        if hasattr(getattr(part, "weight", None), "data_ptr"):
            handles.append(part.register_forward_hook(forgiving(rec, hook)))
    handles.append(module.register_forward_hook(forgiving(rec, done)))
