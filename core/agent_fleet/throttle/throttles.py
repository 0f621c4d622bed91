"""The throttles of one account and endpoint in one process: one for each model, all under the same cap of attempts."""

from __future__ import annotations

from collections.abc import Callable

from agent_fleet.throttle.attempts import Attempts
from agent_fleet.throttle.front import Throttle
from agent_fleet.throttle.shared import Shared
from agent_fleet.throttle.terms import Terms


class Throttles:
    """Throttles by model, made when they are first asked for. `state` is the state directory of the user; `tell` is theirs."""

    def __init__(
        self,
        state: str,
        account: str,
        endpoint: str,
        terms: Terms,
        attempts: Attempts | None = None,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.state = state
        self.account = account
        self.endpoint = endpoint
        self.terms = terms
        self.attempts = attempts
        self.tell = tell
        self._made: dict[str, Throttle] = {}

    def of(self, model: str) -> Throttle:
        """The throttle for calls to a model. Raises FleetError if its directory cannot be used."""
        if model not in self._made:
            shared = Shared(self.state, self.account, self.endpoint, model)
            self._made[model] = Throttle(shared, self.terms, self.attempts, tell=self.tell)
        return self._made[model]

    def close(self) -> None:
        """Give back all that is leased, in the event loop that used it."""
        for throttle in self._made.values():
            throttle.close()
