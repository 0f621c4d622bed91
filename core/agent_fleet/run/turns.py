"""What the hooks of a session on a terminal tell, one line each: that a turn has ended, and what ended it."""

from __future__ import annotations

import os
from typing import Final, cast

from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Outcome
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.protocols import Musters
from agent_fleet.queue.store import Queue
from agent_fleet.run.muster import TURNS, crew_of
from agent_fleet.run.pacing import WALLS
from agent_fleet.run.roster import Attempt
from agent_fleet.run.settle import feed_all

_STILL_HERE: Final = Exit(code=None, cause="stopped")


def path(crew: Attempt) -> str:
    return os.path.join(crew.dir, TURNS)


def read(queue: Queue, plugins: Plugins, crew: Attempt, exit: Exit) -> Outcome:
    """What the provider makes of a session: of its whole output, or of what its hooks told where a person looks at that.

    A provider that raises, or is gone, leaves the outcome unknown.
    """
    told = crew_of(queue, crew)

    def judge(musters: Musters) -> Outcome:
        reader = musters.crew_reader(told)
        if not crew.interactive:
            feed_all(reader, crew.log)
        elif os.path.exists(path(crew)):  # there is none before a turn has ended
            feed_all(reader, path(crew))
        return reader.outcome(exit)

    try:
        offer = plugins.offer(PROVIDERS, crew.provider)
        return plugins.ask(offer, lambda provider: judge(cast(Musters, provider)))
    except FleetError as error:
        return Outcome(kind="unknown", reason=f"its output could not be judged: {error.message}")
    except OSError as error:
        return Outcome(kind="unknown", reason=f"its output cannot be read: {error.strerror}")


def wall(queue: Queue, plugins: Plugins, crew: Attempt) -> str:
    """What ended the last turn of a session that is still there, where it cannot go on by itself after that; else empty."""
    found = read(queue, plugins, crew, _STILL_HERE)
    return f"{found.kind}: {found.reason}" if found.kind in WALLS else ""
