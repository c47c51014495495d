"""What there is to choose from, written out from the parts themselves."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hotloop.core import discover
from hotloop.core.options import type_of


def catalogue() -> dict[str, dict[str, str]]:
    """kind -> name -> one line"""
    from hotloop import presets
    from hotloop.envs._world import own_names
    from hotloop.networks._heads import HEADS

    worlds = {
        name: f"{_about('hotloop.envs', name)}; presets: {', '.join(presets.presets_of(name))}" for name in own_names()
    }
    worlds["any Gymnasium id"] = "with discrete actions, such as CartPole-v1; or module:factory; presets: default"
    return {
        "worlds": worlds,
        "networks": {n: _about("hotloop.networks", n) for n in discover.names("hotloop.networks")},
        "heads": {n: _first_sentence(h.__doc__) for n, h in HEADS.items()},
        "variants": {n: _about("hotloop.learn.variants", n) for n in discover.names("hotloop.learn.variants")},
        "samplers": {n: _about("hotloop.replay.samplers", n) for n in discover.names("hotloop.replay.samplers")},
    }


def _about(package: str, name: str) -> str:
    return _first_sentence(discover.load(package, name).__doc__).removeprefix(f"{name}: ")


def _first_sentence(doc: str | None) -> str:
    """Up to the first full stop or semicolon that is not in brackets."""
    text = " ".join((doc or "").split())
    for end in re.finditer(r"(?<!et al)[.;] ", text):
        before = text[: end.start()]
        if before.count("(") == before.count(")"):
            return before
    return text.removesuffix(".")


def options_help(workload: str, preset: str, *layers: Mapping[str, Any]) -> str:
    """Every option as a flag, with the value this workload gets and its line of help."""
    from hotloop import api
    from hotloop.networks._heads import Options as HeadOptions

    config = api.configure(workload, preset, *layers)
    lines = [f"options of {workload}, with the values of this command:"]
    world = config.world()
    lines += _rows("", config, skip=("workload", "env", "network", "variant", "sampler"))
    lines += _rows("env.", world.options, skip=())
    for group, package in (
        ("network", "hotloop.networks"),
        ("variant", "hotloop.learn.variants"),
        ("sampler", "hotloop.replay.samplers"),
    ):
        named = getattr(config, group)
        if ":" not in named["name"]:
            options = discover.load(package, named["name"]).Options
            lines += _class_rows(f"{group}.", options, named)
        if group == "network":
            lines += _class_rows("network.", HeadOptions, named)
    return "\n".join(lines)


def _rows(prefix: str, options: Any, skip: tuple[str, ...]) -> list[str]:
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in skip}
    return _class_rows(prefix, type(options), values)


def _class_rows(prefix: str, cls: type, values: Mapping[str, Any]) -> list[str]:
    lines, groups = [], []
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name not in values:
            continue
        value = values[f.name]
        if is_dataclass(value):
            groups += ["", *_rows(f"{prefix}{f.name}.", value, ())]
            continue
        if isinstance(value, tuple | list):
            value = ",".join(map(str, value))
        kind = type_of(cls, f.name)
        choices = f" ({'|'.join(map(str, typing.get_args(kind)))})" if typing.get_origin(kind) is typing.Literal else ""
        flag = f"--{prefix}{f.name}".replace("_", "-")
        lines.append(f"  {flag + ' ' + str(value):<44} {f.metadata.get('help', '')}{choices}")
    return lines + groups
