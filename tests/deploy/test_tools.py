"""Each part gets the tools that it needs and no others: from the registry's mirror to the real programs' own settings."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.config import Config
from agent_fleet.deploy import toolbox
from agent_fleet.deploy.toolbox import Toolbox
from agent_fleet.errors import FleetError
from agent_fleet.model import Job, Task
from agent_fleet.plugins import PROVIDERS, Plugins
from support.runs import Site

CODEX = Path(__file__).parents[2] / ".clis" / "node_modules" / ".bin" / "codex"
FETCH = {
    "name": "io.example/fetch",
    "packages": [
        {
            "registryType": "pypi",
            "identifier": "mcp-fetch",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "named", "name": "--mode", "value": "strict"}, {"type": "positional"}],
            "environmentVariables": [{"name": "FETCH_KEY", "isSecret": True, "value": "leaked"}],
        }
    ],
}
FAR = {
    "name": "io.example/far",
    "remotes": [
        {
            "type": "streamable-http",
            "url": "https://far.example/mcp",
            "headers": [{"name": "Authorization", "isSecret": True}],
        }
    ],
}
SERVERS = {
    "fetch": {
        "command": "uvx",
        "args": ["mcp-fetch==1.2.0", "--mode", "strict"],
        "env": {"FETCH_KEY": "${FETCH_KEY}"},
    },
    "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "${AUTHORIZATION}"}},
}


def job(place: Path, servers: Any) -> Job:
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "CODEX_HOME": str(place / "codex")}
    (place / "codex").mkdir(exist_ok=True)
    (place / "codex" / "config.toml").write_text(
        '[mcp_servers.mine]\ncommand = "mine"\n[mcp_servers.fetch]\ncommand = "x"\n'
    )
    return Job(
        task=Task(id="t1", target="x"),
        worker="r1-w1",
        prompt="x",
        nonce="abc",
        cwd=str(place),
        env=env,
        scratch=str(place),
        servers=servers,
    )


def argv(name: str, attempt: Job, place: Path) -> list[str]:
    config = Config("/", "")
    program = place / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    config._values[f"provider.{name}.binary"] = str(program)
    return list(Plugins(config, third_party=False).get(PROVIDERS, name).launch(attempt).argv)


def test_a_mirror_becomes_the_settings_of_clients_without_a_secret() -> None:
    found = Toolbox([FETCH, FAR]).servers(["io.example/fetch", "far"])
    assert found == SERVERS
    assert "leaked" not in json.dumps(found)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"name": "a/x"}, "has no package or address"),
        (
            {"name": "a/x", "packages": [{"registryType": "npm", "identifier": "-e", "version": "1"}]},
            "names no package",
        ),
        ({"name": "a/x", "packages": [{"registryType": "nuget", "identifier": "x", "version": "1"}]}, "no package or"),
        ({"name": "a/x", "remotes": [{"url": "file:///etc/passwd"}]}, "has no package or address"),
        (
            {
                "name": "a/x",
                "packages": [
                    {
                        "registryType": "npm",
                        "identifier": "x",
                        "version": "1",
                        "packageArguments": [{"isRequired": True}],
                    }
                ],
            },
            "needs an argument",
        ),
    ],
)
def test_a_server_that_cannot_be_started_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        Toolbox([entry]).servers(["x"])


def test_a_short_name_of_two_servers_is_none(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.json"
    mirror.write_text(
        json.dumps({"servers": [{"server": FETCH}, {"server": {**FETCH, "name": "other/fetch"}}, FAR, 7]})
    )
    box = toolbox.read(str(mirror))
    assert box.names == ("far", "io.example/fetch", "other/fetch")
    with pytest.raises(FleetError, match="no tool server 'fetch'"):
        box.servers(["fetch"])


def test_claude_code_gets_these_servers_and_no_others(tmp_path: Path) -> None:
    words = argv("claude", job(tmp_path, SERVERS), tmp_path)
    file = words[words.index("--mcp-config") + 1]
    assert json.loads(Path(file).read_text()) == {"mcpServers": SERVERS}
    assert "--strict-mcp-config" in words
    assert {"mcp__fetch", "mcp__far"} <= set(words)
    none = argv("claude", job(tmp_path, {}), tmp_path)
    assert json.loads(Path(none[none.index("--mcp-config") + 1]).read_text()) == {"mcpServers": {}}
    assert "--mcp-config" not in argv("claude", job(tmp_path, None), tmp_path)


@pytest.mark.real_cli
@pytest.mark.skipif(not CODEX.exists(), reason="Codex is not installed here")
def test_codex_itself_reads_these_servers_and_has_the_person_s_own_switched_off(tmp_path: Path) -> None:
    attempt = job(tmp_path, SERVERS)
    words = argv("codex", attempt, tmp_path)
    option = next(word for word in words if word.startswith("mcp_servers="))
    done = subprocess.run(  # noqa: PLW1510 -- its status is looked at
        [str(CODEX), "-c", option, "mcp", "list", "--json"],
        env=dict(attempt.env),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert {name for name, each in found.items() if each["enabled"]} == {"fetch-fleet", "far"}
    assert found["fetch-fleet"]["transport"]["args"] == SERVERS["fetch"]["args"]
    assert found["fetch-fleet"]["transport"]["env_vars"] == ["FETCH_KEY"]
    assert found["far"]["transport"]["env_http_headers"] == {"Authorization": "AUTHORIZATION"}


def test_a_deployment_names_its_tools_and_each_order_holds_their_settings(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (site.root / "mirror.json").write_text(json.dumps({"servers": [{"server": FETCH}, {"server": FAR}]}))
    site.configure('[deploy]\nregistry = "mirror.json"\n[providers]\ndefault = "nobody"\n')
    arguments = ("deploy", "--task", "x", "--inputs", "-", "--force")
    site.json(*arguments, "--tools", "fetch", stdin=b"a\n", status=1)
    (order,) = (site.dir / "deployments" / "d1" / "orders").glob("*.json")
    told = json.loads(order.read_text())
    assert (told["tools"], told["servers"]) == (["fetch"], {"fetch": SERVERS["fetch"]})
    answer = site.json(*arguments, "--tools", "nosuch", stdin=b"a\n", status=2)
    assert (answer["code"], answer["hint"]) == ("bad_input", "there are: far, fetch")
