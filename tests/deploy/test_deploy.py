"""`fleet deploy` with real processes: every input is covered exactly once, whatever dies when."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.deploy import orders as work_orders
from agent_fleet.queue import records
from support.deployments import hire_scripted, hired, worked
from support.procs import wait_until
from support.project import git, repository
from support.runs import Site

ROOM = ("--force", "--stagger", "0")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return hired(Site(tmp_path))


def inputs(site: Site, lines: list[str]) -> str:
    file = site.root.parent / "inputs.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def deploy(site: Site, lines: list[str], *options: str, status: int = 0) -> dict[str, Any]:
    return site.json(
        "deploy", "--task", "Turn it round", "--inputs", inputs(site, lines), *ROOM, *options, status=status
    )


def orders(site: Site) -> list[dict[str, Any]]:
    files = sorted((site.dir / "deployments" / "d1" / "orders").glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def done(site: Site) -> int:
    return len(list(site.dir.glob("done/*/*.json")))


@pytest.mark.slow
def test_a_thousand_inputs_are_each_covered_once_though_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    site = hired(Site(tmp_path))
    lines = [f"https://site.example/{n}" for n in range(1000)]
    arguments: tuple[str, ...] = ("deploy", "--task", "Read it", "--inputs", inputs(site, lines), "--parts", "100")
    arguments += ("--agents", "6", *ROOM)
    for reached in (3, 50):
        with site.start(*arguments) as driver:
            wait_until(lambda: done(site) >= reached or driver.poll() is not None, "some parts are done")  # noqa: B023
            assert driver.poll() is None
            driver.kill()
            driver.communicate(timeout=30)
        arguments = ("resume-run", "d1", *ROOM)

    report = site.json(*arguments)
    assert report["coverage"] == {
        "asked": 1000,
        "answered": 1000,
        "failed": {},
        "skipped": 0,
        "open": {},
        "whole": True,
    }
    assert {item["input"]: item["value"] for item in report["items"]} == {line: line[::-1] for line in lines}
    assert worked(site) == Counter({f"i{n}": 1 for n in range(1, 1001)}), "no part is paid for twice"
    assert Counter(order["part"] for order in orders(site)) == Counter(range(1, 101))
    queue = site.queue()
    assert all(len(records.outcomes(queue, task)) == 1 for task, _, _ in queue.settled("done"))
    assert site.is_clean()
    assert site.json("report", "d1")["coverage"]["whole"] is True
    site.fleet("resume-run", "d1", *ROOM)
    assert len(worked(site)) == sum(worked(site).values()) == 1000, "to go on with what is whole does nothing"


def test_what_an_agent_leaves_out_or_gets_wrong_is_asked_again_and_only_that(site: Site, tmp_path: Path) -> None:
    schema = tmp_path / "contract.json"
    schema.write_text('{"type": "string"}')
    lines = ["one", "lose two", "lie three", "four", "skip five", "fail six"]
    report = deploy(site, lines, "--agents", "2", "--contract", str(schema), status=1)

    kinds = {item["input"]: (item["kind"], item.get("fault")) for item in report["items"]}
    assert kinds["skip five"] == ("skipped", "")
    assert kinds["fail six"] == ("failed", "unreachable")
    assert report["coverage"] | {"whole": None} == {
        "asked": 6,
        "answered": 4,
        "failed": {"unreachable": 1},
        "skipped": 1,
        "open": {},
        "whole": None,
    }
    assert worked(site) == Counter({"i1": 1, "i2": 2, "i3": 2, "i4": 1, "i5": 1, "i6": 1})
    assert [order["round"] for order in orders(site)].count(1) == 1


def test_an_item_that_is_never_answered_is_given_out_so_often_and_no_more(site: Site, tmp_path: Path) -> None:
    schema = tmp_path / "contract.json"
    schema.write_text('{"type": "integer"}')
    report = deploy(site, ["one"], "--contract", str(schema), "--redispatch", "2", status=1)
    assert report["coverage"]["failed"] == {"invalid": 1}
    assert worked(site) == Counter({"i1": 3})
    assert site.json("resume-run", "d1", *ROOM, status=1)["coverage"]["failed"] == {"invalid": 1}
    assert worked(site) == Counter({"i1": 3})


def test_agents_that_die_are_counted_first_and_no_verdict_is_given(site: Site) -> None:
    script = 'import sys; sys.exit(3) if \'die\' in sys.stdin.read() else print(\'{"item": "i1", "value": 1}\')'
    site.configure(
        '[providers]\ndefault = "frail"\n[queue]\nmax_attempts = 1\n'
        f"[agents.frail]\nargv = {json.dumps([sys.executable, '-I', '-S', '-c', script])}\n"
    )
    deploy(site, ["fine", *(f"die {n}" for n in range(3))], "--parts", "4", status=1)
    answer = site.fleet("report", "d1")
    assert answer.status == 1
    assert answer.out.splitlines()[0] == (
        "d1: 1 of 4 items answered, 3 failed (failed) (not whole: no conclusion about the rest)"
    )


def test_a_deployment_leaves_the_other_tasks_of_the_queue_alone(site: Site) -> None:
    other = site.add("somebody else's")
    assert deploy(site, ["a", "b"])["coverage"]["whole"] is True
    assert site.state(other) == "inbox"
    assert site.json("report", "r1")["coverage"]["whole"] is True, "what is no business of its run is not missing in it"


def test_an_agent_that_claims_for_itself_within_a_share_gets_its_deployment_alone(site: Site) -> None:
    other = site.add("somebody else's")
    queue = site.queue()
    deployment = _given_out(site, ["a"])
    share = f"agent/-/- run={deployment}"
    claimed = site.json("claim", "me", env={"FLEET_SHARE": share})
    assert claimed["task"]["run"] == deployment
    assert '"value": "a"' in claimed["task"]["notes"]
    assert site.json("claim", "me", env={"FLEET_SHARE": share}, status=3)["code"] == "nothing_to_claim"
    assert queue.find(other) is not None
    assert site.state(other) == "inbox"


def _given_out(site: Site, lines: list[str]) -> str:
    """A deployment whose tasks were added and whose driver was killed before it could start one."""
    site.configure('[providers]\ndefault = "nobody"\n')
    deploy(site, lines, status=1)
    return "d1"


def test_what_others_work_on_is_not_waited_for_in_circles(site: Site) -> None:
    deployment = _given_out(site, ["a"])
    site.json("claim", "somebody", "--owner", str(os.getpid()), env={"FLEET_SHARE": f"agent/-/- run={deployment}"})
    hired(site)
    answer = site.json("resume-run", deployment, *ROOM, status=1)
    assert answer["why"] == "others work on 1 part of it"
    assert len(site.json("runs")["runs"]) <= 2


def test_an_estimate_says_what_it_rests_on_and_leaves_nothing_behind(site: Site) -> None:
    before = site.files()
    answer = deploy(site, ["a", "b", "b"], "--estimate", "--model", "claude-sonnet-5-5")
    assert site.files() == before
    assert (answer["items"], answer["repeated"]) == (2, 1)
    assert answer["money"]["low"] < answer["money"]["likely"] < answer["money"]["high"]
    assert "assumed" in answer["basis"][0]
    unknown = deploy(site, ["a"], "--estimate", "--model", "nobody-knows-it")
    assert unknown["money"] == {"low": None, "likely": None, "high": None}
    assert "unknown" in site.fleet("deploy", "--task", "x", "--inputs", inputs(site, ["a"]), "--estimate").out


def test_an_estimate_asks_no_model(site: Site) -> None:
    site.configure('[providers]\ndefault = "fatal"\n[agents.fatal]\nargv = ["/bin/sh", "-c", "echo asked >> asked"]\n')
    answer = site.json("deploy", "--task", "Plan it", "--agents", "7", "--estimate", *ROOM)
    assert (answer["parts"], answer["notes"]) == (7, ["no model was asked: 7 parts of the same size are assumed"])
    assert not (site.root / "asked").exists()
    assert deploy(site, ["a", "b"], "--decompose", "llm", "--agents", "2", "--estimate")["parts"] == 2


def test_a_deployment_in_the_background_is_stopped_by_its_name_and_goes_on_where_it_was(tmp_path: Path) -> None:
    site = hired(Site(tmp_path), 0.2)
    lines = [f"item {n}" for n in range(12)]
    started = deploy(site, lines, "--parts", "12", "--agents", "2", "--detach")
    wait_until(lambda: done(site) >= 2, "something is done")
    assert site.json("stop", "d1")["stopped"] == [started["run"]]
    assert site.alive() == []
    assert site.json("report", "d1", status=1)["coverage"]["open"]
    (told,) = site.json("runs")["deployments"]
    assert (told["id"], told["parts"]) == ("d1", 12)

    assert site.json("resume-run", "d1", *ROOM)["coverage"]["whole"] is True
    assert set(worked(site)) == {f"i{n}" for n in range(1, 13)}
    assert len(orders(site)) == 12
    assert site.json("cost", "--run", "d1")["total"]["attempts"] >= 12


def test_a_codebase_is_shared_out_by_what_git_tracks(site: Site) -> None:
    repository(site.root)
    for name in ("a/one.py", "a/two.py", "b/one.py"):
        (site.root / name).parent.mkdir(exist_ok=True)
        (site.root / name).write_text("x = 1\n")
    git(site.root, "add", "a", "b")
    (site.root / "b" / "untracked.py").write_text("")
    os.symlink("a", site.root / "link")
    git(site.root, "add", "link")
    report = site.json("deploy", "--task", "Read", "--repo", str(site.root), "--parts", "2", *ROOM)
    assert {item["input"] for item in report["items"]} == {"README", "a/one.py", "a/two.py", "b/one.py"}
    assert report["notes"][0].startswith("1 tracked entries are left out")
    outside = site.json("deploy", "--task", "Read", "--repo", "/", *ROOM, status=2)
    assert outside["code"] == "bad_input"


def test_a_goal_is_taken_apart_by_the_model_of_a_provider(site: Site) -> None:
    plan = json.dumps({"parts": [{"title": t, "instruction": f"write {t}"} for t in ("one", "two")]})
    script = f"import sys\ntext = sys.stdin.read()\nif 'Take the goal' in text: print({plan!r})\nelse: exec({CLERK!r})"
    site.configure(
        f'[providers]\ndefault = "thinker"\n[agents.thinker]\nargv = {json.dumps([sys.executable, "-I", "-S", "-c", script])}\n'
    )
    report = site.json("deploy", "--task", "Write a book", "--agents", "2", *ROOM)
    assert [item["input"]["title"] for item in report["items"]] == ["one", "two"]
    assert report["coverage"]["whole"] is True


CLERK = """
import json
for line in text.splitlines():
    if line.startswith('{"item": "i'):
        print(json.dumps({"item": json.loads(line)["item"], "value": "written"}))
