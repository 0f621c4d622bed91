"""The parts of crews that need no process: shares, seats, what a room in trees is in workers, and what crews did."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import pytest

from agent_fleet.api import Active, Board, Ceiling, Crew, Launch, Outcome, Waiting, Worker
from agent_fleet.plan import Routes
from agent_fleet.queue import finish, lease, names
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.share import Share, parse
from agent_fleet.run import crews
from agent_fleet.run.brief import brief
from agent_fleet.run.deeds import Deeds
from agent_fleet.run.outlook import in_seats
from agent_fleet.run.pacing import Pacing
from agent_fleet.run.roster import Attempt
from agent_fleet.testing.crews import new_crew
from agent_fleet_providers.claude import Claude
from agent_fleet_providers.codex import Codex
from support.jobs import settings
from support.project import enlist, fill, new_queue, take

LANES = {"agent": "headless", "browser": "subagent", "serial": "serial", "command": "subagent"}
MARK = "r3-0123456789abcdef-w2"


def test_a_share_is_exactly_what_a_run_would_send_through_the_lane_to_the_provider() -> None:
    wishes = ("", "subagent", "headless")
    kinds = ("", "claude", "codex")
    for override, preferred in itertools.product(("", "subagent"), ("", "codex")):
        routes = Routes(lanes=LANES, provider="claude", lane_override=override, provider_override=preferred)
        for provider in ("claude", "codex"):
            share = parse(str(crews.share_of(routes, "subagent", provider)))
            for need, lane, kind in itertools.product(names.NEEDS, wishes, kinds):
                goes = routes.lane(need, lane), routes.provider_for(need, kind)
                expected = goes == ("subagent", provider) and need != "command"
                assert share.wanted(5, need, lane, kind) is expected, (override, preferred, provider, need, lane, kind)


@pytest.mark.parametrize("text", ["", "agent", "agent/-", "nonsense/-/-", "agent//claude", "/", "* * *", "agent/-/"])
def test_a_share_that_means_nothing_gives_no_right_to_anything(text: str) -> None:
    assert parse(text) == Share(frozenset())


@pytest.mark.parametrize(
    "mark", ["", "r1", "r1-w2", "r1-ab-w", "r1-ab-w02", "x1-ab-w2", "r1-a/b-w2", "r1-ab-w2-check", "r-ab-w1"]
)
def test_only_the_mark_of_a_worker_names_one(mark: str) -> None:
    assert names.parse_mark(mark) is None
    assert names.parse_mark(MARK) == ("r3", "r3-w2")


def _crew(number: int, seats: int, share: str = "agent/-/-") -> Attempt:
    name = f"r1-w{number}"
    worker = Worker(id=name, lane="hive", pid=0, identity="", handle="")
    return Attempt(
        id=name,
        dir="/nowhere",
        mark=f"r1-ab-w{number}",
        task="",
        generation=0,
        lane="hive",
        provider="bee",
        log="",
        nonce="",
        started=0.0,
        worker=worker,
        seats=seats,
        share=share,
    )


def _board(waiting: int, holders: list[str]) -> Board:
    active = tuple(
        Active(task=f"t{n}", generation=1, owner="o", gate="_", agent=name, lane="", alive=True, beat=0.0, worker=name)
        for n, name in enumerate(holders)
    )
    group = Waiting(priority=5, need="agent", lane="", provider="", gate="_", count=waiting)
    return Board(root="/", now=0.0, counts={}, waiting=(group,), active=active)


@pytest.mark.parametrize(
    ("waiting", "holders", "empty"),
    [
        (9, [], 6),
        (9, ["r1-w1", "r1-w1", "r1-w2"], 3),
        (2, ["r1-w1"], 2),
        (9, ["r1-w1"] * 9, 2),
        (0, [], 0),
    ],
)
def test_seats_are_empty_that_hold_nothing_and_have_a_task_in_sight(
    waiting: int, holders: list[str], empty: int
) -> None:
    found = crews.empty_seats([_crew(1, 4), _crew(2, 2)], _board(waiting, holders))
    assert found == {("hive", "bee"): empty}


def test_a_dismissed_crew_has_no_empty_seats_and_one_with_another_share_has_none_for_these(tmp_path: Path) -> None:
    gone = _crew(1, 4)._replace(dir=str(tmp_path))
    crews.dismiss(gone)
    assert crews.empty_seats([gone, _crew(2, 3, "browser/-/-")], _board(9, [])) == {("hive", "bee"): 0}


@pytest.mark.parametrize(
    ("room", "running", "sessions", "seats", "workers"),
    [
        (5, 0, 0, 1, 5),  # five workers, a tree each
        (5, 0, 0, 4, 20),  # five trees of four
        (5, 8, 2, 4, 20),  # two are there, three more fit
        (5, 8, 2, 1, 11),  # beside two crews three single workers fit
        (1, 8, 2, 4, 8),  # nothing more fits, and nobody is planned away
        (None, 8, 2, 4, None),
    ],
)
def test_what_fits_is_trees_and_each_has_its_seats(
    room: int | None, running: int, sessions: int, seats: int, workers: int | None
) -> None:
    ceiling = Ceiling(name="machine", workers=room, source="x", why="memory")
    found = in_seats(ceiling, running=running, sessions=sessions, seats=seats)
    assert found.workers == workers
    assert "memory" in found.why


def test_deeds_are_those_of_claims_from_within_a_worker_and_each_is_told_once(tmp_path: Path) -> None:
    queue = new_queue(tmp_path / ".agents")
    tasks = fill(queue, ["a", "b", "c", "d"])
    crew = lease.enlist(queue, enlist(queue).identity, agent="r3-w2-1", lane="hive", mark=MARK)
    record = {"outcome": "done", "result": "seen", "charged": False}

    def report(task: str) -> None:
        finish.finish(queue, task, Proof(generation=1), "done", record)

    assert take(queue, crew)
    report(tasks[0])
    deeds = Deeds(queue)
    assert deeds.new() == []  # it was reported before anybody followed
    assert deeds.moved == {"r3-w2": 1}
    assert take(queue, enlist(queue, "somebody"))
    assert take(queue, crew)
    assert deeds.new() == []
    assert deeds.holding() == {"r3-w2": [tasks[2]]}
    for task in tasks[1:3]:
        report(task)
    (deed,) = deeds.new()
    assert (deed.worker, deed.task, deed.generation, deed.state) == ("r3-w2", tasks[2], 1, "done")
    assert deeds.new() == []
    assert deeds.moved == {"r3-w2": 2}


def test_only_two_fruitless_sessions_in_a_row_stop_their_provider(tmp_path: Path) -> None:
    from agent_fleet.run.gates import Gates

    pacing = Pacing(Gates(new_queue(tmp_path / ".agents"), 1.0, 1.0), "me")
    for moved, at_fault in ((0, True), (3, True), (0, True), (0, False), (1, False), (0, True)):
        pacing.note_crew("bee", moved=moved, is_at_fault=at_fault)
        assert pacing.obstacles() == {}
    pacing.note_crew("bee", moved=0, is_at_fault=False)  # nobody's fault says nothing either way
    pacing.note_crew("bee", moved=0, is_at_fault=True, why="the url is no address")
    said = "2 sessions in a row ended without having moved a task; the last said: the url is no address"
    assert pacing.obstacles()["bee"] == said


def test_a_session_that_moved_a_task_opens_the_gate_that_it_probed(tmp_path: Path) -> None:
    from agent_fleet.run.gates import Gates

    gates = Gates(new_queue(tmp_path / ".agents"), 1e-6, 1e-6)
    pacing = Pacing(gates, "me")
    pacing.got_through("bee")
    gates.close("bee", Outcome(kind="limit", reason="no honey", resets_at=1.0))
    gates._clock = lambda: 2e9
    assert pacing.may_start("bee")
    assert not pacing.may_start("bee")
    pacing.got_through("bee")
    assert gates.read() == {}
    assert pacing.may_start("bee")


# ------------------------------------------------------------------------------------------------------- launches


def _claude(root: Path, crew: Crew, toml: str = "") -> Launch:
    return Claude(settings(root, f'[provider.claude]\nbinary = "/bin/true"\n{toml}\n')).crew(crew)


def test_one_session_of_claude_has_what_it_needs_to_report_and_to_start_subagents(tmp_path: Path) -> None:
    made = _claude(tmp_path, new_crew(tmp_path, 3), 'allowed_tools = ["Read"]')
    at = made.argv.index("--allowedTools")
    assert made.argv[at + 1 : at + 4] == ("Read", "Bash(fleet *)", "Agent")
    assert "-p" in made.argv
    assert made.stdin == b"You are a worker.\nClaim a task."
    single = _claude(tmp_path, new_crew(tmp_path, 1))
    assert "Agent" not in single.argv
    assert "--agents" not in single.argv


def test_a_session_on_a_terminal_gets_its_brief_before_any_option_that_takes_several_words(tmp_path: Path) -> None:
    made = _claude(tmp_path, new_crew(tmp_path, 1, interactive=True), 'args = ["--settings", "mine.json"]')
    assert made.argv[1] == "You are a worker.\nClaim a task."
    assert "-p" not in made.argv
    assert made.argv.count("--settings") == 1  # the person's own


@pytest.mark.parametrize("has_tools", [True, False])
@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write", "read-only"])
def test_codex_claims_for_itself_only_where_it_can_reach_the_queue(
    tmp_path: Path, sandbox: str, has_tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_tools:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    toml = f'[provider.codex]\nbinary = "/bin/true"\nsandbox = "{sandbox}"\n'
    codex = Codex(settings(tmp_path, toml))
    is_open = sandbox == "danger-full-access"
    assert codex.most_seats == (1 if is_open or has_tools else 0)
    for interactive in (False, True):
        crew = new_crew(tmp_path / str(interactive), 1, interactive=interactive)
        argv = codex.crew(crew).argv
        assert any(word.startswith("mcp_servers.fleet.") for word in argv) is not is_open
        assert not any(value in word for word in argv for name, value in crew.env.items() if name.startswith("FLEET_"))
    made = codex.crew(new_crew(tmp_path, 1, interactive=True))
    told = made.argv[-1]
    assert told.startswith("You are a worker.\nClaim a task.")
    assert ("tools of the server `fleet`" in told) is not is_open
    assert not any(word == "exec" for word in made.argv)


def test_a_brief_names_each_subagent_and_tells_it_the_protocol() -> None:
    told = brief("r1-w1", 3, kind="fleet-worker")
    assert "r1-w1-1, r1-w1-2, r1-w1-3:" in told.session
    assert "fleet claim NAME" in told.member
    alone = brief("r1-w1", 1, kind="fleet-worker", asked=True)
    assert alone.member == ""
    assert "fleet claim r1-w1" in alone.session
    assert "## The loop" in alone.session
    assert "## The loop" in told.member
    assert "A person sits at this terminal" in alone.session
