"""Errors that are the user's to mend. The command line prints them as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A request that cannot be met. The message is one line: what, the value, the way out."""

    exit_code = 2


class MissingExtra(UserError):
    """An optional dependency is not installed; the message holds the exact command that installs it."""

    def __init__(self, extra: str, why: str) -> None:
        super().__init__(f'{why} needs an extra: pip install "hotloop[{extra}]"')


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} {name!r}; {hint}")
