"""The speed gate: is this commit slower than the baseline? Parts of the hot loop, timed in turns with the same parts
of the commit that bench/baseline.txt names, in processes of their own; fails where a loss above 10 % is beyond doubt.

    python bench/gate.py [--only PART …] [--base COMMIT]     exit code 1: slower
    python bench/gate.py --plant PART=1.25                   with a loss planted: must fail

A deliberate loss is accepted by naming a newer commit in bench/baseline.txt, with the reason in LOG.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measure import ROOT, Peer, interleaved, interval, ratios

BASELINE = ROOT / "bench" / "baseline.txt"
ALLOWED = 1.10  # times the baseline's time
ROUNDS, MOST_ROUNDS = 15, 60  # more where the interval does not yet decide


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PART", choices=parts(), help="; ".join(parts()))
    parser.add_argument("--base", default=BASELINE.read_text().split()[0], help="commit to compare with")
    parser.add_argument("--plant", metavar="PART=TIMES", default="", help="make a part so many times as slow")
    args = parser.parse_args()
    planted, _, times = args.plant.partition("=")
    with checked_out(args.base) as tree, Peer("part", tree=tree) as base, Peer("part") as head:
        print(f"speed against {args.base[:10]}: time of this tree / time of that one, 95 % interval", flush=True)
        slower = []
        for part in args.only or parts():
            asked = [s.ask("make", part=part).get("ready", False) for s in (base, head)]
            if not all(asked):
                print(f"  {part:<12} not in the baseline: nothing to compare", flush=True)
                continue
            found = compared(base, head, part, float(times) if part == planted else 1.0)
            low, high = interval(found)
            if slow := low > ALLOWED:
                slower.append(part)
            middle = sorted(found)[len(found) // 2]
            print(f"  {part:<12} {middle:.3f} [{low:.3f}, {high:.3f}]{' SLOWER' if slow else ''}", flush=True)
    if slower:
        print(f"slower by more than {ALLOWED - 1:.0%}, beyond doubt: {', '.join(slower)}")
    return int(bool(slower))


def parts() -> list[str]:
    """Names of the files in bench/parts."""
    return sorted(f.stem for f in (ROOT / "bench" / "parts").glob("*.py") if not f.stem.startswith("_"))


def compared(base: Peer, head: Peer, part: str, planted: float) -> tuple[float, ...]:
    """One ratio per round; rounds until the interval lies on one side of what is allowed, or there were enough."""
    sides = {
        "base": lambda: base.ask("work", part=part)["seconds"],
        "head": lambda: planted * head.ask("work", part=part)["seconds"],
    }
    interleaved(sides, 2)  # caches and the clock of the CPU
    found: tuple[float, ...] = ()
    while len(found) < MOST_ROUNDS and not (found and decided(found)):
        times = interleaved(sides, ROUNDS)
        found += ratios(times["head"], times["base"])
    return found


def decided(found: Sequence[float]) -> bool:
    low, high = interval(found)
    return high <= ALLOWED or low > ALLOWED


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="hotloop-gate-") as folder:
        tree = Path(folder) / "tree"
        added = subprocess.run(
            ["git", "worktree", "add", "--detach", "--quiet", str(tree), commit],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if added.returncode:
            raise SystemExit(f"the baseline {commit} is not to be had: {added.stderr.strip()}; fetch the whole history")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)


if __name__ == "__main__":
    sys.exit(main())
