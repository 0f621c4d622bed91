"""What comes with fleet keeps the contracts that plugins of others are held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.config import load
from agent_fleet.plugins import CAPACITY, LANES, POLICIES, PROVIDERS, Family, Plugins
from agent_fleet.protocols import Accounts
from agent_fleet.testing import check_accounts, check_lane, check_policy, check_probe, check_provider
from agent_fleet.testing.provider import Scripted

TEMPLATES = """\
[agents.by-stdin]
argv = ["cat"]

[agents.by-file]
argv = ["cat", "{prompt_file}"]
"""


def builtin() -> Plugins:
    return Plugins(load("/", queue_dir="", environ={}), third_party=False)


def names(family: Family[Any]) -> list[str]:
    return [offer.name for offer in builtin().all(family)]


@pytest.mark.parametrize("name", names(CAPACITY))
def test_probe(name: str, plugins: Plugins) -> None:
    check_probe(plugins.get(CAPACITY, name))


@pytest.mark.parametrize("name", names(LANES))
def test_lane(name: str, plugins: Plugins, tmp_path: Path) -> None:
    lane = plugins.get(LANES, name)
    if reason := lane.usable():
        pytest.skip(f"{name}: {reason}")
    check_lane(lane, tmp_path)


@pytest.mark.parametrize("name", names(POLICIES))
def test_policy(name: str, plugins: Plugins) -> None:
    check_policy(plugins.get(POLICIES, name))


@pytest.mark.parametrize("name", names(PROVIDERS))
def test_provider(name: str, plugins: Plugins, tmp_path: Path) -> None:
    check_provider(plugins.get(PROVIDERS, name), tmp_path, need="command" if name == "command" else "agent")


@pytest.mark.parametrize(
    "name", [offer.name for offer in builtin().all(PROVIDERS) if isinstance(offer.thing, Accounts)]
)
def test_accounts(name: str, plugins: Plugins, tmp_path: Path) -> None:
    check_accounts(plugins.get(PROVIDERS, name), tmp_path)


def test_five_kinds_have_accounts() -> None:
    assert [offer.name for offer in builtin().all(PROVIDERS) if isinstance(offer.thing, Accounts)] == [
        "anthropic",
        "apikey",
        "claude",
        "codex",
        "openai",
    ]


@pytest.mark.parametrize("name", ["by-stdin", "by-file"])
def test_agent_of_a_table(name: str, tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "config.toml").write_text(TEMPLATES)
    config = load(str(tmp_path), queue_dir=str(tmp_path / ".agents"), environ={})
    check_provider(Plugins(config).get(PROVIDERS, name), tmp_path, answer=["I looked.", "The test passes."])


def test_scripted_agent(tmp_path: Path) -> None:
    started = {"type": "started", "session": "s", "identity": "scripted@example.com"}
    result = {"type": "result", "status": "done", "reason": "", "text": "I saw it pass."}
    check_provider(Scripted({}), tmp_path, answer=[json.dumps(started), json.dumps(result)])
