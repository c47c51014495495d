"""What a script says while it trains: prints, log records, scalars for a dashboard, progress bars. The last words of
each line of the script are kept, since many print a speed of their own."""

from __future__ import annotations

import builtins
import os
from typing import Any

from ..probing import Caller, like, timed

LONGEST = 200
WRITERS = {"SummaryWriter": ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_text", "flush")}
BARS = {"tqdm": ("update", "set_postfix", "set_postfix_str", "set_description", "refresh", "display")}
SPEEDS = ("sps", "fps", "per_sec", "/s", "per sec")


def install(doctor: Any) -> None:
    rec = doctor.rec
    caller = Caller(rec)
    doctor.patches.put(builtins, "print", spoken(rec, "print", builtins.print, caller, joined))
    doctor.watch.after("logging", lambda logging: records(doctor, logging))

    def look_at(cls: type) -> None:
        names = WRITERS.get(cls.__name__) or BARS.get(cls.__name__, ())
        if cls.__module__ == "stable_baselines3.common.logger" and cls.__name__ == "Logger":
            names = ("record", "record_mean", "dump")
        for name in names:
            if name in cls.__dict__:
                probe = spoken(rec, "bar" if cls.__name__ in BARS else "dashboard", cls.__dict__[name], caller, scalar)
                doctor.patches.put(cls, name, probe)

    doctor.after_class(look_at)
    doctor.watch.after("wandb", lambda wandb: wandb_log(doctor, wandb, caller))


def records(doctor: Any, logging: Any) -> None:
    caller = Caller(doctor.rec, os.path.dirname(os.path.abspath(logging.__file__)) + os.sep)
    Logger = logging.Logger
    doctor.patches.put(Logger, "handle", spoken(doctor.rec, "log", Logger.handle, caller, message))


def wandb_log(doctor: Any, wandb: Any, caller: Caller) -> None:
    doctor.patches.put(wandb, "log", timed(doctor.rec, "dashboard", wandb.log, caller))


def spoken(rec: Any, what: str, real: Any, caller: Caller, words: Any) -> Any:
    """`real`, timed; and once per window and line of the script, what it said."""
    probe = timed(rec, what, real, caller)

    def said(*args: Any, **kwargs: Any) -> Any:
        out = probe(*args, **kwargs)
        key = rec.latest
        if rec.on and key is not None and key not in rec.said and len(rec.said) < 64:
            text = words(args)
            if text:
                rec.said[key] = text[:LONGEST]
        return out

    return like(real, said)


def joined(args: tuple[Any, ...]) -> str:
    return " ".join(str(x) for x in args if isinstance(x, (str, int, float)))


def message(args: tuple[Any, ...]) -> str:
    record = args[1]
    return record.getMessage() if isinstance(record.msg, str) else ""


def scalar(args: tuple[Any, ...]) -> str:
    """Of a dashboard only what calls itself a speed."""
    if len(args) < 3 or not isinstance(args[1], str) or not any(s in args[1].lower() for s in SPEEDS):
        return ""
    return "{} {}".format(args[1], args[2])
