"""PyTorch: forward by module, rows and gradient mode; backward; optimizer; target copies; tensors that become text or
numbers on the host. Calls of modules within modules are one forward."""

from __future__ import annotations

import os
from typing import Any

from ..forwards import Forwards
from ..probing import Caller, forgiving, getframe, leave, like, timed, tiny
from ..recorder import ident, now
from ..targets import Targets

HOST = ("item", "cpu", "numpy", "tolist", "__float__", "__int__", "__bool__", "__index__", "__array__")


def install(doctor: Any) -> None:
    doctor.forwards = Forwards(doctor.rec)
    doctor.targets = Targets(doctor.rec, doctor.forwards)
    caller = Caller(doctor.rec)
    doctor.torch_caller = caller

    def look_at(cls: type) -> None:
        if cls.__module__ == "torch.nn.modules.module" and cls.__name__ == "Module":
            modules(doctor, cls)
        elif any(base.__name__ == "Optimizer" for base in cls.__mro__):
            optimizers(doctor, cls)

    doctor.after_class(look_at)
    doctor.watch.after("torch", lambda torch: tensors(doctor, torch))
    doctor.watch.after("torch.nn.utils", lambda utils: clipping(doctor, utils))


def torch_caller(doctor: Any, torch_file: str) -> Caller:
    """Past the frames of torch itself; one for all its probes."""
    return Caller(doctor.rec, os.path.dirname(os.path.abspath(torch_file)) + os.sep)


