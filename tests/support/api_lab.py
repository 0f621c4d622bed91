"""A project whose tasks are worked by agents over an API, against a model server in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.project import Answer
from support.runs import QUICK, Site

SERVER = Path(__file__).with_name("api_server.py")
KEY = "sk-test-0000"
MODEL = "claude-haiku-4-5"
CROWDED = """
import os, resource, sys
files, taken = int(sys.argv[1]), int(sys.argv[2])
for _ in range(taken):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the server is."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/count", timeout=30) as answer:  # noqa: S310 - a loopback address
            found = json.load(answer)
        assert isinstance(found, dict)
        return found

    @property
    def calls(self) -> int:
        return sum(self.count()["calls"].values())


@contextmanager
def serving() -> Iterator[ApiServer]:
    """A server, for as long as the context lasts."""
    with subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            yield ApiServer(int(child.stdout.readline()))
        finally:
            child.kill()


class Lab(Site):
    """A project whose agents ask one server."""

    def __init__(self, root: Path, server: ApiServer, *, provider: str = "anthropic", config: str = "") -> None:
        self.server = server
        self.provider = provider
        super().__init__(
            root,
            f"""{QUICK}
[lanes]
agent = "api"
[providers]
default = "{provider}"
[provider.{provider}]
model = "{MODEL}"
{config}
""",
        )

    def environment(self, **more: str) -> dict[str, str]:
        addresses = {"anthropic": "ANTHROPIC", "openai": "OPENAI"}
        name = addresses[self.provider]
        path = "" if self.provider == "anthropic" else "/v1"
        given = {f"{name}_API_KEY": KEY, f"{name}_BASE_URL": f"{self.server.url}{path}", "FLEET_API_BACKOFF": "0.05"}
        return super().environment(**(given | more))

    def agents(self, most: int, status: int = 0, *, env: Mapping[str, str] | None = None) -> Answer:
        """Run the queue to its end with so many agents at most."""
        with self.driving(room=("--force", "--max", str(most)), env=env) as driver:
            answer = driver.end()
        assert answer.status == status, answer
        return answer

    def batch(self, texts: list[str]) -> list[str]:
        """Add many tasks at once; returns their ids."""
        lines = "".join(json.dumps({"target": text}) + "\n" for text in texts)
        answer = self.fleet("add-batch", "-", "--json", stdin=lines.encode())
        assert answer.status == 0, answer
        first = int(answer.data["first"][1:])
        return [f"t{first + n}" for n in range(len(texts))]

    @contextmanager
    def host(self, seats: int, *, files: int = 0, taken: int = 0, **env: str) -> Iterator[subprocess.Popen[bytes]]:
        """A host without a driver above it, ended with the context: a test that gave up on it must fail and not wait for it.

        It may have so many files open (0: as many as we), so many of which are `taken`.
        """
        given = {
            "AGENT_ROOT": str(self.root),
            "FLEET_PROVIDER": self.provider,
            "FLEET_LANE": "api",
            "FLEET_SHARE": "agent/-/-",
            "FLEET_SEATS": str(seats),
            **env,
        }
        bounded = ["-c", CROWDED, str(files), str(taken)] if files else []
        with subprocess.Popen(
            [sys.executable, *bounded, "-m", "agent_fleet.agents", "host"],
            cwd=self.root,
            env=self.environment(**given),
            stdout=subprocess.PIPE,
        ) as child:
            try:
                yield child
            finally:
                child.kill()
