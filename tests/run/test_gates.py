"""Gates: one limit stops all starts of its kind, waits are bounded, one probe reopens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet import identity
from agent_fleet.model import Outcome, OutcomeKind
from agent_fleet.queue.store import Queue
from agent_fleet.run.gates import BACKOFF, STRIKES, Gate, Gates, closed_by

LONGEST = 6 * 3600.0
UNIT = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gates(tmp_path: Path, clock: Clock) -> Gates:
    queue = Queue(str(tmp_path / ".agents"))
    (tmp_path / ".agents").mkdir()
    queue.create()
    return Gates(queue, LONGEST, UNIT, clock=clock, chance=lambda: 0.0)


def met(kind: OutcomeKind, resets_at: float | None = None, reason: str = "wall") -> Outcome:
    return Outcome(kind=kind, reason=reason, resets_at=resets_at)


def test_one_limit_stops_every_start_of_its_kind_and_no_other(gates: Gates, clock: Clock) -> None:
    gates.close("claude", met("limit", clock.now + 20))
    assert set(gates.obstacles("me")) == {"claude"}
    assert not gates.probe("claude", "me")
    assert gates.probe("codex", "me")


def test_the_named_reset_is_kept_to_and_never_anticipated(gates: Gates, clock: Clock) -> None:
    gate = gates.close("claude", met("limit", clock.now + 20))
    assert gate.until == clock.now + 20
    clock.now += 19.9
    assert not gates.probe("claude", "me")
    clock.now += 0.2
    assert gates.probe("claude", "me")


def test_exactly_one_prober_gets_through_and_a_dead_one_does_not_keep_the_gate(gates: Gates, clock: Clock) -> None:
    gates.close("claude", met("limit", clock.now + 1))
    clock.now += 2
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        them = identity.identity_of(other.pid)
        assert gates.probe("claude", them)
        assert not gates.probe("claude", identity.identity_of())
        assert "tries already" in gates.obstacles(identity.identity_of())["claude"]
        other.kill()
        other.wait()
    assert gates.probe("claude", identity.identity_of())


def test_a_success_opens_the_gate_for_all(gates: Gates, clock: Clock) -> None:
    gates.close("claude", met("overload"))
    assert gates.open("claude") is not None
    assert gates.read() == {}
    assert gates.open("claude") is None


def test_a_login_wall_stays_until_a_new_run_tries_it(gates: Gates, clock: Clock) -> None:
    gates.close("claude", met("auth"))
    clock.now += 10 * 86400
    assert not gates.probe("claude", "me")
    gates.retry_walls()
    assert gates.probe("claude", "me")


def test_a_worker_on_its_way_that_meets_the_same_wall_is_no_new_strike(gates: Gates, clock: Clock) -> None:
    first = gates.close("claude", met("limit"))
    again = gates.close("claude", met("limit"))
    assert again == first
    known = gates.close("claude", met("limit", clock.now + 100))
    assert (known.until, known.strikes) == (clock.now + 100, 1), "but it may know the reset"


def test_a_reset_that_moves_on_for_ever_ends_in_a_wall(gates: Gates, clock: Clock) -> None:
    for _ in range(STRIKES):
        gate = gates.close("claude", met("limit", clock.now + 5 * 3600))
        assert gate.until is not None
        clock.now = gate.until + 1
    assert gates.close("claude", met("limit", clock.now + 5 * 3600)).until is None


def test_a_broken_file_is_set_aside_and_named(gates: Gates, tmp_path: Path) -> None:
    (tmp_path / ".agents" / "gates.json").write_text('{"claude": ')
    assert gates.read() == {}
    assert list((tmp_path / ".agents" / "quarantine").iterdir())


@given(
    kind=st.sampled_from(["limit", "overload"]),
    resets=st.one_of(st.none(), st.floats(-1e9, 1e9, allow_nan=False)),
    strikes=st.integers(1, STRIKES - 1),
    jitter=st.floats(0, 1),
)
def test_every_wait_is_bounded_and_in_the_future(
    kind: OutcomeKind, resets: float | None, strikes: int, jitter: float
) -> None:
    now = 1_800_000_000.0
    before = Gate(name="x", kind=kind, why="", since=now - 9e4, until=now - 1, strikes=strikes)
    outcome = met(kind, None if resets is None else now + resets)
    gate = closed_by(before, "x", outcome, now, longest=LONGEST, unit=UNIT, jitter=jitter)
    assert gate.strikes == strikes + 1
    assert gate.until is not None
    assert now < gate.until <= now + LONGEST
    if resets is None:
        first, last = BACKOFF[kind]
        assert gate.until - now >= UNIT * min(last, first * 2**strikes) / 2 - 0.001
        assert gate.until - now <= UNIT * last + 0.001
