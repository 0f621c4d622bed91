from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.model import Board, Ceiling, Need, Waiting
from agent_fleet.plan import Exclusion, LaneFacts, Plan, Routes, make
from agent_fleet.queue.task import gate_of

LANES = {"browser": "headless", "agent": "headless", "serial": "serial", "command": "headless"}
ROUTES = Routes(lanes=LANES, provider="claude")
FACTS = (LaneFacts(name="headless", limit=None), LaneFacts(name="serial", limit=1))
UNKNOWN = 4
EVERYTHING = gate_of("", ["**"]).partition("~")[2]


def waiting(
    count: int, *, priority: int = 5, need: Need = "agent", gate: str = "_", lane: str = "", provider: str = ""
) -> Waiting:
    return Waiting(priority=priority, need=need, lane=lane, provider=provider, gate=gate, count=count)


def ceiling(name: str, workers: int | None) -> Ceiling:
    return Ceiling(name=name, workers=workers, source="test", why=f"{name} says so", at=1.0)


def plan(
    *groups: Waiting,
    overall: Iterable[Ceiling] = (),
    running: Mapping[str, int] | None = None,
    done: Iterable[str] = (),
    busy: Mapping[str, int] | None = None,
    taken: Iterable[str] = (),
    hosts_max: int = 1,
    facts: tuple[LaneFacts, ...] = FACTS,
    **more: Any,
) -> Plan:
    return make(
        Board(root="/p", now=100.0, counts={"inbox": sum(group.count for group in groups)}, waiting=groups),
        ROUTES,
        facts,
        overall,
        exclusion=Exclusion(
            hosts_max=lambda _: hosts_max,
            is_done=set(done).__contains__,
            busy=busy or {},
            taken=frozenset(taken),
            everything=EVERYTHING,
        ),
        running=running or {},
        unknown_workers=UNKNOWN,
        **more,
    )


def test_the_smallest_ceiling_binds_and_is_named() -> None:
    made = plan(waiting(10), overall=[ceiling("cap", 7), ceiling("machine", 3), ceiling("battery", 5)])

    assert (made.workers, made.binding.name, made.binding.why) == (3, "machine", "machine says so")


def test_work_binds_where_there_is_less_of_it_than_room() -> None:
    made = plan(waiting(2), overall=[ceiling("machine", 9)])

    assert (made.workers, made.binding.name) == (2, "work")


def test_nothing_to_do_is_no_worker() -> None:
    made = plan(overall=[ceiling("machine", 9)])

    assert (made.workers, made.lanes, made.binding.name) == (0, (), "work")


def test_one_task_a_host_and_not_one_more_than_its_limit() -> None:
    hosts = [waiting(9, need="browser", gate=name) for name in ("a.example", "b.example")]

    assert plan(*hosts).workers == 2
    assert plan(*hosts, hosts_max=3).workers == 6
    assert plan(*hosts, hosts_max=3, busy={"a.example": 2}, running={"headless": 2}).workers == 2 + 1 + 3
    assert plan(*hosts).binding.name == "hosts and paths"


def test_a_host_is_counted_once_across_gates_and_lanes() -> None:
    first = waiting(3, need="browser", gate="a.example")
    touching = waiting(3, need="browser", gate=gate_of("a.example", ["x"]))
    elsewhere = waiting(3, need="browser", gate="a.example", lane="serial", priority=9)

    assert plan(first, touching, elsewhere).workers == 1


def test_no_two_tasks_on_the_same_paths_and_none_beside_one_that_may_touch_all() -> None:
    x, y, everything = (gate_of("", [path]) for path in ("x", "y", "**"))

    assert plan(waiting(5, gate=x), waiting(5, gate=y)).workers == 2
    assert plan(waiting(5, gate=x), taken=[x.partition("~")[2]]).workers == 0
    assert plan(waiting(5, gate=x), taken=[EVERYTHING]).workers == 0
    assert plan(waiting(5, gate=everything)).workers == 1
    assert plan(waiting(5, gate=everything), taken=[x.partition("~")[2]]).workers == 0


def test_what_waits_for_another_task_is_no_work_until_that_is_done() -> None:
    gated = waiting(4, gate="need=t1")

    assert plan(gated).workers == 0
    assert "4 wait for other tasks" in plan(gated).binding.why
    assert plan(gated, done=["t1"]).workers == 4


def test_a_lane_has_its_own_limit_and_says_so() -> None:
    made = plan(waiting(5, need="serial"), waiting(2), overall=[ceiling("machine", 9)])

    assert made.workers == 3
    serial = made.lane("serial")
    assert serial is not None
    assert (serial.workers, serial.binding.name, serial.binding.workers) == (1, "lane", 1)


def test_a_lane_that_cannot_be_used_gets_nobody_and_the_reason() -> None:
    broken = plan(waiting(5), facts=(LaneFacts(name="headless", limit=None, unusable="no screen"),))
    missing = plan(waiting(5, lane="nowhere"))

    assert (broken.workers, missing.workers) == (0, 0)
    assert "no screen" in broken.binding.why
    assert "nowhere" in missing.binding.why


