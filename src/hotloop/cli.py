"""The command line. Every option of the config is a flag by its path; errors are one line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from hotloop.core.errors import UserError, unknown
from hotloop.core.options import shown
from hotloop.usage import HELP, USAGE


def main(argv: Sequence[str] | None = None) -> None:
    """Exit codes: 0 done, 2 a request that cannot be met (one line on stderr), 3 nobody is left who collects, 130/143
    stopped by a signal."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        sys.exit(run(args))
    except UserError as error:
        print(f"hotloop: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except MemoryError as why:
        print(f"hotloop: out of memory: {' '.join(str(why).split())}; lower lanes, sizes or capacity", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # outside the loop, where there is nothing to save
        print("hotloop: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def run(args: list[str]) -> int:
    verbs: dict[str, Callable[[list[str]], int]] = {
        "train": _train, "resume": _resume, "eval": _eval, "play": _play, "doctor": _doctor,
        "tune-system": _tune_system, "report": _report, "compare": _compare, "search": _search, "bench": _bench,
        "list": _list,
    }  # fmt: skip
    if not args or args[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if args[0] in ("-V", "--version"):
        from hotloop import __version__

        print(f"hotloop {__version__}")
        return 0
    verb, rest = args[0], args[1:]
    if verb not in verbs:
        raise unknown("command", verb, verbs)
    if verb != "train" and ("--help" in rest or "-h" in rest):
        print(HELP[verb])
        return 0
    return verbs[verb](rest)


# --- the verbs -------------------------------------------------------------------------------------------------------


def _train(args: list[str]) -> int:
    if args and args[0] in ("--help", "-h"):
        from hotloop.help import options_help

        print(HELP["train"] + "\n" + options_help("cartpole", "default", {}))
        return 0
    workload, flags = _positional(args, "train", "WORKLOAD")
    own = {"run": None, "preset": "default", "config": None, "quiet": False, "json": False, "help": False, "seeds": "1"}
    own = _take(flags, own)
    layers = [*_file(own["config"]), _nested(flags)]
    from hotloop import api  # torch takes seconds to import: not before what can be refused without it
    from hotloop.run import RunFolder

    if own["help"]:
        from hotloop.help import options_help

        print(HELP["train"] + "\n" + options_help(workload, own["preset"], *layers))
        return 0
    config = api.configure(workload, own["preset"], *layers)
    path, count = Path(own["run"]) if own["run"] else None, _count(own, "seeds")
    if count > 1:
        from hotloop import seeds

        return _run(seeds.spread(config, count), seeds.SeedsFolder.create(path, config, count), own)
    return _run(config, RunFolder.create(path, config.workload, config.seed), own)


def _resume(args: list[str]) -> int:
    path, flags = _positional(args, "resume", "RUN")
    own = _take(flags, {"quiet": False, "json": False, "env-steps": None})
    _nothing_left(flags, ["quiet", "json", "env-steps"])
    from hotloop.run import RunFolder

    more = {"total_env_steps": own["env-steps"]} if own["env-steps"] else {}
    if (Path(path) / "seeds.json").is_file():
        from hotloop import seeds

        together = seeds.SeedsFolder.open(Path(path))
        return _run(together.configs(more), together, own, resume=True)
    folder = RunFolder.open(Path(path)).lock()
    from hotloop.config import resolve

    return _run(resolve(folder.read_config(), more), folder, own, resume=True)


def _run(config: Any, folder: Any, own: dict[str, Any], resume: bool = False) -> int:
    from hotloop import api
    from hotloop.report.console import display

    start = api.start_seeds if isinstance(config, list) else api.start
    summary = start(config, folder, display(own["quiet"], own["json"]), resume)
    if own["json"]:
        from hotloop.run import strict_json

        print(strict_json(summary), flush=True)
    return 128 + summary["stopped_by_signal"] if summary["stopped_by_signal"] else 0


def _eval(args: list[str]) -> int:
    path, flags = _positional(args, "eval", "RUN")
    own = _take(flags, {"episodes": "100", "seed": "0", "render": False, "json": False})
    _nothing_left(flags, list(own))
    from hotloop.run import RunFolder

    RunFolder.open(Path(path))
    from hotloop import playing

    return playing.evaluate_run(path, _count(own, "episodes"), _count(own, "seed", 0), own["render"], own["json"])


def _play(args: list[str]) -> int:
    workload, flags = _positional(args, "play", "WORKLOAD")
    own = _take(flags, {"policy": None, "episodes": "100", "seed": "0", "render": False, "gif": None, "json": False})
    nested = _nested(flags)
    _nothing_left({k: "" for k in nested if k != "env"}, [*own, "env.*"])
    if own["policy"] is None:
        raise UserError("play needs --policy random, heuristic or the folder of a run")
    from hotloop import playing

    return playing.play_workload(
        workload, nested.get("env", {}), own["policy"], _count(own, "episodes"), _count(own, "seed", 0),
        own["render"], own["gif"], own["json"],
    )  # fmt: skip


def _doctor(args: list[str]) -> int:
    if args and args[0].endswith(".py"):
        return _doctor_of_script(args)
    workload, flags = _positional(args, "doctor", "WORKLOAD or a script.py")
    own = {"preset": "default", "config": None, "json": False, "only": "", "rounds": "7", "seconds": "0.5"}
    own = _take(flags, {**own, "trace": "hotloop-doctor-trace.json", "cprofile": None, "torch-profile": None})
    layers = [*_file(own["config"]), _nested(flags)]
    from hotloop import api
    from hotloop.doctor.own import commands

    return commands.doctor(
        api.configure(workload, own["preset"], *layers), [n for n in own["only"].split(",") if n],
        _count(own, "rounds"), _number(own, "seconds"), own["trace"], own["cprofile"], own["torch-profile"],
        own["json"],
    )  # fmt: skip


def _doctor_of_script(args: list[str]) -> int:
    cut = args.index("--") if "--" in args else len(args)
    flags = _flags(args[1:cut])
    own = _take(flags, {"duration": "30", "python": None, "json": False, "html": None})
    _nothing_left(flags, list(own))
    from hotloop.doctor import script

    return script.examine(
        args[0], args[cut + 1 :], duration_s=_number(own, "duration"), as_json=own["json"], html=own["html"],
        python=own["python"],
    )  # fmt: skip


def _tune_system(args: list[str]) -> int:
    workload, flags = _positional(args, "tune-system", "WORKLOAD")
    own = _take(flags, {"preset": "default", "config": None, "out": None, "rounds": "7", "seconds": "0.5"})
    layers = [*_file(own["config"]), _nested(flags)]
    from hotloop import api
    from hotloop.doctor.own import commands

    out = own["out"] or f"tuned-{workload.replace('/', '-').replace(':', '-')}.toml"
    config = api.configure(workload, own["preset"], *layers)
    return commands.tune_system(config, _count(own, "rounds"), _number(own, "seconds"), out)


def _report(args: list[str]) -> int:
    runs = list(takewhile(lambda word: not word.startswith("--"), args))
    flags = _flags(args[len(runs) :])
    own = _take(flags, {"out": None})
    _nothing_left(flags, list(own))
    if not runs:
        raise UserError("report needs a RUN: hotloop report RUN [RUN …] (hotloop report --help)")
    from hotloop.report import html

    print(html.write([Path(run) for run in runs], Path(own["out"]) if own["out"] else None))
    return 0


def _compare(args: list[str]) -> int:
    runs = list(takewhile(lambda word: not word.startswith("--"), args))
    flags = _flags(args[len(runs) :])
    own = _take(flags, {"threshold": None, "measure": "return", "html": None, "json": False})
    _nothing_left(flags, list(own))
    if not runs:
        raise UserError("compare needs the folders of runs: hotloop compare RUN [RUN …] (hotloop compare --help)")
    threshold = None if own["threshold"] is None else _real(own, "threshold")
    from hotloop.report import compare, html, telling

    read, skipped = compare.collect([Path(run) for run in runs])
    found = compare.compare(read, own["measure"], threshold)
    if own["html"]:
        html.put(html.page(read, {c.workload: telling.section(c) for c in found}), Path(own["html"]), "--html")
    if own["json"]:
        from hotloop.run import strict_json

        print(strict_json({"comparisons": [asdict(c) for c in found], "skipped": skipped}))
    else:
        print("\n\n\n".join("\n".join(telling.lines(c)) for c in found))
        print("\n".join([f"skipped: {line}" for line in skipped] + ([own["html"]] if own["html"] else [])))
    return 0


def _bench(args: list[str]) -> int:
    names = list(takewhile(lambda word: not word.startswith("--"), args))
    own = _take(flags := _flags(args[len(names) :]), {"quick": False, "all": False})
    _nothing_left(flags, list(own))
    script = Path(__file__).resolve().parents[2] / "bench" / "run.py"
    if not script.exists():
        raise UserError("bench: results and benchmarks are not installed; clone the repository and call it there")
    known = sorted(f.stem for f in (script.parent / "stages").glob("[!_]*.py"))
    for name in names:
        if name not in known:
            raise unknown("stage", name, known)
    words = ["--only", *names] if names else ["--all"] if own["all"] else []
    words += ["--quick"] if own["quick"] else []
    return subprocess.run([sys.executable, script, *(words or ["--show"])]).returncode


def _search(args: list[str]) -> int:
    workload, flags = _positional(args, "search", "WORKLOAD")
    own = {"preset": "default", "config": None, "trials": "20", "seeds": "3", "minutes": None, "measure": "return"}
    own = _take(flags, {**own, "vary": None, "out": None})
    layers = [*_file(own["config"]), _nested(flags)]
    trials, seeds = _count(own, "trials"), _count(own, "seeds")
    minutes = None if own["minutes"] is None else _number(own, "minutes")
    from hotloop import api, search

    out = own["out"] or f"found-{workload.replace('/', '-').replace(':', '-')}.toml"
    config = api.configure(workload, own["preset"], *layers)
    return search.command(
        config, own["preset"], own["vary"], trials, seeds, minutes, own["measure"], Path(out)
    )  # fmt: skip


def _list(args: list[str]) -> int:
    own = _take(flags := _flags(args), {"json": False})
    _nothing_left(flags, list(own))
    from hotloop.help import catalogue

    found = catalogue()
    if own["json"]:
        print(json.dumps(found))
        return 0
    for kind, names in found.items():
        print(kind)
        for name, what in names.items():
            print(f"  {name:<18} {what}".rstrip())
    return 0


# --- words → values --------------------------------------------------------------------------------------------------

SHORT = {
    "env-steps": "total-env-steps",
    "variant": "variant.name",
    "sampler": "sampler.name",
    "network": "network.name",
    "head": "network.head",
}


def _positional(args: list[str], verb: str, name: str) -> tuple[str, dict[str, str | bool]]:
    if not args or args[0].startswith("-"):
        raise UserError(f"{verb} needs a {name}: hotloop {verb} {name} (hotloop {verb} --help)")
    return args[0], _flags(args[1:])


def _flags(args: list[str]) -> dict[str, str | bool]:
    """--a.b-c value, --a.b-c=value and --flag -> {"a.b-c": value or True}"""
    out: dict[str, str | bool] = {}
    i = 0
    while i < len(args):
        word = args[i]
        if not word.startswith("--"):
            if word == "-h":
                word = "--help"
            else:
                raise UserError(f"unexpected word {word!r}; options start with -- (hotloop --help)")
        name, equals, value = word[2:].partition("=")
        if equals:
            out[name] = value
        elif i + 1 < len(args) and not args[i + 1].startswith("--"):
            out[name] = args[i + 1]
            i += 1
        else:
            out[name] = True
        i += 1
    return out


def _take(flags: dict[str, str | bool], defaults: dict[str, Any]) -> dict[str, Any]:
    """Move the flags of the command itself out of `flags`."""
    out = dict(defaults)
    for name, default in defaults.items():
        key = name if name in flags else name.replace("-", "_")
        if key in flags:
            value = flags.pop(key)
            if isinstance(default, bool) and value is not True:
                raise UserError(f"--{name} takes no value; got {value!r}")
            if not isinstance(default, bool) and value is True:
                raise UserError(f"--{name} needs a value")
            out[name] = value
    return out


def _nested(flags: dict[str, str | bool]) -> dict[str, Any]:
    """Flags by path -> nested mappings, as from_dict takes them."""
    out: dict[str, Any] = {}
    for flag, value in flags.items():
        path = SHORT.get(flag.replace("_", "-"), flag)
        if path.startswith("no-") and value is True:
            path, value = path[3:], "false"
        *groups, last = path.replace("-", "_").split(".")
        here = out
        for group in groups:
            here = here.setdefault(group, {})
            if not isinstance(here, dict):
                raise UserError(f"--{flag}: {group} is given twice, as a value and as a group")
        here[last] = "true" if value is True else value
    return out


def _nothing_left(flags: dict[str, Any], known: list[str]) -> None:
    for name in flags:
        raise unknown("option", f"--{name}", [f"--{k}" for k in known])


def _count(own: dict[str, Any], name: str, least: int = 1) -> int:
    try:
        value = int(own[name])
    except ValueError:
        raise UserError(f"--{name} {shown(own[name])}: expected a whole number") from None
    if value < least:
        raise UserError(f"--{name} {value}: must be at least {least}")
    if value >= 2**63:
        raise UserError(f"--{name} {value}: must be below 2^63")
    return value


def _number(own: dict[str, Any], name: str) -> float:
    try:
        value = float(own[name])
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf:
        raise UserError(f"--{name} {shown(own[name])}: expected a number above 0")
    return value


def _real(own: dict[str, Any], name: str) -> float:
    try:
        value = float(own[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"--{name} {shown(own[name])}: expected a number")
    return value


def _file(path: str | None) -> list[dict[str, Any]]:
    """The options of a TOML file, as a layer."""
    if path is None:
        return []
    try:
        return [tomllib.loads(Path(path).read_text("utf-8"))]
    except OSError as why:
        raise UserError(f"--config {path}: {why.strerror}") from None
    except (ValueError, RecursionError) as why:
        raise UserError(f"--config {path}: not TOML: {' '.join(str(why).split())}") from None
