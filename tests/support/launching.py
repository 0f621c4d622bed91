"""Runs a provider's launch as a lane does, and lets the provider's reader judge it."""

from __future__ import annotations

import subprocess
import time

from agent_fleet.api import Event, Exit, Launch, Outcome, Reader


def attempt(launch: Launch, reader: Reader, *, timeout: float = 120.0) -> tuple[Outcome, list[Event]]:
    """Run the launch to its end with both outputs in one log, and judge the log."""
    begun = time.monotonic()
    with open(launch.log, "wb") as log:
        process = subprocess.run(
            launch.argv,
            input=launch.stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=launch.cwd,
            env=dict(launch.env),
            timeout=timeout,
            check=False,
        )
    ended = _exit(process.returncode, time.monotonic() - begun)
    events: list[Event] = []
    with open(launch.log, encoding="utf-8", errors="surrogateescape", newline="\n") as log_text:
        for line in log_text:
            events.extend(reader.feed(line))
    return reader.outcome(ended), events


def _exit(status: int, seconds: float) -> Exit:
    if status < 0:
        return Exit(code=None, signal=-status, seconds=seconds)
    return Exit(code=status, seconds=seconds)
