"""The caps that people set on how many work at once, and who has used them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from agent_fleet.config import Config
from agent_fleet.model import Ceiling
from agent_fleet.queue import names
from agent_fleet.run.roster import Attempt


def caps(config: Config, asked: int | None, at_work: Collection[Attempt], run: str) -> list[Ceiling]:
    """The configured cap, and the one that was `asked` for. A cap holds for the whole project: the `run` that meets it because of
    what others have at work is told so. An empty `run` is nobody's.
    """
    taken = _taken(at_work, run) if run else ""
    found = []
    configured = config.get("run.max_workers")
    if configured:
        why = f"your configured cap{_counts(configured, taken)}"
        found.append(Ceiling(name="cap", workers=configured, source=config.source("run.max_workers"), why=why))
    if asked is not None:
        why = f"the cap you asked for{_counts(asked, taken)}"
        found.append(Ceiling(name="cap", workers=asked, source="command line", why=why))
    return found


def _taken(at_work: Collection[Attempt], run: str) -> str:
    """How many workers others than a run have, by run; a session that a person started is of none."""
    found = Counter[str]()
    for each in at_work:
        whose = (names.parse_mark(each.mark) or ("", ""))[0]
        if whose != run:
            found[whose or "sessions of yours"] += max(1, each.seats)
    return ", ".join(f"{number} in {name}" for name, number in sorted(found.items()))


def _counts(cap: int, taken: str) -> str:
    return f", {cap}, in which those count that others have at work: {taken}" if taken else ""
