"""Claude Code on an API key: a kind of account without a home and without windows, whose key a profile names and nobody stores.

A profile has `key_env` (a variable of the person) or `key_file` (a file of mode 0600). It runs with `--bare`, so that neither the
person's login nor their hooks have a part in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agent_fleet.api import Account, AccountSpec, Config, Job, Launch, Provider, hookimpl
from agent_fleet_providers._claude_account import KEYED
from agent_fleet_providers._claude_stream import ClaudeReader
from agent_fleet_providers._codex_account import keyed
from agent_fleet_providers.claude import Claude

BARE = "--bare"
KEY = KEYED.credentials[0].name


class ApiKey:
    """Starts Claude Code with a key, and reads its stream of events."""

    name = "apikey"

    def __init__(self, config: Config) -> None:
        self._claude = Claude(config)

    def usable(self) -> str | None:
        return self._claude.usable()

    def launch(self, job: Job) -> Launch:
        """As Claude Code is launched, without what the person has set up for themselves."""
        launch = self._claude.launch(job)
        program, *words = launch.argv
        return replace(launch, argv=(program, BARE, *words))

    def reader(self, job: Job) -> ClaudeReader:
        return self._claude.reader(job)

    def account_spec(self) -> AccountSpec:
        return KEYED

    def identity(self, account: Account, deadline: float) -> str | None:  # noqa: ARG002 - nothing is waited for
        """The key is the account: two profiles with one key are one."""
        return keyed(account.environ.get(KEY, ""))


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """Claude Code on an API key."""
    yield ApiKey(config)
