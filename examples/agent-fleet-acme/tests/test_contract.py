from pathlib import Path

from agent_fleet_acme import Acme

from agent_fleet.testing import FleetProject, check_accounts, check_provider

ANSWER = ('{"type": "text", "text": "I look."}', '{"type": "answer", "text": "The test passes."}')
PROGRAM = f"#!/bin/sh\ncat >prompt.seen\nprintf '%s\\n' '{ANSWER[0]}' '{ANSWER[1]}'\n"


def test_contract(tmp_path: Path) -> None:
    check_provider(Acme(), tmp_path, answer=ANSWER)


def test_accounts(tmp_path: Path) -> None:
    if check_accounts(Acme(), tmp_path).homes != ("ACME_HOME",):
        raise AssertionError("acme does not say where its accounts live")


def test_a_task_is_worked(fleet_project: FleetProject) -> None:
    fleet_project.program("acme", PROGRAM)
    fleet_project.add("Fix the test.", "--provider", "acme")
    if fleet_project.run().json["states"] != {"done": 1}:
        raise AssertionError("acme did not do its task")
    if "Fix the test." not in (fleet_project.root / "prompt.seen").read_text():
        raise AssertionError("acme did not see its prompt")
