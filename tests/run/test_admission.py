"""What is measured and asked before each start, and what becomes of tasks that cannot start."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from agent_fleet.queue import finish, holds
from agent_fleet.queue.finish import Proof
from agent_fleet.text import printable
from support.gadgets import GIB, Gadgets
from support.procs import wait_until
from support.project import enlist, take
from support.runs import QUICK, Site

MEASURED = QUICK + '[capacity]\nprobes = ["file"]\nworker_memory = "1 GiB"\n'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def gadgets(site: Site, tmp_path: Path) -> Gadgets:
    site.configure(MEASURED)
    return Gadgets(site, tmp_path)


def test_under_memory_pressure_nothing_starts_it_says_so_and_goes_on_when_it_ends(site: Site, gadgets: Gadgets) -> None:
    gadgets.set(memory_pressure_full=40.0)
    task = site.command("echo now")
    with site.driving(room=(), env=gadgets.env) as driver:
        wait_until(lambda: site.events("run_started"), "the run has begun")
        time.sleep(2.5)  # longer than one look: a run that started all the same is caught by the next line
        assert (site.state(task), driver.child.poll()) == ("inbox", None)
        gadgets.set()
        answer = driver.end()

    assert answer.status == 0
    assert site.state(task) == "done"
    assert answer.err.count("waiting: ") == 1
    assert "stood still for memory" in answer.err


def test_force_is_the_way_past_pressure(site: Site, gadgets: Gadgets) -> None:
    gadgets.set(memory_pressure_full=40.0)
    task = site.command("echo now")
    site.work(env=gadgets.env)

    assert site.state(task) == "done"


def test_each_start_is_measured_anew_and_counts_what_the_last_one_was_let_in_for(site: Site, gadgets: Gadgets) -> None:
    # room for three workers of 1 GiB above the reserve of a tenth: 12 GiB less 1.6 GiB holds ten, so take away most
    gadgets.set(memory_available=4.7 * GIB)
    for n in range(6):
        site.command(f"touch ../began-{n}; while ! [ -e ../go ]; do sleep 0.1; done")
    with site.driving(room=(), env=gadgets.env) as driver:
        wait_until(lambda: len(site.events("started")) == 3, "as many as there is room for")
        time.sleep(2.5)  # longer than one look: a fourth would be caught by the next line
        assert len(site.events("started")) == 3
        gadgets.set(memory_available=12 * GIB)
        wait_until(lambda: len(site.events("started")) == 6, "the rest")
        site.root.parent.joinpath("go").touch()
        answer = driver.end()

    assert answer.status == 0


def test_starts_are_a_stagger_apart(site: Site) -> None:
    for seconds in ("3", "0.1", "0.1", "3"):  # one that ends meanwhile brings no start forward
        site.command(f"sleep {seconds}")
    site.work("--stagger", "0.7")
    times = [event["at"] for event in site.events("started")]

    assert len(times) == 4
    assert all(later - earlier >= 0.69 for earlier, later in itertools.pairwise(times))


def test_a_provider_that_is_missing_lets_its_tasks_wait_and_others_run(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    agents = [site.add(f"part {n}") for n in range(3)]
    command = site.command("echo fine")
    answer = site.work("--json")

    assert site.state(command) == "done"
    assert {site.state(task) for task in agents} == {"inbox"}
    assert answer.err.count("provider claude cannot be used: ") == 1
    assert answer.data["waiting"] == 3
    assert "no-such-program" in answer.data["why"]
    assert not any(event["task"] in agents for event in site.events("claimed"))


def test_a_run_that_can_start_nothing_for_want_of_a_provider_fails_and_says_what_to_do(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    site.add("part")
    answer = site.work("--json", status=2)

    assert answer.data["code"] == "unusable"
    assert "no-such-program" in answer.data["error"]
    assert answer.data["hint"]
    assert site.fleet("stop").out == "no run is at work here\n"


def test_a_run_that_can_never_start_anything_does_not_wait_for_what_a_person_holds(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    site.command("true")
    assert take(site.queue(), enlist(site.queue())) is not None
    site.add("part")
    site.add("part", "--lane", "nowhere")
    site.add("part", "--provider", "nobody")
    hold = {"why": "a person said so", "until": time.time() + 3000, "source": "test"}
    holds.put(site.queue(), {"t2": hold})
    answer = site.work("--json", status=2)

    assert answer.data["code"] == "unusable"
    for reason in ("no-such-program", "no lanes plugin 'nowhere'", "no providers plugin 'nobody'"):
        assert reason in answer.data["error"]
    assert "nothing more can start: " in answer.err


def test_a_deployment_that_can_never_start_waits_for_nobody_else_either(site: Site) -> None:
    """Other tasks that could start, once somebody ends, are none of its business."""
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    site.command("true", "--touches", "src")
    assert take(site.queue(), enlist(site.queue())) is not None
    site.command("true", "--touches", "src")
    told = site.json("deploy", "--task", "x", "--inputs", "-", "--force", "--stagger", "0", stdin=b"a\nb\n", status=1)

    assert "claude cannot start: " in told["why"]
    assert told["coverage"]["open"] == {"not started": 2}


def test_a_run_waits_for_what_others_hold_where_their_end_lets_something_start(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    site.command("true", "--touches", "src")
    claimed = take(site.queue(), enlist(site.queue()))
    assert claimed is not None
    site.add("part")
    task = site.command("true", "--touches", "src")
    with site.driving("--json") as driver:
        wait_until(lambda: site.events("run_started"), "the run has begun")
        time.sleep(2.5)  # longer than one look: a run that does not wait is caught by the next line
        assert driver.child.poll() is None
        finish.hand_back(site.queue(), claimed.task, Proof(generation=claimed.generation), "enough")
        answer = driver.end()

    assert site.state(task) == "done"
    assert answer.status == 0
    assert "waiting for what others work on" in answer.err


@pytest.mark.parametrize("breaks", ["launch", "reader", "feed", "outcome"])
def test_a_provider_that_raises_costs_its_own_tasks_only(site: Site, gadgets: Gadgets, breaks: str) -> None:
    site.configure(MEASURED + "[queue]\nmax_attempts = 1\n")
    task = site.add("part", "--provider", f"fragile-{breaks}")
    command = site.command("echo fine")
    with site.driving("--json", room=(), env=gadgets.env) as driver:
        answer = driver.end()

    assert site.state(command) == "done"
    assert f"{breaks} is broken" in answer.err + str(site.records(task))
    if breaks == "launch":
        assert (answer.status, site.state(task), site.records(task)) == (0, "inbox", [])
    else:
        assert (answer.status, site.state(task), site.record(task)["outcome"]) == (1, "failed", "unknown")
    assert site.alive() == []
    assert site.is_clean()


def test_a_lane_that_raises_costs_its_own_tasks_only_and_what_it_started_is_ended(site: Site, gadgets: Gadgets) -> None:
    task = site.command("sleep 600", "--lane", "trap")
    command = site.command("echo fine")
    with site.driving(room=(), env=gadgets.env) as driver:
        answer = driver.end()

    assert (answer.status, site.state(task), site.state(command)) == (0, "inbox", "done")
    assert "start is broken" in answer.err
    assert site.records(task) == []
    assert site.alive() == []
    assert site.is_clean()


def test_a_policy_holds_tasks_back_however_many_there_are_and_lets_them_go(site: Site, gadgets: Gadgets) -> None:
    late = [site.command("echo late", "--title", f"late {n}") for n in range(3)]
    early = site.command("echo early", "--priority", "9")
    with site.driving(room=(), env=gadgets.env) as driver:
        wait_until(lambda: site.reached(early, "done"), "what is not held is done")
        assert not {event["task"] for event in site.events("started")} & set(late)
        Path(f"{gadgets.machine}.day").touch()
        answer = driver.end()

    assert answer.status == 0
    assert {site.state(task) for task in late} == {"done"}
    assert "it is night" in answer.err


@pytest.mark.parametrize(
    ("setting", "script", "cause"),
    [
        ("timeout = 1", "echo x; sleep 600", "timeout"),
        ("first_byte = 1", "sleep 600", "first_byte"),
        ("idle = 1", "echo x; sleep 600", "idle"),
    ],
)
def test_each_time_limit_ends_a_worker_with_its_own_cause_and_is_charged(
    site: Site, gadgets: Gadgets, setting: str, script: str, cause: str
) -> None:
    site.configure(f"[run]\nstagger = 0\ngrace = 1\n{setting}\n[queue]\nmax_attempts = 1\n")
    task = site.add(script, "--provider", "verbose")
    site.work(status=1, env=gadgets.env)
    record = site.record(task)

    assert (record["outcome"], record["charged"], record["exit"]["cause"]) == ("timeout", True, cause)
    assert cause in record["reason"]
    assert site.alive() == []


def test_a_command_may_be_silent_but_not_run_longer_than_its_budget(site: Site) -> None:
    site.configure("[run]\nstagger = 0\ngrace = 1\nfirst_byte = 1\nidle = 1\n[queue]\nmax_attempts = 1\n")
    quiet = site.command("sleep 2.5")
    long = site.command("sleep 600", "--budget", "seconds=1")
    site.work(status=1)

    assert (site.state(quiet), site.state(long)) == ("done", "failed")
    assert site.record(long)["exit"]["cause"] == "timeout"


def test_a_budget_of_seconds_holds_over_all_attempts(site: Site) -> None:
    task = site.command("sleep 1.5; exit 1", "--budget", "seconds=2.5")
    site.work(status=1)

    first, second, last = site.records(task)
    assert (first["outcome"], second["outcome"], last["outcome"]) == ("failed", "timeout", "budget")
    assert second["exit"]["seconds"] < 2.4, "it got what the first had left"
    assert "seconds used" in last["reason"]


def test_retries_end_at_the_cap_of_the_run(site: Site) -> None:
    site.configure("[run]\nstagger = 0\nattempts = 4\n[queue]\nmax_attempts = 100\n")
    task = site.command("exit 1")
    answer = site.work("--json")

    assert answer.data["attempts"] == 4
    assert site.state(task) == "inbox"
    assert "the cap of this run is 4" in answer.data["why"]


def test_without_a_cap_of_its_own_a_run_starts_three_attempts_a_task(site: Site) -> None:
    site.configure("[run]\nstagger = 0\n[queue]\nmax_attempts = 100\n")
    site.command("exit 1")
    answer = site.work("--json")

    assert answer.data["attempts"] == 3
    assert printable(answer.data["why"]) == answer.data["why"]
