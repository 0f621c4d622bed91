"""Money over all processes: what is spent never passes a ceiling, whoever is killed when, and what is set aside is not lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet import identity
from agent_fleet.budget import Limits
from agent_fleet.config import load
from agent_fleet.errors import FleetError
from agent_fleet.ledger import day_of
from agent_fleet.model import Budget, Task, Usage, Worker
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.prices import packaged
from agent_fleet.queue.store import Queue
from agent_fleet.run import holdings, roster
from agent_fleet.run.holdings import EVERYTHING, Fund, Holding, room
from agent_fleet.run.spending import Spending
from agent_fleet.run.stakes import Ask, Reply, Stakes
from support import spender
from support.deployments import hire_scripted
from support.procs import wait_until
from support.project import new_queue
from support.runs import Site, attempts_of, gone

ME = identity.identity_of()
PARTS = ME.split(":")
DEAD = ":".join([PARTS[0], "1", *PARTS[2:]])
CEILING = 2.0


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return new_queue(tmp_path / ".agents")


def stakes(queue: Queue, run: str = "r1", **limits: Any) -> Stakes:
    return Stakes(queue, packaged(), Limits(**(limits or {"run_money": 1.0})), run)


def ask(of: Stakes, name: str, *wants: float, alone: bool = False, **holding: Any) -> Reply:
    about = {"kind": "calls", "owner": ME, "run": "r1"} | holding
    return of.exchange([Ask(name, Holding(**about), wants, alone)])[0]


def test_many_processes_that_are_killed_never_spend_more_than_the_ceiling(queue: Queue, tmp_path: Path) -> None:
    bill, draw = tmp_path / "bill", random.Random(7)
    bill.touch()

    def start(number: int) -> subprocess.Popen[bytes]:
        # two runs: that of each has a ceiling, and so has the day of both
        words = [queue.dir, str(bill), f"r{number % 2}", str(CEILING), str(number)]
        return subprocess.Popen([sys.executable, str(spender.__file__), *words])

    at_work = [start(number) for number in range(4)]
    for number in range(4, 9):
        before = bill.stat().st_size
        deadline = time.monotonic() + 60
        while bill.stat().st_size < before + 200 and any(child.poll() is None for child in at_work):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        victim = at_work.pop(draw.randrange(len(at_work)))
        victim.kill()
        victim.wait()
        at_work.append(start(number))
    for child in at_work:
        assert child.wait(120) == 0
    spent = [float(line) for line in bill.read_text().split()]
    assert CEILING * 0.5 < sum(spent) <= CEILING
    left = holdings.parsed(json.loads(Path(queue.path("money", "held.json")).read_text()))
    assert {each.kind for each in left.values()} <= {"lost"}


def test_what_a_dead_process_held_stays_counted_and_is_waited_for_by_nobody(queue: Queue) -> None:
    ask(stakes(queue), "gone", 0.4, owner=DEAD, spent=0.2)
    reply = ask(stakes(queue), "me", 0.41)
    assert (reply.granted, reply.waits) == ((), False)
    assert reply.why == "money of the run: $0.6000 used, $1.00 allowed, and the next call may cost $0.4100"
    assert ask(stakes(queue), "me", 0.39).granted == (0.39,)


def test_what_others_have_set_aside_is_waited_for_only_while_it_could_become_enough(queue: Queue) -> None:
    assert ask(stakes(queue), "other", 0.7).granted == (0.7,)
    assert ask(stakes(queue), "me", 0.4).waits
    assert not ask(stakes(queue), "me", 1.1).waits
    ask(stakes(queue), "other", spent=0.1)
    assert ask(stakes(queue), "me", 0.4).granted == (0.4,)


def test_an_attempt_of_which_nobody_can_say_what_it_may_cost_works_alone_with_what_is_left(queue: Queue) -> None:
    one: dict[str, Any] = {"kind": "attempt", "task": "t1", "generation": 1, "alone": True}
    assert ask(stakes(queue), "t1.g1", EVERYTHING, **one).granted == (1.0,)
    other = one | {"task": "t2"}
    assert ask(stakes(queue), "t2.g1", EVERYTHING, **other).waits
    queue.tell("started", task="t1", gen=1, run="r1")
    queue.tell("finished", task="t1", gen=1, to="done", run="r1", outcome="done", usage={"input": 1, "money": 0.3})
    assert ask(stakes(queue), "t2.g1", EVERYTHING, **other).granted == (1.0 - 0.3,)


def test_a_session_that_was_killed_costs_what_the_journal_tells_and_what_was_on_its_way(queue: Queue) -> None:
    Path(queue.path("runs", "r1", "workers", "w1")).mkdir(parents=True)
    ask(stakes(queue), "host", 0.2, owner=DEAD, spent=0.3, worker="r1-w1")
    assert ask(stakes(queue), "me", 0.51).why.startswith("money of the run: $0.5000 used")
    queue.tell("disbanded", worker="r1-w1", run="r1", outcome="unknown", usage={"input": 1, "money": 0.25})
    # 0.25 told, 0.05 spent and not told, 0.20 on its way when it died
    assert ask(stakes(queue), "me", 0.51).why.startswith("money of the run: $0.5000 used")
    assert ask(stakes(queue), "me", 0.5).granted == (0.5,)


def test_a_question_whose_asker_was_killed_costs_what_was_set_aside_unless_the_journal_tells(queue: Queue) -> None:
    of: dict[str, Any] = {"day_money": 1.0}
    assert ask(stakes(queue, "d1", **of), "d1-q1", 0.7, kind="attempt", owner=DEAD, run="d1").granted == (0.7,)
    assert not ask(stakes(queue, **of), "x", 0.5).granted
    assert ask(stakes(queue, **of), "x", 0.2).granted
    assert ask(stakes(queue, "d2", **of), "d2-q1", 0.05, kind="attempt", owner=DEAD, run="d2").granted
    used = {"input": 1, "money": 0.01, "turns": 1}
    queue.tell("asked", question="d2-q1", run="d2", usage=used)
    reply = ask(stakes(queue, **of), "y", 0.085)
    assert reply.granted == (0.085,)


def test_an_attempt_whose_driver_died_before_it_was_put_on_the_journal_costs_what_its_record_says(queue: Queue) -> None:
    from agent_fleet.queue import records

    attempt: dict[str, Any] = {"kind": "attempt", "task": "t1", "generation": 1, "owner": DEAD}
    ask(stakes(queue), "t1.g1", 0.9, **attempt)
    records.write_outcome(queue, "t1", 1, {"outcome": "done", "usage": {"input": 1, "money": 0.1}})
    assert ask(stakes(queue), "me", 0.9).granted == (0.9,)


LOST: dict[str, Any] = {"kind": "attempt", "task": "t1", "generation": 1}


def begun(queue: Queue) -> roster.Attempt:
    """What a driver leaves on disk of an attempt before its process is there."""
    place = Path(queue.path("runs", "r1", "workers", "w1"))
    place.mkdir(parents=True)
    worker = Worker(id="r1-w1", lane="headless", pid=0, identity="", handle="m")
    about: dict[str, Any] = {"lane": "headless", "provider": "p", "log": "", "nonce": "", "started": 0.0, "session": ""}
    attempt = roster.Attempt(id="r1-w1", dir=str(place), mark="m", task="t1", generation=1, worker=worker, **about)
    roster.write_attempt(attempt)
    return attempt


@pytest.mark.parametrize("owner", [DEAD, ME], ids=["dead", "alive"])
@pytest.mark.parametrize("then", ["reclaimed", "given out again", "reported without its usage"])
def test_an_attempt_that_was_lost_stays_counted_until_somebody_has_told_what_is_in_its_log(
    queue: Queue, owner: str, then: str
) -> None:
    assert ask(stakes(queue), "t1.g1", 0.9, owner=owner, **LOST).granted
    attempt = begun(queue)
    queue.tell("started", task="t1", gen=1, run="r1")
    if then == "reported without its usage":
        queue.tell("finished", task="t1", gen=1, to="done")
    else:
        queue.tell("reclaimed", task="t1", gen=1, to="inbox")
    if then == "given out again":
        queue.tell("started", task="t1", gen=2, run="r2")
    assert not ask(stakes(queue), "me", 0.2).granted
    queue.tell("spent", task="t1", gen=1, run="r1", usage={"input": 1, "money": 0.3})
    assert not ask(stakes(queue), "me", 0.71).granted
    assert ask(stakes(queue), "me", 0.7).granted == (0.7,)
    roster.mark_settled(attempt)
    assert ask(stakes(queue), "me", 0.0, spent=0.7).granted == (0.0,)


SPENDER = """
import json, time
print(json.dumps({"type": "started", "session": "s", "model": "m", "identity": "scripted@example.com"}))
print(json.dumps({"type": "usage", "turns": 1, "money": 0.3}), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("order", ["driver, keeper, agent", "keeper, agent, driver", "agent, keeper, driver"])
def test_an_attempt_costs_no_less_than_its_log_tells_whoever_is_killed_first(tmp_path: Path, order: str) -> None:
    site = Site(tmp_path)
    env = hire_scripted(site, tmp_path, SPENDER)
    site.configure('[providers]\ndefault = "hired"\n[budget]\nday_money = 1.0\n')
    task = site.add("part")
    other = Holding(kind="calls", owner=ME, run="r9")

    def may_take(amount: float) -> bool:
        return bool(stakes(site.queue(), day_money=1.0).would(Ask("x", other, (amount,))).granted)

    with site.driving(env=env) as driver:
        wait_until(lambda: any(b"money" in log.read_bytes() for log in site.dir.glob("logs/t1.g1.log")), "it has told")
        keeper = attempts_of(site)[0].worker.pid
        agents = [pid for pid in site.alive() if pid not in (keeper, driver.pid)]
        driver.child.send_signal(signal.SIGSTOP)  # it settles nothing while the others die
        for each in order.split(", "):
            for pid in {"driver": [driver.pid], "keeper": [keeper], "agent": agents}[each]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert not may_take(0.71), each
            site.fleet("plan", env=env)  # whoever looks takes the task of the dead back
            assert not may_take(0.71), each
        driver.child.wait(30)
    gone(agents)
    site.work("--drain", env=env)
    assert not attempts_of(site)
    assert may_take(0.69)
    assert not may_take(0.71)
    assert site.state(task) == "inbox"


@pytest.mark.parametrize("leaves", ["nothing", "settled"])
def test_an_attempt_that_never_began_or_that_told_nothing_holds_nobody_up(queue: Queue, leaves: str) -> None:
    assert ask(stakes(queue), "t1.g1", 0.9, owner=DEAD, **LOST).granted
    if leaves == "settled":
        roster.mark_settled(begun(queue))
    assert ask(stakes(queue), "me", 1.0).granted == (1.0,)


def test_a_call_of_a_dead_host_stays_counted_though_its_task_was_given_out_again(queue: Queue) -> None:
    ask(stakes(queue), "host", owner=DEAD, spent=0.4, task="t1", generation=1)
    queue.tell("started", task="t1", gen=1, run="r1")
    queue.tell("started", task="t1", gen=2, run="r2")
    assert not ask(stakes(queue), "me", 0.7).granted
    assert ask(stakes(queue), "me", 0.6).granted == (0.6,)


def test_a_file_that_cannot_be_read_lets_nothing_through(queue: Queue) -> None:
    ask(stakes(queue), "me", 0.1)
    path = Path(queue.path("money", "held.json"))
    for content in ("", "{}", '{"format": 2, "holdings": {}}', '{"format": 1, "holdings": {"x": {"kind": "calls"}}}'):
        path.write_text(content)
        with pytest.raises(FleetError) as caught:
            ask(stakes(queue), "me", 0.1)
        assert caught.value.code == "corrupt"
        assert path.read_text() == content


HELD = st.builds(
    Holding,
    kind=st.sampled_from(["calls", "attempt", "lost"]),
    run=st.sampled_from(["r1", "r2"]),
    deployment=st.sampled_from(["", "d1"]),
    staked=st.floats(0, 10),
    spent=st.floats(0, 10),
    at=st.sampled_from([0.0, 1e9]),
    lives=st.booleans(),
)


@settings(deadline=None)
@given(st.lists(HELD, max_size=6), st.floats(0, 10), st.sampled_from(["run", "deployment", "day"]))
def test_what_is_left_is_never_more_than_the_ceiling_less_all_that_may_be_spent(
    held: list[Holding], recorded: float, name: Any
) -> None:
    fund = Fund(name, {"run": "r1", "deployment": "d1", "day": day_of(1e9)}[name], 50.0)
    found = room(fund, recorded, held)
    covered = sum(each.amount for each in held if fund.covers(each))
    assert found.now == pytest.approx(50.0 - recorded - covered)
    assert found.now <= found.later + 1e-9
    kept = {str(number): each for number, each in enumerate(held)}
    assert holdings.parsed(json.loads(holdings.written(kept))).keys() == kept.keys()


def test_workers_start_at_once_as_far_as_all_that_they_may_cost_fits(queue: Queue) -> None:
    """100,000 tokens of the dearest class, output at 5 dollars a million, are 0.50 dollars."""
    config = load(str(Path(queue.dir).parent), queue_dir=queue.dir, environ={"FLEET_BUDGET_RUN_MONEY": "1.20"})
    spending = Spending(queue, config, "r1", owner=ME)
    offer = Plugins(config, third_party=False).offer(PROVIDERS, "claude")
    task = {n: Task(id=f"t{n}", target="x", model="claude-haiku-4-5", budget=Budget(tokens=100_000)) for n in (1, 2, 3)}

    def start(number: int) -> Reply:
        return spending.advance(f"t{number}.g1", task[number], 1, offer)

    assert [start(n).granted for n in (1, 2)] == [(0.5,), (0.5,)]
    assert start(3).waits and spending.waits()
    purse = spending.open("w1", task[1], "t1.g1")
    purse.feed(Usage(input=1, money=0.6, models=("claude-haiku-4-5",)))
    assert spending.overdrawn("w1") == "", "0.20 are left of which it gets what it has cost beyond its 0.50"
    purse.feed(Usage(input=1, money=0.75, models=("claude-haiku-4-5",)))
    assert "money of the run" in spending.overdrawn("w1")
    queue.tell("started", task="t1", gen=1, run="r1")
    queue.tell("finished", task="t1", gen=1, to="done", run="r1", outcome="done", usage={"input": 1, "money": 0.1})
    spending.close("w1")
    assert spending.waits() == ""
    assert start(3).granted == (0.5,)
    spending.call_off("t3.g1")
    assert start(3).granted == (0.5,)


def test_a_deployment_has_a_ceiling_of_its_own_over_all_runs_and_whoever_works_on_it(queue: Queue) -> None:
    place = Path(queue.path("deployments", "d1", "orders"))
    place.mkdir(parents=True)
    (place.parent / "record.json").write_text('{"settings": {"money": 1.0}}')
    (place / "t1.json").write_text("{}")
    queue.tell("finished", task="t1", gen=1, to="done", run="r9", outcome="done", usage={"input": 1, "money": 0.6})
    none = {"run_money": None}
    assert ask(stakes(queue, "r1", **none), "one", 0.3, deployment="d1").granted == (0.3,)
    assert ask(stakes(queue, "r2", **none), "two", 0.2, deployment="d1", run="r2").waits
    assert ask(stakes(queue, "r2", **none), "two", 9.0, run="r2").granted == (9.0,), (
        "what is no part of it costs it nothing"
    )
