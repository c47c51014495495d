"""A comparison as a person reads it: plain text with aligned columns, and a section of the HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotloop.report import tables
from hotloop.report.compare import Comparison, Curves, Pair, Side, Span, When
from hotloop.report.figures import NOTHING, shown

_MOST_OPTIONS = 8  # that differ, in text; the page shows all
_INTERVALS = "Intervals: 95 % bootstrap of the interquartile mean over seeds, widened for few of them."


def lines(found: Comparison) -> list[str]:
    """The whole comparison of one workload."""
    out = [f"{found.workload}: {found.score}"]
    for side in found.sides:
        out.append(f"  {side.mark}  {side.label or 'the only setting'}  ({_runs(side)})")
    if found.differ:
        out += ["", *_differing(found)]
    out += ["", *_aligned(*summary(found))]
    if found.pairs:
        out += ["", *_aligned(*against(found.pairs))]
    for title, curves, unit in courses(found):
        out += ["", f"{title}, {found.course}", *_aligned(*course(found, curves, unit))]
    if found.notes:
        out += ["", *(f"note: {note}" for note in found.notes)]
    return [*out, "", _INTERVALS + " Seconds are of training; the cold start is before step 1."]


def section(found: Comparison) -> str:
    """For the page, which has the curves and the options already."""
    heads = [tables.table(*_cells(summary(found)))]
    if found.pairs:
        heads.append(tables.table(*_cells(against(found.pairs))))
    notes = "".join(f"<p class=note>{tables.cell(note)}</p>" for note in found.notes)
    named = "".join(f"<p>{tables.cell(f'{s.mark}: {s.label} ({_runs(s)})')}</p>" for s in found.sides)
    return (
        f"<section><h2>Comparison: {tables.cell(found.score)}</h2><p class=how>{tables.cell(_INTERVALS)}</p>{notes}"
        f"{named}{''.join(heads)}</section>\n"
    )


# --- tables: (head, rows) --------------------------------------------------------------------------------------------

Table = tuple[list[str], list[list[str]]]


def summary(found: Comparison) -> Table:
    """One line for each side."""
    head = ["", "seeds", "mean", "interquartile mean", "95 % interval"]
    if found.threshold is not None:
        head += [f"env steps to {shown(found.threshold)}", f"seconds to {shown(found.threshold)}"]
    head += ["env steps/s", "samples per step", "cold start, s"]
    rows = []
    for s in found.sides:
        row = [s.mark, str(len(s.scores)), shown(s.mean), shown(s.interquartile_mean), _span(s.interval)]
        if found.threshold is not None:
            row += [_when(s.env_steps_to_threshold), _when(s.seconds_to_threshold)]
        sampled = " or ".join(f"{v:g}" for v in s.samples_per_step) or NOTHING
        rows.append([*row, shown(s.env_steps_per_s), sampled, shown(s.cold_start_s, 3)])
    return head, rows


def against(pairs: Sequence[Pair]) -> Table:
    """Each side and the first."""
    head = ["", "difference of interquartile means", "95 % interval", "higher with probability", "95 % interval", ""]
    rows = [
        [f"{p.side} − {p.against}", f"{p.difference:+.4g}", _span(p.interval), f"{p.improvement:.2f}",
         _span(p.improvement_interval, 2), _verdict(p)]
        for p in pairs
    ]  # fmt: skip
    return head, rows


def _verdict(pair: Pair) -> str:
    if pair.interval is None:
        return "one seed decides nothing"
    low, high = pair.interval
    if low > 0:
        return f"{pair.side} is higher"
    return f"{pair.against} is higher" if high < 0 else "no difference shown"


def courses(found: Comparison) -> list[tuple[str, Curves, str]]:
    made = [
        ("over env steps", found.over_env_steps, "env steps"),
        ("over seconds of training", found.over_seconds, "seconds"),
    ]
    return [m for m in made if m[1].x]


def course(found: Comparison, curves: Curves, unit: str) -> Table:
    """One line for each point, a column for each side."""
    rows = []
    for x, values in zip(curves.x, curves.sides, strict=True):
        cells = [NOTHING if v is None else f"{shown(v[0])} {_span(v[1])}".strip(" –") for v in values]
        rows.append([shown(x) if unit == "seconds" else f"{x:,.0f}", *cells])
    return [unit, *(s.mark for s in found.sides)], rows


# --- words -----------------------------------------------------------------------------------------------------------


def _runs(side: Side) -> str:
    return side.runs[0] if len(side.runs) == 1 else f"{len(side.runs)} runs: {side.runs[0]} …"


def _span(bounds: Span | None, digits: int = 4) -> str:
    return NOTHING if bounds is None else f"[{shown(bounds[0], digits)}, {shown(bounds[1], digits)}]"


def _when(when: When | None) -> str:
    if when is None:
        return NOTHING
    median = "not reached" if when.median is None else shown(when.median)
    return f"{median} ({when.reached} of {when.seeds})"


def _differing(found: Comparison) -> list[str]:
    rows = [[name, *values] for name, values in found.differ.items()]
    out = _aligned(["differs", *(s.mark for s in found.sides)], rows[:_MOST_OPTIONS], left=len(found.sides) + 1)
    left = len(rows) - _MOST_OPTIONS
    return [*out, f"  … and {left} more options; --html shows all"] if left > 0 else out


def _cells(table: Table) -> tuple[list[str], Iterable[list[str]]]:
    head, rows = table
    return [tables.cell(h) for h in head], [[tables.cell(c) for c in row] for row in rows]


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Two spaces apart; all but the first `left` columns at the right."""
    cells = [list(head), *map(list, rows)]
    wide = [max(len(row[k]) for row in cells) for k in range(len(head))]
    return [
        "  " + "  ".join(c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, wide, strict=True)))
        .rstrip()
        for row in cells
    ]  # fmt: skip
