"""Why nothing starts: whether what waits can become free by itself, and what a person is told of it, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from agent_fleet.queue import holds
from agent_fleet.queue.store import Queue
from agent_fleet.run.clerk import HELD, UNSURE
from agent_fleet.run.gates import Gate
from agent_fleet.run.outlook import Outlook
from agent_fleet.run.pacing import Pacing
from agent_fleet.run.reach import Track, hindrance
from agent_fleet.run.vigil import Vigil
from agent_fleet.text import duration, line

_OF_THE_QUEUE = ("work", "hosts and paths", "lane", "provider")


class Reasons:
    """One a run. `why` is the last reason that was told, `obstacle` the lane or provider that kept every task from starting,
    `waits_for` the limit that is waited for and for how many seconds more. `force` says that the machine's limit does not
    count, `longest` for how many seconds an account is waited for at most.
    """

    def __init__(
        self, queue: Queue, pacing: Pacing, say: Callable[[str], None], *, force: bool, longest: float
    ) -> None:
        self.queue = queue
        self.pacing = pacing
        self.vigil = Vigil()
        self.why = ""
        self.obstacle = ""
        self.waits_for: tuple[Gate, float] | None = None
        self._force = force
        self._longest = longest
        self._say = say
        self._said: dict[str, str] = {}

    def tell_troubles(self, seen: Outlook) -> None:
        for name, trouble in sorted(seen.troubles.items()):
            if name in seen.gated:
                self.say_once(f"gate {name}", f"{name} waits: {trouble}")
                continue
            self.say_once(f"provider {name}", f"provider {name} cannot be used: {trouble}; its tasks wait")

    def may_change(self, seen: Outlook, at_work: Collection[object], tracks: Callable[[], Collection[Track]]) -> bool:
        """Whether what waits can become free by itself; if not, or if only others can free it, it is said why.

        `tracks` are those in which tasks of the run wait.
        """
        if at_work:
            return True
        plan, waiting = seen.plan, tracks()
        lasting = {name: why for name, why in seen.troubles.items() if name not in seen.gated}
        if never := hindrance(seen, waiting, lasting):
            return self._has_ended(never)
        if seen.machine.capacity.wait and not self._force:
            self.explain(seen.machine.capacity.wait)
            return True
        if plan.binding.workers == 0 and plan.binding.name not in _OF_THE_QUEUE:
            self.explain(f"waiting: {plan.binding.name}: {plan.binding.why}")
            return True
        if self._waits_for_a_gate(seen) or self._waits_for_accounts(seen) or self._waits_for_a_hold():
            return True
        # what was gated and opens by itself has been waited for: nobody's end opens the rest
        if never := hindrance(seen, waiting, seen.troubles):
            return self._has_ended(never)
        if seen.board.active:
            self.explain(f"waiting for what others work on: {plan.binding.name}: {plan.binding.why}")
            return True
        self.explain(f"nothing more can start: {plan.binding.name}: {plan.binding.why}")
        if plan.binding.name in ("lane", "provider"):
            self.obstacle = plan.binding.why
        return False

    def _has_ended(self, never: str) -> bool:
        self.explain(f"nothing more can start: {never}")
        self.obstacle = never
        return False

    def _waits_for_a_gate(self, seen: Outlook) -> bool:
        """Whether a limit that ends by itself keeps what waits from starting; said with the time that it takes."""
        self.waits_for = None
        found = self.pacing.next_probe(name for lane in seen.plan.lanes for name in lane.providers)
        if found is None:
            return False
        gate, seconds = self.waits_for = found
        self.explain(f"{gate.name} waits {duration(seconds)}, {gate.ends}: {gate.why}", key=gate.ends)
        return True

    def _waits_for_accounts(self, seen: Outlook) -> bool:
        """Whether an account opens by itself; said with the time that it takes, which is bounded."""
        pools = [
            each
            for name, rooms in seen.rooms.items()
            if name in seen.gated or name not in seen.troubles
            for each in (rooms, *rooms.others)
        ]
        found = self.vigil.wait(each for each in pools if each.free < 1)
        if found is None:
            return False
        self.waits_for = found.gate, found.seconds
        self.explain(found.text, key=found.key)
        return True

    def _waits_for_a_hold(self) -> bool:
        held = [hold for hold in holds.read(self.queue).values() if isinstance(hold.get("until"), int | float)]
        held = [hold for hold in held if self._is_worth_waiting(str(hold.get("source")))]
        if held:
            first = min(held, key=lambda hold: float(hold["until"]))
            why = line(str(first.get("why")), 120)
            wait = duration(max(0.0, float(first["until"]) - time.time()))
            self.explain(f"waiting {wait} for the first of {len(held)} held tasks: {why}", key=why)
        return bool(held)

    def _is_worth_waiting(self, source: str) -> bool:
        """A policy says when it lets go; an account is waited for no longer for one task than for all of them."""
        if source not in (HELD, UNSURE):
            return True
        return self.vigil.may_hold(is_sure=source == HELD, longest=self._longest)

    def explain(self, text: str, *, key: str = "") -> None:
        self.why = text
        self.say_once("why", text, key=key)

    def say_once(self, topic: str, text: str, *, key: str = "") -> None:
        if (key or text) not in self._said.get(topic, ""):
            self._said[topic] = text
            self._say(text)
