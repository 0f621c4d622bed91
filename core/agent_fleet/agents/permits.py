"""Permission to make one more call, and what became of it: the seam to whatever paces the calls of an account."""

from __future__ import annotations

from typing import Any, Protocol

from agent_fleet.agents.dialect import Ending


class Throttle(Protocol):
    """One for each account, endpoint and model that a process uses."""

    async def acquire(self) -> Any:
        """Wait until one more call may be made; returns a permit. Raises FleetError where none may be made in this run."""
        ...

    def release(
        self,
        permit: Any,
        ending: Ending,
        *,
        latency: float | None = None,
        retry_after: float | None = None,
        tokens: int = 0,
    ) -> None:
        """Hand a permit back, once: `latency` is the time to the first byte, both times are in seconds."""
        ...


class Throttles(Protocol):
    """The throttles of one account and endpoint."""

    def of(self, model: str) -> Throttle: ...
