"""What there is to choose from, written out from the parts themselves."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hotloop.core import discover
from hotloop.core.options import type_of


def catalogue() -> dict[str, dict[str, str]]:
    """kind -> name -> one line"""
    from hotloop import presets
    from hotloop.envs._world import native_names
    from hotloop.networks._heads import HEADS

    def first_line(package: str, name: str) -> str:
        return (discover.load(package, name).__doc__ or "").strip().splitlines()[0]

    worlds = {
        name: f"{first_line('hotloop.envs', name)} Presets: {', '.join(presets.presets_of(name))}"
        for name in native_names()
    }
    files = discover.names("hotloop.presets")
    worlds["any Gymnasium id"] = "CartPole-v1, LunarLander-v3, … with discrete actions; or module:factory"
    return {
        "worlds": worlds,
        "networks": {n: first_line("hotloop.networks", n) for n in discover.names("hotloop.networks")},
        "heads": {n: (h.__doc__ or "").strip().splitlines()[0] for n, h in HEADS.items()},
        "variants": {
            n: first_line("hotloop.learn.variants", n) for n in discover.names("hotloop.learn.variants")
        },
        "preset files": dict.fromkeys(files, ""),
    }


def options_help(workload: str, preset: str, *layers: Mapping[str, Any]) -> str:
    """Every option as a flag, with the value this workload gets and its line of help."""
    from hotloop import api

    config = api.configure(workload, preset, *layers)
    lines = [f"options of {workload}, with the values of this command:"]
    world = config.world()
    lines += _rows("", config, skip=("workload", "env", "network", "variant"))
    lines += _rows("env.", world.options, skip=())
    for group, package in (("network", "hotloop.networks"), ("variant", "hotloop.learn.variants")):
        named = getattr(config, group)
        if ":" not in named["name"]:
            options = discover.load(package, named["name"]).Options
            lines += _class_rows(f"{group}.", options, named)
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
