"""The contract of a provider that can also start a session which claims for itself."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from agent_fleet.model import Crew, Event, Exit, Launch, Outcome
from agent_fleet.protocols import Musters, Reader
from agent_fleet.testing.contract import asked, must
from agent_fleet.testing.launches import check_environment, new_job

MOST = 4  # seats of the largest session that is tried


def check_crews(name: str, provider: Musters, place: Path) -> list[Launch]:
    """Check the sessions of every size that the provider can have here; returns their launches."""
    most = asked(f"{name}.most_seats", lambda: provider.most_seats)
    must(
        most is None or (isinstance(most, int) and most >= 0), f"{name}.most_seats is {most!r}, wanted None or a number"
    )
    seats = range(1, (MOST if most is None else min(MOST, most)) + 1)
    return [
        _check(name, provider, new_crew(place / f"crew{number}{interactive}", number, interactive=interactive))
        for number in seats
        for interactive in ((False, True) if number == 1 else (False,))
    ]


def new_crew(place: Path, seats: int, *, interactive: bool = False) -> Crew:
    """A session of so many seats; `place` gets its directories."""
    job = new_job(place, "")
    env = {name: value for name, value in job.env.items() if name not in ("FLEET_TASK", "FLEET_GENERATION")}
    return Crew(
        worker=job.worker,
        lane="subagent",
        seats=seats,
        interactive=interactive,
        brief="You are a worker.\nClaim a task.",
        member="Your name is the one that you were started with." if seats > 1 else "",
        model="",
        cwd=job.cwd,
        env=env | ({"FLEET_TURNS": str(place / "turns.jsonl")} if interactive else {}),
        scratch=job.scratch,
    )


def _check(name: str, provider: Musters, crew: Crew) -> Launch:
    launch = asked(f"{name}.crew()", provider.crew, crew)
    must(isinstance(launch, Launch) and bool(launch.argv), f"{name}.crew() gave {launch!r}, wanted a Launch")
    must(launch.worker == crew.worker, f"{name} calls the session {launch.worker!r}, not {crew.worker!r}")
    must(launch.cwd == crew.cwd, f"{name} starts a session in {launch.cwd!r}, not in the project")
    check_environment(name, crew.env, launch.env)
    must(_is_told(crew, launch), f"{name} does not pass on the brief of a session")
    reader = asked(f"{name}.crew_reader()", provider.crew_reader, replace(crew, brief="", member="", env={}))
    for line in ("", "{", "\x1b[2J"):
        asked(f"{name}: feed() of a session", _fed, reader, line)
    for ended in (Exit(code=0), Exit(code=1), Exit(code=None, signal=9), Exit(code=None, cause="stopped")):
        found = asked(f"{name}: outcome() of a session", reader.outcome, ended)
        must(isinstance(found, Outcome), f"{name} judges a session by {found!r}, wanted an Outcome")
    return launch


def _fed(reader: Reader, line: str) -> list[Event]:
    return list(reader.feed(line))


def _is_told(crew: Crew, launch: Launch) -> bool:
    """Whether the brief is in what the process gets: its arguments, its input, or files in its own directory."""
    files = [Path(crew.scratch) / each for each in os.listdir(crew.scratch)]
    texts = [*launch.argv, launch.stdin.decode("utf-8", "replace"), *(file.read_text("utf-8") for file in files)]
    return any(crew.brief in text for text in texts)
