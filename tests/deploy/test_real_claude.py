"""A deployment worked by the real Claude Code against a scripted model on loopback: its prompt, its tools, its tokens."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from support.claude_lab import Lab, verdict
from support.model_server import ModelServer, Reply, Turn, say
from support.scripted import Call

pytestmark = pytest.mark.real_cli

OPTIONS = ("--parts", "2", "--tokens", "0", "--force", "--stagger", "0")
SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("lookup")
@server.tool()
def lookup(word: str) -> str:
    "Look a word up."
    return f"{word} means {word[::-1]}"
server.run()
"""


def _items(turn: Turn) -> list[dict[str, str]]:
    told = turn.prompt.split("-----BEGIN ITEMS ")[1].split("-----END ITEMS ")[0].splitlines()[1:]
    return [json.loads(line) for line in told]


def _reader(turn: Turn) -> Reply:
    if "Take the goal" in turn.prompt:
        parts = [{"title": word, "instruction": f"write of {word}"} for word in ("bees", "ants")]
        return say(json.dumps({"parts": parts}))
    items = _items(turn)
    if "look up" in turn.prompt and not turn.results:
        return Reply([Call("mcp__lookup__lookup", {"word": items[0]["value"]})])
    found = json.loads(turn.results[-1])["result"] if turn.results else "seen"
    lines = [json.dumps({"item": each["item"], "value": found, "confidence": 0.8}) for each in items]
    return verdict(turn, "Done:\n" + "\n".join(lines))


def test_a_goal_is_taken_apart_by_the_program_itself(tmp_path: Path) -> None:
    with ModelServer(_reader) as server:
        lab = Lab(tmp_path, server)
        report = lab.site.json("deploy", "--task", "insects", "--agents", "2", *OPTIONS, env=lab.env)
        assert [item["input"]["title"] for item in report["items"]] == ["bees", "ants"]
        assert report["coverage"]["whole"] is True
        asked = [turn for turn in server.turns if "Take the goal" in turn.prompt]
        assert len(asked) == 1


def test_each_agent_has_its_own_items_and_the_tools_of_its_part_alone(tmp_path: Path) -> None:
    with ModelServer(_reader) as server:
        lab = Lab(tmp_path, server)
        site = lab.site
        program = tmp_path / "lookup.py"
        program.write_text(SERVER)
        package = {"registryType": "pypi", "identifier": "lookup", "version": "1", "transport": {"type": "stdio"}}
        mirror = {"servers": [{"server": {"name": "io.example/lookup", "packages": [package]}}]}
        (site.root / "mirror.json").write_text(json.dumps(mirror))
        runner = tmp_path / "bin" / "uvx"
        runner.write_text(f'#!/bin/sh\ntest "$1" = "lookup==1" && exec {sys.executable} {program}\n')
        runner.chmod(0o755)
        config = (site.dir / "config.toml").read_text()
        site.configure(config + '[deploy]\nregistry = "mirror.json"\n')
        report = site.json(
            *("deploy", "--task", "look up", "--inputs", "-", "--tools", "lookup", *OPTIONS),
            stdin=b"abc\nxyz\n",
            env=lab.env,
        )
        assert [item["value"] for item in report["items"]] == ["abc means cba", "xyz means zyx"]
        assert report["tokens"] == sum(asdict(server.sent()).values())
        assert {len(_items(turn)) for turn in server.turns} == {1}
