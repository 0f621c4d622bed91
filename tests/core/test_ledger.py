"""The ledger: every attempt that cost something counts once, whatever the journal went through."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import ledger
from agent_fleet.ledger import Account, entries, grouped, spent, spent_on, tally
from agent_fleet.model import Usage
from agent_fleet.prices import Money, packaged
from agent_fleet.queue import finish, records
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from support.project import enlist, fill, new_queue, take

TABLE = packaged()
USED = Usage(input=100, cache_write=20, cache_read=5000, output=30, reasoning=7, turns=3, models=("claude-opus-5-5",))


def begin(queue: Queue, task: str, generation: int, run: str = "r1", provider: str = "claude") -> None:
    queue.tell("started", task=task, gen=generation, run=run, lane="headless", provider=provider, worker="w", pid=1)


def record(used: Usage | None, outcome: str = "done", **more: Any) -> dict[str, Any]:
    usage = {} if used is None else {"usage": asdict(used)}
    return {"outcome": outcome, "charged": False, "provider": "claude", "lane": "headless", **usage, **more}


def attempt(queue: Queue, used: Usage | None, state: str = "done", **more: Any) -> tuple[str, int]:
    """One real task, claimed, started and finished through the queue; returns its lease."""
    fill(queue, ["a task"])
    claimed = take(queue, enlist(queue))
    assert claimed is not None
    begin(queue, claimed.task, claimed.generation)
    finish.finish(queue, claimed.task, Proof(generation=claimed.generation), state, record(used, **more))
    return claimed.task, claimed.generation


def test_an_attempt_is_one_entry_with_all_that_is_told_of_it(queue: Queue) -> None:
    task, generation = attempt(queue, USED)
    (entry,) = entries(queue, TABLE)
    assert (entry.task, entry.generation, entry.run, entry.provider, entry.lane) == (
        task,
        generation,
        "r1",
        "claude",
        "headless",
    )
    assert entry.usage == USED
    assert entry.models == ("claude-opus-5-5",)
    assert entry.money.least == pytest.approx((100 * 4 + 20 * 5 + 5000 * 0.2 + 37 * 20) / 1e6)
    assert abs(entry.at - time.time()) < 600


def test_a_line_that_is_there_several_times_counts_once(queue: Queue) -> None:
    attempt(queue, USED)
    text = Path(queue.journal.path).read_bytes()
    Path(queue.journal.path).write_bytes(text * 7)
    assert spent(queue, TABLE).usage == USED


def test_several_attempts_at_one_task_all_count(queue: Queue) -> None:
    for generation in (1, 2, 3):
        begin(queue, "t1", generation)
        queue.tell("finished", task="t1", gen=generation, to="inbox", **record(USED, "limit"))
    sums = spent(queue, TABLE)
    assert (sums.attempts, sums.uncharged, sums.usage.tokens) == (3, 3, 3 * USED.tokens)


def test_an_attempt_whose_line_was_lost_is_found_by_its_record(queue: Queue) -> None:
    task, generation = attempt(queue, USED, run="r1")
    os.unlink(queue.journal.path)
    queue.journal.close()
    (entry,) = entries(queue, TABLE)
    assert (entry.task, entry.generation, entry.run, entry.usage) == (task, generation, "r1", USED)
    assert abs(entry.at - time.time()) < 600


def test_an_attempt_that_had_lost_its_lease_cost_money_too(queue: Queue) -> None:
    records.write_outcome(queue, "t1", 1, record(USED, "done"), late=True)
    begin(queue, "t1", 2)
    queue.tell("finished", task="t1", gen=2, to="done", **record(USED))
    assert spent(queue, TABLE).usage.tokens == 2 * USED.tokens


def test_what_a_worker_reported_by_itself_gets_its_usage_when_the_fleet_settles_it(queue: Queue) -> None:
    task, generation = attempt(queue, None)
    assert spent(queue, TABLE).silent == 1
    queue.tell("spent", task=task, gen=generation, usage=asdict(USED))
    (entry,) = entries(queue, TABLE)
    assert (entry.usage, entry.outcome, entry.run) == (USED, "done", "r1")


def test_an_attempt_that_said_nothing_is_counted_as_silent_and_not_as_free(queue: Queue) -> None:
    attempt(queue, Usage())
    begin(queue, "t9", 1)  # lost with its keeper: the next attempt starts without an end of this one
    begin(queue, "t9", 2)
    sums = spent(queue, TABLE)
    assert (sums.attempts, sums.silent, sums.usage) == (2, 2, Usage())
    assert all(entry.money.amount is None for entry in entries(queue, TABLE))


def test_a_model_without_a_price_leaves_the_sum_unknown_and_the_rest_known(queue: Queue) -> None:
    attempt(queue, USED)
    attempt(queue, Usage(input=5, models=("nosuch",)))
    sums = spent(queue, TABLE)
    assert sums.money.amount is None
    assert sums.money.known > 0
    assert sums.money.unknown == ("no price is known for the model nosuch",)


def test_a_cost_that_was_metered_while_it_ran_is_kept(queue: Queue) -> None:
    metered = Money(known=0.5, least=0.5, bases=("price table of 2026-01-01",))
    begin(queue, "t1", 1)
    queue.tell("finished", task="t1", gen=1, to="done", **record(USED), cost=metered.as_record())
    assert spent(queue, TABLE).money == metered


def test_damaged_lines_cost_only_themselves(queue: Queue) -> None:
    attempt(queue, USED)
    odd: list[object] = [
        {"event": "finished", "task": "t1", "gen": 10**12, "usage": asdict(USED)},
        {"event": "finished", "task": "../x", "gen": 1, "usage": asdict(USED)},
        {"event": "finished", "task": "t2", "gen": True, "usage": asdict(USED)},
        {"event": "finished", "task": "t2", "gen": 1, "usage": "much"},
        {"event": "finished", "task": "t2", "gen": 1, "usage": {"input": -5, "output": "x", "turns": [], "money": -1}},
        {"event": "spent", "task": ["t1"], "gen": 1},
        ["finished"],
    ]
    with open(queue.journal.path, "ab") as file:
        file.write(b'{"event":"finished","task":"t1"\n\xff\xfe"finished"\n' + b'"finished":' + b"[" * 100_000 + b"\n")
        for each in odd:
            file.write(json.dumps(each).encode() + b"\n")
        file.write(b'{"event":"finished","task":"t3","gen":1')
    sums = spent(queue, TABLE)
    assert (sums.attempts, sums.usage) == (1, USED)


def test_no_journal_is_no_spending(queue: Queue) -> None:
    assert spent(queue, TABLE).attempts == 0
    os.mkdir(queue.journal.path)
    assert spent(queue, TABLE).attempts == 0


def test_sums_by_run_and_time(queue: Queue) -> None:
    for number, run in ((1, "r1"), (2, "r2"), (3, "r2")):
        begin(queue, f"t{number}", 1, run)
        told = {"event": "finished", "task": f"t{number}", "gen": 1, "to": "done", "at": 1000.0 * number}
        queue.journal.extend([{**told, **record(USED)}])
    assert spent(queue, TABLE, run="r2").attempts == 2
    assert spent(queue, TABLE, since=2000.0).attempts == 2
    assert spent(queue, TABLE, run="r1", since=2000.0).attempts == 0
    by_run = grouped(entries(queue, TABLE), lambda entry: entry.run)
    assert {run: sums.attempts for run, sums in by_run.items()} == {"r1": 1, "r2": 2}
    assert sum(sums.usage.tokens for sums in by_run.values()) == spent(queue, TABLE).usage.tokens


def test_what_one_task_has_used_is_the_sum_of_its_records(queue: Queue) -> None:
    for generation in (1, 2):
        records.write_outcome(queue, "t1", generation, record(USED, exit={"seconds": 5.5}))
    records.write_outcome(queue, "t2", 1, record(USED))
    sums = spent_on(queue, TABLE, "t1")
    assert (sums.attempts, sums.usage.tokens, sums.seconds) == (2, 2 * USED.tokens, 11.0)


def test_an_account_takes_in_only_what_the_journal_has_gained(queue: Queue) -> None:
    now = time.time()
    account = Account(queue, TABLE, "r1")
    account.refresh(now)
    for number, run in ((1, "r1"), (2, "r2")):
        begin(queue, f"t{number}", 1, run)
        queue.tell("finished", task=f"t{number}", gen=1, to="done", **record(USED))
        account.refresh(now)
        account.refresh(now)
    assert (account.run.attempts, account.day.attempts) == (1, 2)
    with open(queue.journal.path, "ab") as file:
        half = {"event": "finished", "task": "t3", "gen": 1, "at": now, **record(USED)}
        line = json.dumps(half).encode() + b"\n"
        file.write(line[:40])
        file.flush()
        account.refresh(now)
        file.write(line[40:])
    account.refresh(now)
    assert account.day.attempts == 3


def test_a_new_day_starts_from_nothing_and_the_run_goes_on(queue: Queue) -> None:
    now = time.time()
    account = Account(queue, TABLE, "r1")
    begin(queue, "t1", 1)
    queue.journal.extend([{"event": "finished", "task": "t1", "gen": 1, "at": now, **record(USED)}])
    account.refresh(now)
    account.refresh(now + 2 * 86400)
    assert (account.run.attempts, account.day.attempts) == (1, 0)


def test_a_day_is_a_day_of_this_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("TZ", "UTC-10")
        time.tzset()
        assert ledger.day_of(1782828000.0) == "2026-07-01"  # 2026-06-30 14:00 UTC
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        assert ledger.day_of(1782828000.0) == "2026-06-30"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_memory_does_not_grow_with_what_is_told_of_an_attempt(tmp_path: Path) -> None:
    queue = new_queue(tmp_path / ".agents")
    with open(queue.journal.path, "w", encoding="utf-8") as file:
        for number in range(1, 3001):
            told = {"task": f"t{number}", "gen": 1, "at": 1.0, "reason": "x" * 2000}
            file.write(json.dumps({"event": "started", "run": "r1", "provider": "claude", **told}) + "\n")
            file.write(json.dumps({"event": "finished", **told, **record(USED)}) + "\n")
    tracemalloc.start()
    sums = tally(entries(queue, TABLE))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sums.attempts == 3000
    assert most < 2_000_000  # the journal has 13 MB


def test_a_session_and_a_question_are_no_attempts_and_their_use_counts(queue: Queue) -> None:
    attempt(queue, USED)
    used = asdict(USED)
    queue.tell_all(
        [
            {"event": "disbanded", "worker": "r1-1", "run": "r1", "usage": used},
            {"event": "asked", "question": "d1.1", "run": "d1", "usage": used},
        ]
    )
    sums = spent(queue, TABLE)
    assert (sums.attempts, sums.beside, sums.usage.tokens) == (1, 2, 3 * USED.tokens)
    assert not sums.is_unknown