"""


def test_a_death_between_the_orders_and_the_tasks_costs_no_part(site: Site) -> None:
    """What a batch left behind that was never acknowledged counts for nothing: its numbers are used by nobody."""
    deploy(site, ["a", "b"], "--parts", "2")
    stray = site.dir / "deployments" / "d1" / "orders" / "t99.json"
    stray.write_text((stray.parent / "t1.json").read_text())
    (stray.parent / "t98.json").write_text("{")
    (stray.parent / "nonsense").write_text("")
    report = site.json("resume-run", "d1", *ROOM)
    assert report["coverage"]["whole"] is True
    assert len(worked(site)) == 2


def test_a_record_that_was_changed_is_not_gone_on_with(site: Site) -> None:
    deploy(site, ["a", "b"])
    parts = site.dir / "deployments" / "d1" / "parts.json"
    parts.write_text(parts.read_text().replace('"a"', '"c"'))
    answer = site.json("resume-run", "d1", *ROOM, status=1)
    assert answer["code"] == "corrupt"
    assert "fault" in site.json("runs")["deployments"][0]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--inputs", "nosuch.txt"), "not_found"),
        (("--inputs", "/"), "bad_input"),
        (("--inputs", "-", "--repo", "."), "usage"),
        (("--repo", "."), "bad_input"),
        (("--inputs", "-", "--form", "csv"), "bad_input"),
        (("--inputs", "-", "--decompose", "nosuch"), "unknown_plugin"),
        (("--inputs", "-", "--provider", "nosuch"), "unknown_plugin"),
    ],
)
def test_what_cannot_be_deployed_says_why_and_leaves_nothing(site: Site, arguments: tuple[str, ...], code: str) -> None:
    before = site.files()
    answer = site.json(
        "deploy", "--task", "x", *arguments, *ROOM, status=4 if code == "not_found" else 2, stdin=b"a,a\n1,2\n"
    )
    assert answer["code"] == code
    assert site.files() == before


def test_the_tiers_of_the_configuration_are_those_that_a_model_may_choose_from(site: Site) -> None:
    plan = json.dumps({"parts": [{"title": t, "instruction": f"write {t}", "tier": t} for t in ("small", "large")]})
    script = f"import sys\ntext = sys.stdin.read()\nif 'Take the goal' in text: print({plan!r})\nelse: exec({CLERK!r})"
    argv = json.dumps([sys.executable, "-I", "-S", "-c", script])
    tiers = '[tiers.small]\nlevel = 1\nmodel = "cheap"\n[tiers.large]\nlevel = 2\nmodel = "dear"\n'
    site.configure(f'[providers]\ndefault = "thinker"\n[agents.thinker]\nargv = {argv}\n{tiers}')
    assert site.json("deploy", "--task", "Write", "--agents", "2", *ROOM)["coverage"]["whole"] is True
    assert [site.json("show", task)["task"]["model"] for task in ("t1", "t2")] == ["cheap", "dear"]


PLANNER = """
import json, sys
text = sys.stdin.read()
plan = {"parts": [{"title": t, "instruction": "write " + t} for t in ("one", "two")]}
lines = [json.loads(line)["item"] for line in text.splitlines() if line.startswith('{"item": "i')]
said = json.dumps(plan) if "Take the goal" in text else "\\n".join(json.dumps({"item": i, "value": 1}) for i in lines)
print(json.dumps({"type": "started", "session": "s", "model": "m", "identity": "scripted@example.com"}))
print(json.dumps({"type": "usage", "input": 100, "output": 10, "turns": 1, "money": 0.04}))
print(json.dumps({"type": "result", "status": "done", "text": said}))
"""


def test_what_planning_cost_is_in_the_ledger_in_the_deployment_and_under_its_ceiling(tmp_path: Path) -> None:
    site = Site(tmp_path)
    env = hire_scripted(site, tmp_path, PLANNER)
    arguments = ("deploy", "--task", "Write a book", "--agents", "2", *ROOM)
    report = site.json(*arguments, env=env)
    assert report["money"]["known"] == pytest.approx(0.12), "one question and two parts"
    assert site.json("cost", "--run", "d1")["total"]["money"]["amount"] == pytest.approx(0.12)
    rows = {row["key"]: row["money"]["amount"] for row in site.json("cost", "--by", "run")["rows"]}
    assert rows == {"d1": pytest.approx(0.04), "r1": pytest.approx(0.08)}

    stopped = site.json(*arguments, "--money", "0.05", env=env, status=1)
    assert stopped["coverage"]["answered"] == 1, "the question and one part: it is ended after it has said what it used"
    site.configure('[providers]\ndefault = "hired"\n[budget]\nday_money = 0.10\n')
    refused = site.json(*arguments, env=env, status=2)
    assert refused["code"] == "refused"
    assert "money of the day" in refused["error"]


def test_what_a_quick_part_has_left_is_worked_before_a_slow_one_ends(tmp_path: Path) -> None:
    """The slow part ends only when somebody has worked what the quick one left."""
    site = hired(Site(tmp_path))
    report = deploy(site, ["lose it", "wait for it"], "--parts", "2", "--agents", "2")
    assert report["coverage"]["whole"] is True
    assert worked(site) == Counter({"i1": 2, "i2": 1})
    assert len(site.json("runs")["runs"]) == 1, "no round has to end for it"
    (rest,) = [order for order in orders(site) if order["round"]]
    assert rest["of"] == "t1"


def test_what_is_left_is_given_out_once_though_its_driver_is_killed_just_then(tmp_path: Path) -> None:
    site = hired(Site(tmp_path), 0.1)
    lines = [f"lose {n}" for n in range(12)]
    arguments: tuple[str, ...] = ("deploy", "--task", "Turn", "--inputs", inputs(site, lines), "--parts", "12")
    arguments += ("--agents", "4", *ROOM)
    for least in (1, 5):
        with site.start(*arguments) as driver:
            wait_until(
                lambda: sum(bool(order["round"]) for order in orders(site)) >= least or driver.poll() is not None,  # noqa: B023
                "something is given out again",
            )
            driver.kill()
            driver.communicate(timeout=30)
        arguments = ("resume-run", "d1", *ROOM)
    assert site.json(*arguments)["coverage"]["whole"] is True
    queue = site.queue()
    given = [order for task, order in work_orders.all_of(queue, "d1") if queue.find(task)]  # others never came to be
    assert Counter(order.of for order in given if order.round) == Counter(f"t{n}" for n in range(1, 13))
