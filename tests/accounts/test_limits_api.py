"""Agents over an API under accounts: a limit or a refused key closes the account, and the next one does the tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.queue import records
from support.estate import Estate
from support.model_server import Fault, ModelServer, Turn, say

KEYS = ("sk-first-0000", "sk-second-0000")
SETTINGS = """
[run]
stagger = 0
[lanes]
agent = "api"
[api]
seats = 2
retries = 0
[accounts]
pool = "keys"
[provider.anthropic]
model = "claude-haiku-4-5"
url = "{url}"
"""


@pytest.fixture
def desk(top: Path) -> Estate:
    """Two API keys, of which the first has the greater weight."""
    found = Estate(top, claude=1)  # the registry is made with one at least; it stays disabled
    for number, key in enumerate(KEYS, 1):
        file = top / f"key-{number}"
        file.write_text(key)
        file.chmod(0o600)
        words = ("--provider", "anthropic", "--pool", "keys", "--weight", str(3 - number))
        found.json("profile", "add", f"key-{number}", *words, "--option", f"key_file={file}")
    found.json("project", "register", str(found.root), "--provider", "anthropic")
    found.edit({"[providers.anthropic]": f'binary = "{Path(sys.executable).with_name("fleet")}"'})
    found.json("profile", "provision", "--all")
    found.json("profile", "identity", "adopt", "key-1")
    for number in (1, 2):
        found.json("profile", "enable", f"key-{number}")
    found.json("init")
    return found


@pytest.mark.parametrize(("status", "kind"), [(429, "limit"), (401, "auth")])
def test_a_wall_closes_the_key_and_the_next_one_does_the_tasks(desk: Estate, status: int, kind: str) -> None:
    def brain(turn: Turn) -> Any:
        if turn.headers["x-api-key"] == KEYS[0]:
            return Fault(status, "an_error", "no", {"retry-after": "3600"})
        return say("did it")

    with ModelServer(brain) as server:
        (desk.dir / "config.toml").write_text(SETTINGS.format(url=server.url))
        tasks = [desk.add(f"do {number}") for number in range(3)]
        answer = desk.fleet("run", "--force", "--max", "2")
    assert [desk.state(task) for task in tasks] == ["done"] * 3, answer
    assert [[each["outcome"] for each in records.outcomes(desk.queue(), task)] for task in tasks] == [["done"]] * 3
    events = [json.loads(line) for line in (desk.dir / "journal.jsonl").read_text().splitlines()]
    assert [event["account"] for event in events if event["event"] == "mustered"] == ["key-1", "key-2"]
    assert [event["outcome"] for event in events if event["event"] == "disbanded"] == [kind, "done"]
    (path,) = (desk.kept / "cooldowns").iterdir()
    closed = json.loads(path.read_text())
    assert (closed["profile"], closed["reason"].partition(":")[0]) == ("key-1", kind)
    assert desk.leases() == {}
