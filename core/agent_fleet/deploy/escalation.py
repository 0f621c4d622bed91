"""A tier up for what a cheaper one could not answer: which items, and how often. Pure.

Only what its agents were not able to do goes up: answers that break the contract or are missing after all rounds, and failures in
the agent's own words. A limit, a budget, an account or a crash says nothing of how able a model is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent_fleet.deploy import coverage
from agent_fleet.deploy.answers import Answer
from agent_fleet.deploy.coverage import Given
from agent_fleet.deploy.orders import Order
from agent_fleet.deploy.record import Deployment

_ENDED = ("done", "failed")
_UNABLE = ("done", "failed")  # outcomes of a task that was worked to its end


class Step(NamedTuple):
    """What went from one tier to the next: the tasks, how many items they had, and how many of those are answered."""

    below: str
    tier: str
    tasks: tuple[str, ...]
    items: int
    answered: int


def raised(deployment: Deployment, each: Given) -> Order | None:
    """The order by which what an ended one could not do goes a tier up; None if nothing does."""
    order, tier = each.order, deployment.above(each.order.tier)
    if order.checks or not tier or order.climb >= deployment.settings.escalate or each.state not in _ENDED:
        return None
    if deployment.way(tier) == deployment.way(order.tier):
        return None  # the same model again
    is_last = coverage.left(each, most=deployment.settings.redispatch) is None
    outcome = str(each.last.get("outcome") or "")
    items = tuple(item for item in order.items if _is_beyond(each.answers.get(item.id), outcome, is_last=is_last))
    return replace(order, items=items, tier=tier, round=0, climb=order.climb + 1, of=each.task) if items else None


def steps(given: Sequence[Given]) -> list[Step]:
    """What has gone up so far, by its tiers, the remainders of it included."""
    tiers: Mapping[str, Given] = {each.task: each for each in given}
    found: dict[tuple[str, str], list[Given]] = {}
    for each in given:
        if each.order.climb:
            first = each
            while first.order.of in tiers and tiers[first.order.of].order.tier == each.order.tier:
                first = tiers[first.order.of]
            below = tiers[first.order.of].order.tier if first.order.of in tiers else ""
            found.setdefault((below, each.order.tier), []).append(each)
    return [
        Step(
            below,
            tier,
            tuple(each.task for each in them),
            len({item.id for each in them for item in each.order.items}),
            len({name for each in them for name, answer in each.answers.items() if answer.kind == "answered"}),
        )
        for (below, tier), them in found.items()
    ]


def _is_beyond(answer: Answer | None, outcome: str, *, is_last: bool) -> bool:
    if answer is None:
        return is_last and outcome in _UNABLE
    return answer.kind == "failed" and (answer.fault != "invalid" or is_last)
