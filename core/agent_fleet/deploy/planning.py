"""What questions to a model cost, beside the work itself: each is in the ledger under the deployment's name, and under its
ceilings of money.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict

from agent_fleet import identity
from agent_fleet.budget import Limits
from agent_fleet.config import Config
from agent_fleet.deploy import record
from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Outcome
from agent_fleet.prices import Table
from agent_fleet.queue.store import Queue
from agent_fleet.run.holdings import EVERYTHING, Holding
from agent_fleet.run.stakes import Ask, Stakes

_AGAIN = 0.5  # seconds until money that others have set aside is asked for again
_HINT = "raise --money or budget.day_money, or use --decompose items"


class Planning:
    """The planning of one deployment, or the questions about what a `deployment` that is on record has come to. `queue` makes
    the queue if there is none; a name is reserved with the first question where none is given.

    `money` is the ceiling of the deployment in US dollars, 0 for none.
    """

    def __init__(
        self, queue: Callable[[], Queue], config: Config, table: Table, money: float, deployment: str = ""
    ) -> None:
        self.deployment = deployment
        self.table = table
        self._make = queue
        self._config = config
        self._money = money
        self._queue: Queue | None = None

    def begin(self, question: str, *, counts_itself: bool) -> float:
        """Before a question is asked: what it may cost, in US dollars; it waits for what others have set aside of that.

        An agent that counts for itself sets its calls aside one by one. Raises `refused` where nothing is left.
        """
        stakes = self._stakes()
        if counts_itself or not stakes.is_bounded(self.deployment):
            return EVERYTHING
        while True:
            (reply,) = stakes.exchange([Ask(question, self._holding(), (EVERYTHING,), alone=True)])
            if reply.granted:
                return reply.granted[0]
            if not reply.waits:
                raise FleetError("refused", f"no model was asked: {reply.why}", hint=_HINT)
            time.sleep(_AGAIN)

    def end(self, question: str, provider: str, outcome: Outcome, exit: Exit) -> None:
        """A question was answered, or not: what it has used goes on record."""
        queue = self._there()
        queue.tell(
            "asked",
            question=question,
            run=self.deployment,
            provider=provider,
            outcome=outcome.kind,
            reason=outcome.reason,
            usage=asdict(outcome.usage),
            exit={"seconds": round(exit.seconds, 3)},
        )
        stakes = self._stakes()
        if stakes.is_bounded(self.deployment):
            stakes.exchange([Ask(question, self._holding())])

    def variables(self) -> dict[str, str]:
        """What an agent needs that counts its money for itself: where the project is, for what it works, and what that may cost."""
        queue, limits = self._there(), self._limits()
        amounts = {"FLEET_BUDGET_RUN_MONEY": limits.run_money, "FLEET_BUDGET_DAY_MONEY": limits.day_money}
        money = {name: repr(amount) for name, amount in amounts.items() if amount is not None}
        return {
            "AGENT_ROOT": self._config.root,
            "AGENT_DIR": os.path.basename(queue.dir),
            "FLEET_DEPLOYMENT": self.deployment,
            "FLEET_BUDGET_UNKNOWN_PRICE": limits.unknown_price,
            **money,
        }

    def _there(self) -> Queue:
        if self._queue is None:
            self._queue = self._make()
            self.deployment = self.deployment or record.reserve(self._queue)
        return self._queue

    def _limits(self) -> Limits:
        get = self._config.get
        own = [amount for amount in (get("budget.run_money"), self._money) if amount]
        return Limits(
            run_money=min(own, default=None),
            day_money=get("budget.day_money") or None,
            unknown_price=get("budget.unknown_price"),
        )

    def _stakes(self) -> Stakes:
        queue = self._there()
        return Stakes(queue, self.table, self._limits(), self.deployment)

    def _holding(self) -> Holding:
        owner = identity.identity_of()
        return Holding(kind="attempt", owner=owner, run=self.deployment, deployment=self.deployment)
