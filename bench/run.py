"""Runs the stages, each in a fresh process, prints their table, and keeps what they found as JSON.

python bench/run.py [--only NAME … | --all] [--quick] [--out FILE]
python bench/run.py --table     the Markdown table of the results that are kept
python bench/run.py --setup     make the rivals' environments"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measure import ROOT, Neighbours, facts

BENCH = ROOT / "bench"
RESULTS = BENCH / "results"
QUICK = BENCH / ".quick"  # not kept: short repeats show that a stage runs, not how fast anything is
_LONG = re.compile(r"^LONG = True$|^LONG = True ", re.MULTILINE)  # read, not imported: a list must cost nothing
BUSY = 0.1  # cores kept busy by others, above which a result is marked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=stages(), help="; ".join(stages()))
    parser.add_argument("--all", action="store_true", help="the long stages too")
    parser.add_argument("--quick", action="store_true", help="that everything runs, in 3 minutes; keeps nothing")
    parser.add_argument("--out", type=Path, help="also write all results of this run into one file")
    parser.add_argument(
        "--table", action="store_true", help="Markdown from the results that are kept; measures nothing"
    )
    parser.add_argument("--show", action="store_true", help="the same for the terminal")
    parser.add_argument("--setup", action="store_true", help="make the rivals' environments")
    args = parser.parse_args()
    if args.table:
        print(markdown(kept()))
        return 0
    if args.show:
        for result in kept():
            print(text(result))
        return 0
    if args.setup:
        return setup()
    results, failed = [], []
    for name in args.only or (stages() if args.all else usual()):
        result = measured(name, args.quick)
        if result is None:
            failed.append(name)
            continue
        results.append(result)
        print(text(result), flush=True)
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    missed = [r["name"] for r in results if any(row["verdict"] == "MISSED" for row in r["rows"])]
    absent = [r["name"] for r in results if any(row["verdict"] == "NOT MEASURED" for row in r["rows"])]
    for what, names in (("failed", failed), ("below must", missed), ("a rival could not be measured", absent)):
        if names:
            print(f"{what}: {', '.join(names)}")
    return 1 if failed or (missed and not args.quick) else 0


def stages() -> list[str]:
    """Names of the files in bench/stages."""
    return sorted(f.stem for f in (BENCH / "stages").glob("*.py") if not f.stem.startswith("_"))


def usual() -> list[str]:
    """Those that run unasked: not the ones whose file says that they are LONG."""
    return [name for name in stages() if not _LONG.search((BENCH / "stages" / f"{name}.py").read_text())]


def measured(name: str, quick: bool) -> dict[str, Any] | None:
    """Run one stage and keep its result. None, with its complaint on stderr, where it did not come to an end."""
    words = [name, *(["--quick"] if quick else [])]
    print(f"{name} …", file=sys.stderr, flush=True)
    origin, began = facts(), time.perf_counter()
    with Neighbours() as neighbours:
        done = subprocess.run(
            [sys.executable, "-m", f"bench.stages.{words[0]}", *words[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
    if done.returncode:
        return None
    result = {
        "name": name,
        "command": " ".join(["python bench/run.py --only", *words]),
        "quick": quick,
        **origin,
        "seconds": round(time.perf_counter() - began, 1),
        "cores_busy_with_others": neighbours.cores,
        **json.loads(done.stdout.splitlines()[-1]),
    }
    folder = QUICK if quick else RESULTS
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def kept() -> list[dict[str, Any]]:
    """The committed results, in the order of the stages."""
    return [json.loads(f.read_text()) for f in sorted(RESULTS.glob("*.json"))]


# --- tables ----------------------------------------------------------------------------------------------------------

HEAD = ("what", "measured (median [95 % interval])", "samples per step", "must", "aim", "verdict")


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """One row of a result as the columns of HEAD."""
    n = len(row["values"])
    span = " [{}, {}]".format(*map(figure, row["interval"])) if n > 1 else ""
    middle = "" if row.get("middle", "median") == "median" else f", {row['middle']}"
    value = f"{figure(row['median'])}{span} {row['unit']}{middle}, n={n}" if n else ""
    what = f"{row['what']} ({row['note']})" if row["note"] else row["what"]
    sign = "≥" if row["better"] == "more" else "≤"
    bounds = ["" if row[k] is None else f"{sign} {figure(row[k])}" for k in ("must", "aim")]
    sampled = "" if row["samples_per_step"] is None else f"{row['samples_per_step']:g}"
    return (what, value, sampled, *bounds, row["verdict"])


def figure(value: float) -> str:
    """Three digits that count, or whole thousands with separators: 0.962, 12.3, 1,430, 2,140,000."""
    if value == 0 or abs(value) < 1e-4:
        return f"{value:.0f}" if value == 0 else f"{value:.1e}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def origin(result: Mapping[str, Any]) -> str:
    """Where a result comes from, in one line."""
    machine, versions = result["machine"], result["versions"]
    busy = result["cores_busy_with_others"]
    parts = [
        f"{result['date'][:10]}",
        f"commit {result['commit'][:10]}{' with changes' if result['dirty'] else ''}",
        f"{machine['cpu']}, {machine['cores']} cores",
        f"torch {versions['torch']}",
        result["command"],
    ]
    if busy is not None and busy > BUSY:
        parts.append(f"NOT A QUIET MACHINE: others kept {busy} cores busy")
    return " · ".join(parts)


def text(result: Mapping[str, Any]) -> str:
    """One stage for the terminal."""
    table = [HEAD, *(cells(row) for row in result["rows"])]
    wide = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip() for line in table]
    return "\n".join([f"\n{result['name']}  ({origin(result)}, {result['seconds']} s)", *lines])


def markdown(results: Iterable[Mapping[str, Any]]) -> str:
    """All results as one table, and where they come from below it."""
    lines = ["| stage | " + " | ".join(HEAD) + " |", "|---" * (len(HEAD) + 1) + "|"]
    notes = []
    for result in results:
        lines += [f"| `{result['name']}` | " + " | ".join(cells(row)) + " |" for row in result["rows"]]
        notes.append(f"- `{result['name']}`: {origin(result)}")
    return "\n".join([*lines, "", *notes])


# --- the rivals' environments ----------------------------------------------------------------------------------------


def setup() -> int:
    """One virtual environment per bench/peers/requirements-<rival>.txt."""
    failed = []
    for file in sorted((BENCH / "peers").glob("requirements-*.txt")):
        folder = BENCH / ".venvs" / file.stem.removeprefix("requirements-")
        print(f"{folder.relative_to(ROOT)} from {file.relative_to(ROOT)}", flush=True)
        if not (folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        # The requirements pin what counts, torch among it. Nothing is built: what has no wheel is reported as absent.
        done = subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", "-r", file],
            cwd=ROOT,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
        if done.returncode:
            shutil.rmtree(folder)
            failed.append(folder.name)
    if failed:
        print(f"could not be installed here, and will be reported as such: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
