"""What each form of the terminal lane can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agent_fleet.api import Finding, Launch, Worker


class Form(Protocol):
    """A way to give a worker a terminal that a person can see."""

    name: str

    def obstacle(self) -> str:
        """Why it cannot be used now, or an empty text."""
        ...

    def where(self) -> str:
        """Where its terminals are, in words for the person."""
        ...

    def start(self, launch: Launch) -> int:
        """Start a worker in a terminal of its own; returns its pid. Raises FleetError."""
        ...

    def show(self, worker: Worker) -> str | None:
        """Bring the worker's terminal before the person; None, or the reason why that cannot be done."""
        ...

    def clean(self, root: str) -> Iterable[Finding]:
        """Take away what it left in a project and does not need any more."""
        ...
