"""What the providers share whose agents are fleet's own, over an API: the process, its reader, its key and its address."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar
from urllib.parse import urlsplit

from agent_fleet.api import (
    KEYS,
    Account,
    AccountSpec,
    Config,
    CredentialPlace,
    Crew,
    Dialect,
    Exit,
    FleetError,
    HostReader,
    Job,
    Launch,
    Outcome,
    Reader,
    Surroundings,
)
from agent_fleet_providers._scratch import write_private
from agent_fleet_providers._verdict import verdict, wall


class Hosted:
    """A provider of agents over one API. A subclass names the key's variable and the address's, and makes the dialect."""

    name: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def most_seats(self) -> int | None:
        return None

    def usable(self) -> str | None:
        return None if find_spec("aiohttp") else "it needs the library aiohttp: pip install 'agent-fleet[api]'"

    def launch(self, job: Job) -> Launch:
        """A process for one task; its prompt goes in by standard input. Raises `io_error`."""
        told = {
            "model": job.task.model or self._config.get(f"provider.{self.name}.model"),
            "tokens": job.task.budget.tokens,
            "turns": job.task.budget.turns,
        }
        order = write_private(os.path.join(job.scratch, "agent.json"), json.dumps(told))
        return Launch(
            worker=job.worker,
            argv=(sys.executable, "-m", "agent_fleet.agents", "one", order),
            cwd=job.cwd,
            env=self._env(job.env),
            log=os.path.join(job.scratch, "output.log"),
            stdin=job.prompt.encode("utf-8", "replace"),
        )

    def reader(self, job: Job) -> Reader:
        return _OneReader(job)

    def crew(self, crew: Crew) -> Launch:
        """A process of so many agents. They claim by the queue's own functions: the brief is kept beside them, for people."""
        write_private(os.path.join(crew.scratch, "brief.txt"), crew.brief)
        return Launch(
            worker=crew.worker,
            argv=(sys.executable, "-m", "agent_fleet.agents", "host"),
            cwd=crew.cwd,
            env={**self._env(crew.env), "FLEET_SEATS": str(crew.seats)},
            log=os.path.join(crew.scratch, "output.log"),
        )

    def crew_reader(self, crew: Crew) -> Reader:
        del crew
        return HostReader()

    def account_spec(self) -> AccountSpec:
        return AccountSpec(
            binary="fleet",
            surroundings=Surroundings(secret=(self.key_variable, self.url_variable)),
            credentials=(CredentialPlace(store="named", name=self.key_variable, kind="api_key"),),
        )

    def identity(self, account: Account, deadline: float) -> str | None:
        """The key is the account."""
        del deadline
        key = account.environ.get(self.key_variable, "").strip()
        return f"key:{hashlib.sha256(key.encode()).hexdigest()}" if key else None

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        """The given environment, with the settings in force: the process may see other files than who started it."""
        ours = ("api.", f"provider.{self.name}.")
        keys = [key for key in KEYS if key.name.startswith(ours)]
        told = {
            key.variable: str(self._config.get(key.name)) for key in keys if self._config.source(key.name) != "default"
        }
        return {**env, **told, "FLEET_PROVIDER": self.name}

    def key(self, env: Mapping[str, str]) -> str:
        """The key. Raises `unavailable` if there is none."""
        key = env.get(self.key_variable, "").strip()
        if not key or not key.isprintable() or not key.isascii():
            raise FleetError(
                "unavailable",
                f"{self.key_variable} holds no key",
                hint=f"set {self.key_variable} in the environment, or use an account with a key",
            )
        return key

    def url(self, env: Mapping[str, str]) -> str:
        """The address without a slash at its end. Raises `bad_config` for one that would show the key to others."""
        url = (env.get(self.url_variable) or self._config.get(f"provider.{self.name}.url")).rstrip("/")
        try:
            parts = urlsplit(url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
            safe = parts.scheme == "https" or _is_here(parts.hostname or "")
        except ValueError:
            sound = safe = False
        if not sound or not safe or parts.username:
            raise FleetError(
                "bad_config",
                f"provider.{self.name}.url is no https address" if sound else f"provider.{self.name}.url is no address",
                hint="write https://…; plain http is for this machine alone, since the key goes with every request",
            )
        return url

    def dialect(self, env: Mapping[str, str]) -> Dialect:
        raise NotImplementedError


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _OneReader(HostReader):
    """Judges one dispatched task by the agent's own verdict."""

    def __init__(self, job: Job) -> None:
        super().__init__(alone=True)
        self._job = job

    def outcome(self, exit: Exit) -> Outcome:
        found = super().outcome(exit)
        if found.kind != "done":
            return found
        said = verdict(found.result, self._job.nonce)
        if said is None:  # as of an agent's own program: its answer is what it came to
            return found if found.result.strip() else replace(found, kind="failed", reason="empty answer")
        reason = wall(said.reason, self._job.task.host) if said.word == "blocked" else said.reason
        return replace(found, kind=said.word, reason=reason, result=said.answer)