def modules(doctor: Any, cls: Any) -> None:
    rec, forwards = doctor.rec, doctor.forwards
    saw, rows_of, number_of = (
        forgiving(rec, forwards.saw), forgiving(rec, forwards.rows, 0), forgiving(rec, forwards.number, -1),
    )  # fmt: skip
    real = cls.__call__
    import torch._C as C  # imported by torch before it defines any module

    grad_enabled = C.is_grad_enabled if hasattr(C, "is_grad_enabled") else lambda: True

    compiled, inside = doctor.compiled, [0]  # inside: the thread that is within a forward

    def probe(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiled and doctor.compiling():  # first: a compiler that traces through this sees the call and nothing else
            return real(self, *args, **kwargs)
        if inside[0] == ident():  # most calls: modules within modules
            return real(self, *args, **kwargs)
        track = rec.tracks.get(ident()) or rec.track()
        if track.module_depth:
            return real(self, *args, **kwargs)
        number = number_of(self)
        if number < 0:  # nothing to learn in it: a loss, an activation
            return real(self, *args, **kwargs)
        if not rec.on:
            track.module_depth = 1
            try:
                return doctor.forward_instead(real, self, args, kwargs)
            finally:
                track.module_depth = 0
        track.module_depth = 1
        inside[0] = ident()
        began, frame = now(), getframe(1)
        rows, first, grad = rows_of(number, args, kwargs), forwards.tensor, grad_enabled()
        key = ("forward", track.index, rec.code(frame.f_code), frame.f_lasti, number, rows, grad)
        entry = [key, 0]
        active = track.active
        active.append(entry)
        at, out = now(), None
        rec.lost = lost = rec.lost + at - began
        try:
            out = real(self, *args, **kwargs)
            return out
        finally:
            track.module_depth = inside[0] = 0
            leave(rec, active, entry, at, lost)
            done = now()
            saw(key, self, first, out)
            rec.lost += now() - done

    doctor.patches.put(cls, "__call__", like(real, probe))
    doctor.patches.put(cls, "load_state_dict", timed(rec, "target copy", cls.load_state_dict, Caller(rec)))


def optimizers(doctor: Any, cls: Any) -> None:
    rec = doctor.rec
    import torch

    caller = torch_caller(doctor, torch.__file__ or "")
    own = cls.__dict__
    if "zero_grad" in own:
        doctor.patches.put(cls, "zero_grad", timed(rec, "zero grad", own["zero_grad"], caller))
    if "step" not in own or cls.__name__ == "Optimizer":
        return
    real = own["step"]
    numbers: dict[int, int] = {}
    described, updated = forgiving(rec, describe, -1), forgiving(rec, doctor.targets.after_update)

    def probe(self: Any, *args: Any, **kwargs: Any) -> Any:
        if doctor.boundary is not None and not rec.env_calls:
            doctor.boundary()
        if not rec.on:
            if id(self) not in numbers:
                numbers[id(self)] = len(numbers)
                doctor.optimizers.append(self)
            out = doctor.optimize_instead(real, self, args, kwargs)
            rec.updates += 1
            return out
        began = now()
        track = rec.tracks.get(ident()) or rec.track()
        number = numbers.get(id(self))
        if number is None:
            number = numbers[id(self)] = described(doctor, self, len(numbers), torch)
        entry = [("optimizer", track.index, *caller(getframe(1)), number), 0]
        track.active.append(entry)
        at = now()
        rec.lost = lost = rec.lost + at - began
        try:
            return real(self, *args, **kwargs)
        finally:
            leave(rec, track.active, entry, at, lost)
            rec.updates += 1
            done = now()
            updated()
            rec.lost += now() - done

    doctor.patches.put(cls, "step", like(real, probe), stays=True)


def describe(doctor: Any, optimizer: Any, number: int, torch: Any) -> int:
    doctor.optimizers.append(optimizer)
    group = optimizer.param_groups[0]
    settings = {k: v for k, v in group.items() if isinstance(v, (int, float, str, type(None)))}
    params = [p for g in optimizer.param_groups for p in g["params"]]
    doctor.rec.row(
        "optimizer", number, type(optimizer).__name__, settings, len(params), sum(p.numel() for p in params),
        sorted({str(p.device) for p in params}), sorted({str(p.dtype) for p in params}), torch.get_num_threads(),
    )  # fmt: skip
    return number


def tensors(doctor: Any, torch: Any) -> None:
    rec, patches = doctor.rec, doctor.patches
    caller = torch_caller(doctor, torch.__file__)
    doctor.forwards.torch = torch
    compiler = getattr(torch, "compiler", None)
    doctor.compiling = getattr(compiler, "is_compiling", doctor.compiling)
    rec.row("library", "torch", str(torch.__version__))
    Tensor = torch.Tensor
    for name in HOST:
        if hasattr(Tensor, name):
            patches.put(Tensor, name, tiny(rec, name, getattr(Tensor, name), caller), tiny=True)
    patches.put(Tensor, "__repr__", timed(rec, "format", Tensor.__repr__, caller))  # __format__ calls it too
    patches.put(torch, "save", timed(rec, "save", torch.save, caller))
    backward = timed(rec, "backward", torch.autograd.backward, caller)

    checked = getattr(torch, "is_anomaly_enabled", lambda: False)
    learnt = forgiving(rec, doctor.forwards.learnt)
    events: set[str] = set()

    def counted(*args: Any, **kwargs: Any) -> Any:
        if rec.on:
            learnt()
            if not events and checked():
                events.add("anomaly detection")
                rec.row("event", "anomaly detection", now() - rec.began)
        return backward(*args, **kwargs)

    patches.put(torch.autograd, "backward", like(torch.autograd.backward, counted))
    if hasattr(torch, "compile"):
        patches.put(torch, "compile", noticed(rec, "torch.compile", torch.compile, doctor.compiled))


def noticed(rec: Any, what: str, real: Any, seen: list[bool]) -> Any:
    """`real`, and a row that it was called."""

    def probe(*args: Any, **kwargs: Any) -> Any:
        rec.row("event", what, now() - rec.began)
        seen[:] = [True]
        return real(*args, **kwargs)

    return like(real, probe)


def clipping(doctor: Any, utils: Any) -> None:
    caller = torch_caller(doctor, os.path.dirname(os.path.dirname(utils.__file__)))
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        if hasattr(utils, name):
            doctor.patches.put(utils, name, timed(doctor.rec, "clip", getattr(utils, name), caller))
