"""What can be changed in a script while it runs, without editing it: `REMEDIES[name](doctor, settings)` gives what
switches it on and what switches it off. Nothing of it acts while the probes record."""

from __future__ import annotations

import gc
import sys
from collections import deque
from typing import Any, Callable

from . import forwards
from .probing import getframe

Switch = Callable[[], Any]
HELD = 256  # results of the environment that are played again


def nothing(*args: Any, **kwargs: Any) -> None:
    return None


def calls_instead(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """Calls of these kinds do nothing: prints, log records, sleeps, saves."""
    instead = doctor.rec.instead
    kinds = settings["what"]

    def off() -> None:
        for kind in kinds:
            instead.pop(kind, None)

    return lambda: instead.update(dict.fromkeys(kinds, nothing)), off


def plain_text(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """A tensor's text is one word."""
    instead = doctor.rec.instead

    def word(tensor: Any, form: str = "", **kwargs: Any) -> str:
        return "tensor"

    return lambda: instead.update({"format": word}), lambda: instead.pop("format", None)


def one_thread(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    return lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(before)


def no_gc(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    return gc.disable, gc.enable


def no_anomaly(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    autograd = sys.modules["torch"].autograd
    return lambda: autograd.set_detect_anomaly(False) and None, lambda: autograd.set_detect_anomaly(True) and None


def fused_optimizer(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    def groups() -> list[dict[str, Any]]:
        return [group for optimizer in doctor.optimizers for group in optimizer.param_groups if "fused" in group]

    before = [(group.get("fused"), group.get("foreach")) for group in groups()]

    def on() -> None:
        for group in groups():
            group["fused"], group["foreach"] = True, None

    def off() -> None:
        for group, (fused, foreach) in zip(groups(), before):
            group["fused"], group["foreach"] = fused, foreach

    return on, off


def no_optimizer(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """Updates without their last part: what the cheapest optimizer there can be would give."""
    real = doctor.optimize_instead

    def on() -> None:
        doctor.optimize_instead = nothing

    def off() -> None:
        doctor.optimize_instead = real

    return on, off


def canned_env(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """Steps and resets are answered with what earlier ones gave, in turn."""
    held: dict[str, deque[Any]] = {"step": deque(maxlen=HELD), "reset": deque(maxlen=HELD)}
    canned = [False]

    def answer(kind: str) -> Callable[..., Any]:
        results = held[kind]

        def instead(real: Any, args: Any, kwargs: Any) -> Any:
            if canned[0] and results:
                results.rotate(-1)
                return results[-1]
            out = real(*args, **kwargs)
            results.append(out)
            return out

        return instead

    doctor.step_instead, doctor.reset_instead = answer("step"), answer("reset")
    return lambda: canned.__setitem__(0, True), lambda: canned.__setitem__(0, False)


def no_grad(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """Forwards from one line build no graph."""
    torch = sys.modules["torch"]
    file, line, real = settings["file"], settings["line"], doctor.forward_instead

    def instead(real: Any, module: Any, args: Any, kwargs: Any) -> Any:
        frame = getframe(2)
        if frame.f_lineno != line or frame.f_code.co_filename != file:
            return real(module, *args, **kwargs)
        with torch.no_grad():
            return real(module, *args, **kwargs)

    def on() -> None:
        doctor.forward_instead = instead

    def off() -> None:
        doctor.forward_instead = real

    return on, off


def kept_forwards(doctor: Any, settings: dict[str, Any]) -> tuple[Switch, Switch]:
    """A forward without gradients, of the input and weights of the module's last one, gives that one's result."""
    torch, before = sys.modules["torch"], doctor.forward_instead
    last: dict[int, tuple[Any, Any, Any, int, int]] = {}
    params: dict[int, list[Any]] = {}

    def instead(real: Any, module: Any, args: Any, kwargs: Any) -> Any:
        given = forwards.first_tensor(args)
        if given is None or torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return real(module, *args, **kwargs)
        i = id(module)
        state = forwards.version(params.get(i) or params.setdefault(i, list(module.parameters())))
        was = last.get(i)
        if was is not None and forwards.same(was[:4], given, state) and was[2]._version == was[4]:
            return was[2]
        out = real(module, *args, **kwargs)
        if hasattr(out, "_version"):
            last[i] = (given, given._version, out, state, out._version)
        return out

    def on() -> None:
        doctor.forward_instead = instead

    def off() -> None:
        doctor.forward_instead = before
        last.clear()

    return on, off


REMEDIES: dict[str, Callable[[Any, dict[str, Any]], tuple[Switch, Switch]]] = {
    "skip_calls": calls_instead,
    "plain_text": plain_text,
    "one_thread": one_thread,
    "no_gc": no_gc,
    "no_anomaly": no_anomaly,
    "fused_optimizer": fused_optimizer,
    "no_optimizer": no_optimizer,
    "canned_env": canned_env,
    "no_grad": no_grad,
    "kept_forwards": kept_forwards,
}