def test_tasks_of_a_provider_that_cannot_be_used_take_no_room_from_others() -> None:
    made = plan(
        waiting(9, priority=1), waiting(9, need="command"), overall=[ceiling("machine", 3)], troubles={"claude": "gone"}
    )
    alone = plan(waiting(9), troubles={"claude": "gone"})

    assert made.workers == 3
    assert (alone.workers, alone.binding.name) == (0, "provider")
    assert "claude cannot start: gone" in alone.binding.why


def test_an_unknown_ceiling_counts_as_few_and_stays_unknown() -> None:
    made = plan(waiting(50), overall=[ceiling("quota", None), ceiling("machine", 30)])

    assert made.workers == UNKNOWN
    assert (made.binding.name, made.binding.workers) == ("quota", None)


def test_room_goes_to_the_lane_with_the_best_priority_first() -> None:
    groups = waiting(5, priority=5), waiting(5, priority=1, need="serial")
    made = plan(*groups, overall=[ceiling("machine", 3)])

    assert [(lane.lane, lane.workers) for lane in made.lanes] == [("serial", 1), ("headless", 2)]


def test_held_tasks_are_no_work() -> None:
    made = plan(waiting(5), held=3)

    assert made.workers == 2
    assert "3 on hold" in made.binding.why


def test_a_lane_in_which_workers_run_is_planned_even_if_nothing_waits_for_it() -> None:
    made = plan(waiting(1), running={"serial": 1}, overall=[ceiling("machine", 1)])

    assert (made.workers, made.running, made.starts) == (1, 1, 0)
    assert {lane.lane: lane.workers for lane in made.lanes} == {"headless": 0, "serial": 1}


def test_what_runs_already_is_never_planned_away() -> None:
    made = plan(waiting(3), running={"headless": 5}, overall=[ceiling("machine", 2)])

    assert (made.workers, made.starts) == (5, 0)


def test_every_ceiling_says_who_says_so_why_and_when() -> None:
    made = plan(
        waiting(3, need="browser", gate="a.example"),
        waiting(2, need="serial"),
        overall=[ceiling("machine", 2)],
        troubles={"x": "y"},
    )
    for each in (*made.ceilings, *(one for lane in made.lanes for one in lane.ceilings)):
        assert each.source
        assert each.why
    assert all(each.at is not None for each in made.ceilings)


GATES = st.sampled_from(
    [
        "_",
        "a.example",
        "b.example",
        gate_of("", ["x"]),
        gate_of("", ["**"]),
        gate_of("a.example", ["y"]),
        "need=t1",
        "need=t2",
    ]
)
GROUPS = st.lists(
    st.builds(
        waiting,
        st.integers(1, 20),
        priority=st.integers(1, 9),
        need=st.sampled_from(["browser", "agent", "serial", "command"]),
        gate=GATES,
        lane=st.sampled_from(["", "headless", "serial"]),
        provider=st.sampled_from(["", "codex"]),
    ),
    max_size=8,
)
OVERALL = st.lists(
    st.builds(ceiling, st.sampled_from(["cap", "machine", "battery"]), st.none() | st.integers(0, 30)), max_size=4
)
RUNNING = st.dictionaries(st.sampled_from(["headless", "serial", "terminal"]), st.integers(0, 6))


@settings(max_examples=300, deadline=None)
@given(GROUPS, OVERALL, RUNNING, st.integers(1, 4))
def test_no_plan_exceeds_a_ceiling_or_falls_below_what_runs(
    groups: list[Waiting], overall: list[Ceiling], running: dict[str, int], hosts_max: int
) -> None:
    made = plan(*groups, overall=overall, running=running, done=["t1"], hosts_max=hosts_max, troubles={"codex": "gone"})
    busy = sum(running.values())

    assert made.workers == sum(lane.workers for lane in made.lanes) == busy + made.starts
    for each in made.ceilings:
        assert made.starts == 0 or made.workers <= (UNKNOWN if each.workers is None else each.workers)
    for lane in made.lanes:
        assert lane.workers >= lane.running == running.get(lane.lane, 0)
        for each in lane.ceilings:
            assert lane.workers <= max(lane.running, UNKNOWN if each.workers is None else each.workers)
    hosts = {group.gate.partition("~")[0] for group in groups if "example" in group.gate}
    free = sum(group.count for group in groups if group.gate in ("_", "need=t1"))
    assert made.starts <= free + hosts_max * len(hosts) + 2


@settings(max_examples=200, deadline=None)
@given(GROUPS, OVERALL, RUNNING, st.integers(0, 30), st.integers(0, 10))
def test_more_room_never_means_fewer_workers(
    groups: list[Waiting], overall: list[Ceiling], running: dict[str, int], machine: int, more: int
) -> None:
    less = plan(*groups, overall=[*overall, ceiling("machine", machine)], running=running)
    roomier = plan(*groups, overall=[*overall, ceiling("machine", machine + more)], running=running)

    assert roomier.workers >= less.workers
