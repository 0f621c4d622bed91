"""What the demo puts into its queue, and what must become of each task. Pure."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from agent_fleet.demo import agent

POEM = "A queue is a promise\nkept by a name\nthat only one hand\ncan take away.\n"


class Step(NamedTuple):
    """One task of the demo: its fields, the state it must end in, and what it shows."""

    fields: dict[str, Any]
    ends: str
    shows: str


def config_text() -> str:
    """The configuration of the demo's project: one command-line agent, told by a table how to start."""
    return "\n".join(
        [
            "[providers]",
            'default = "demo"',
            "[run]",
            "stagger = 0.2",
            "[queue]",
            "max_attempts = 2",
            "[agents.demo]",
            f"argv = [{sys.executable!r}, '-I', {agent.__file__!r}]",
            'prompt = "stdin"',
            "",
        ]
    )


def steps(first_host: str, second_host: str) -> list[Step]:
    """The demo's tasks; the two hosts serve the same pages."""
    return [
        Step({"target": "uname -sr", "need": "command"}, "done", "a shell command, run as it is"),
        Step({"target": f"{first_host}/page/one"}, "done", "a page: one worker per host"),
        Step({"target": f"{first_host}/page/two"}, "done", "the same host: waits for the one before"),
        Step({"target": f"{second_host}/page/three"}, "done", "another host: may run beside them"),
        Step(
            {"target": "Count the lines of poem.txt", "ref": "count"}, "done", "an agent that reads its prompt on stdin"
        ),
        Step(
            {
                "target": "Summarise poem.txt",
                "needs": ["count"],
                "touches": ["summary.txt"],
                "check": "grep -q 'queue is a promise' summary.txt",
            },
            "done",
            "waits for the task before; proved by a check that fleet runs",
        ),
        Step(
            {"target": "Write report.txt", "check": "test -s report.txt"},
            "failed",
            "an agent that says done and did nothing: the check finds out",
        ),
        Step({"target": "Order the cup"}, "blocked", "a question only you can answer: parked, not faked"),
        Step({"target": "echo one at a time", "need": "serial", "provider": "command"}, "done", "the serial lane"),
    ]
