"""Working a deployment to its end: a run that takes nothing but its tasks, and gives out what is left of each as it ends.

What no driver saw end (a task that others worked, a crash) is given out before the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from agent_fleet.config import Config
from agent_fleet.deploy import checking, coverage, dispatch
from agent_fleet.deploy.belonging import Belonging
from agent_fleet.deploy.record import Deployment
from agent_fleet.ledger import Tally, entries, tally
from agent_fleet.plugins import Plugins
from agent_fleet.prices import Table
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits
from agent_fleet.run.console import Console
from agent_fleet.run.driver import Driver
from agent_fleet.run.outlook import Wishes
from agent_fleet.run.tidings import Summary
from agent_fleet.text import count


class Place(NamedTuple):
    """Where a deployment is worked, and with what."""

    queue: Queue
    config: Config
    plugins: Plugins
    environ: Mapping[str, str]
    habits: Habits
    table: Table
    console: Callable[[], Console]


class Work(NamedTuple):
    """What working it came to: the runs, how many tasks they moved, and why it did not go on (empty: nothing is left to do)."""

    runs: tuple[Summary, ...]
    why: str


def work(place: Place, deployment: Deployment, wishes: Wishes, *, stagger: float) -> Work:
    """Give out what is due and run until nothing is, or until somebody or something ends it. Raises FleetError, OSError."""
    wishes = replace(wishes, only=deployment.id)
    runs: list[Summary] = []
    succession = dispatch.Succession(place.queue, deployment, place.habits)
    while True:
        added = dispatch.give_out(place.queue, deployment, place.habits)
        given = coverage.given(place.queue, deployment)
        fates = coverage.fates(deployment, given)
        states = [each.state for each in given]
        is_over = "inbox" not in states and "active" not in states
        if is_over or checking.is_lost(deployment, fates, given):
            verified = checking.verification(deployment, fates, given)
            why = f"{verified.wrong} of {verified.checked} checked answers are wrong" if verified.stops else ""
            return Work(tuple(runs), why)
        if runs and not added and "inbox" not in states:
            return Work(tuple(runs), f"others work on {count(states.count('active'), 'part')} of it")
        money = _money_left(place, deployment)
        if money is not None and money <= 0:
            return Work(tuple(runs), f"its {deployment.settings.money:g} US dollars are spent")
        driver = _driver(place, wishes, succession, stagger)
        summary = driver.work()
        runs.append(summary)
        if succession.is_lost:
            continue
        if driver.stopping or driver.draining or summary.waiting or summary.obstacle:
            return Work(tuple(runs), summary.obstacle or summary.why or "it was stopped")


def _driver(place: Place, wishes: Wishes, succession: dispatch.Succession, stagger: float) -> Driver:
    driver = Driver(
        *(place.queue, place.config, place.plugins, wishes, place.console(), place.environ),
        stagger=stagger,
        follow=lambda ended: _follow(driver, succession, ended),
    )
    return driver


def _follow(driver: Driver, succession: dispatch.Succession, ended: Collection[str]) -> list[str]:
    """What follows from the ends of tasks; where it is certain that the check fails, nothing more is started."""
    added = succession.follow(ended)
    if succession.is_lost:
        driver.drain(": too many of the checked answers are wrong")
    return added


def spent(queue: Queue, table: Table, deployment: Deployment) -> Tally:
    """What all its tasks have used, whoever worked them, and what sessions of its own runs have used beside that."""
    return tally(filter(Belonging(queue, deployment.id), entries(queue, table)))


def _money_left(place: Place, deployment: Deployment) -> float | None:
    """What is left of its money; None if it has no ceiling. What cannot be priced is for the run's own rules."""
    if not deployment.settings.money:
        return None
    return deployment.settings.money - spent(place.queue, place.table, deployment).money.known
