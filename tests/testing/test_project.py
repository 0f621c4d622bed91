from __future__ import annotations

import json
from pathlib import Path

import pytest

import agent_fleet.testing
from agent_fleet.plugins import LANES, Plugins
from agent_fleet.testing import FleetProject, script
from support import procs
from support.child import child


def test_tasks_become_what_their_scripts_say(fleet_project: FleetProject) -> None:
    scripts = {
        "done": script("ok", text="it answered 200"),
        "blocked": script("blocked", wall="captcha: shop.example"),
        "failed": script("failed"),
    }
    ids = {state: fleet_project.add(f"Do it. {text}") for state, text in scripts.items()}
    fleet_project.configure("[queue]\nmax_attempts = 1\n")
    ran = fleet_project.run("1")
    assert ran.status == 1
    assert ran.json["states"] == {"done": 1, "blocked": 1, "failed": 1}
    for state, task in ids.items():
        assert fleet_project.show(task)["state"] == state


def test_an_attempt_that_crashes_is_followed_by_what_the_script_says_next(fleet_project: FleetProject) -> None:
    task = fleet_project.add('SCRIPT: [{"mode": "crash"}, {"mode": "failed"}, {"mode": "ok"}]')
    assert fleet_project.run().json["attempts"] == 3
    assert fleet_project.show(task)["state"] == "done"


def test_a_false_claim_is_found_by_its_check(fleet_project: FleetProject) -> None:
    fleet_project.configure("[queue]\nmax_attempts = 1\n")
    false = fleet_project.add(script("false-done"), "--check", "test -e report.txt")
    true = fleet_project.add(script("ok", file="report.txt"), "--check", "test -e report.txt", "--needs", false)
    fleet_project.run()
    assert fleet_project.show(false)["state"] == "failed"
    assert fleet_project.show(true)["state"] == "inbox"


def test_a_plan_is_made_and_nothing_of_this_process_reaches_it(
    fleet_project: FleetProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_WORKER", "mark-of-somebody")
    monkeypatch.setenv("AGENT_DIR", ".elsewhere")
    fleet_project.add("look at it")
    plan = fleet_project.plan()
    assert plan["counts"]["inbox"] == 1
    assert plan["first"][0]["provider"] == "scripted"
    assert (fleet_project.root / ".agents" / "queue.json").is_file()
    assert not (fleet_project.root / ".elsewhere").exists()


def test_a_program_and_a_module_can_be_offered(fleet_project: FleetProject) -> None:
    (fleet_project.site / "cap.py").write_text(
        "from agent_fleet.api import Ceiling, hookimpl\n"
        "class Cap:\n"
        "    name = 'cap'\n"
        "    def ceiling(self, board): return Ceiling(name='cap', workers=7, source='cap', why='seven is enough')\n"
        "    def hold(self, task, board): return None\n"
        "@hookimpl\n"
        "def fleet_policies(): yield Cap()\n"
    )
    fleet_project.offer("policies", "cap", "cap")
    fleet_project.program("agree", "#!/bin/sh\nread -r line\necho I saw it pass\n")
    fleet_project.configure('[agents.agree]\nargv = ["agree"]\n')
    task = fleet_project.add("look at it", "--provider", "agree")
    assert [each["workers"] for each in fleet_project.plan()["ceilings"] if each["name"] == "cap"] == [7]
    assert fleet_project.run().status == 0
    assert fleet_project.show(task)["state"] == "done"


def test_a_refusal_is_an_answer_too(fleet_project: FleetProject) -> None:
    answer = fleet_project.cli("show", "t99")
    assert (answer.status, answer.json["code"]) == (4, "not_found")
    with pytest.raises(AssertionError, match="gave no JSON object"):
        fleet_project.cli("--help").json  # noqa: B018  the property is what fails


def test_only_what_comes_with_fleet_is_among_the_plugins(plugins: Plugins) -> None:
    assert {offer.origin.distribution for offer in plugins.all(LANES)} == {"agent-fleet"}


def test_what_a_run_leaves_behind_is_ended(tmp_path: Path) -> None:
    project = FleetProject(tmp_path / "fleet")
    project.add(script("ignores-sigterm", seconds=300))
    assert project.cli("run", "--force", "--detach").status == 0
    queue = project.root / ".agents"
    procs.wait_until(lambda: any(b"I look" in log.read_bytes() for log in queue.glob("logs/t1.*.log")), "it works")
    (log,) = queue.glob("logs/t1.*.log")
    pid = int(json.loads(log.read_text().splitlines()[0])["session"].rpartition("-")[2])
    assert procs.running(pid)
    project.close()
    assert not procs.running(pid)
    assert list((queue / "active").iterdir()) == []


def test_the_package_loads_pytest_only_for_the_fixtures() -> None:
    code = (
        "import sys, agent_fleet.testing as t; print('pytest' in sys.modules, 'pluggy' in sys.modules)\n"
        "t.check_probe, t.FleetProject; import agent_fleet.testing.provider; print('pytest' in sys.modules)\n"
    )
    assert child("-c", code).stdout.split() == ["False", "False", "False"]


def test_every_public_name_is_there_and_no_other() -> None:
    for name in agent_fleet.testing.__all__:
        assert getattr(agent_fleet.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="nosuch"):
        agent_fleet.testing.nosuch  # noqa: B018  the look is what fails
