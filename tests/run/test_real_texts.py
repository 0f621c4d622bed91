"""From `fleet add` to the model: hostile texts reach the real CLIs byte for byte, through everything between."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import claude_cli, codex_cli
from support.model_server import ModelServer
from support.responses_server import ResponsesServer
from support.runs import Site
from support.scripted import Reply, ScriptedServer, Turn, say

pytestmark = pytest.mark.real_cli

TEXTS = (
    "line of a megabyte: é 😀 \"quoted\" 'and' `more`\n" * 20_000,
    "-x --dangerously-skip-permissions @file /clear",
    "👩\u200d👩\u200d👧\u200d👦 \u202eback \"double\" 'single' `tick` $HOME $(id) \\ \\n and\n\n\tlines\n  {id} %s {{",
)
CONFIG = """
[run]
stagger = 0
grace = 2
[provider.{provider}]
binary = "{binary}"
"""


def ended(turn: Turn) -> Reply:
    (nonce,) = set(re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt))
    return say(f"read it\n\nFLEET-{nonce} DONE")


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_a_megabyte_a_dash_and_everything_a_shell_knows_reach_the_model_unchanged(
    tmp_path: Path, provider: str
) -> None:
    cli = claude_cli if provider == "claude" else codex_cli
    server: ScriptedServer = ModelServer(ended) if provider == "claude" else ResponsesServer(ended)
    with server:
        site = Site(tmp_path, CONFIG.format(provider=provider, binary=cli.binary()))
        for text in TEXTS:
            assert site.fleet("add", "-", "--provider", provider, stdin=text.encode()).status == 0
        env = {
            name: value for name, value in cli.environment(tmp_path / "agents", server.url).items() if name != "HOME"
        }
        site.work(env=env)

    assert site.counts() == {"done": len(TEXTS)}
    prompts = {re.findall(r"exactly one task, (t\d+)\.", turn.prompt)[0]: turn.prompt for turn in server.turns}
    for number, text in enumerate(TEXTS, 1):
        assert f"\nWhat is to be done:\n{text}\n" in prompts[f"t{number}"]
