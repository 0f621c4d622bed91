"""Agents of fleet's own over the Messages API, at its own address or at one that speaks the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_fleet.api import Config, Dialect, Provider, hookimpl
from agent_fleet_providers._hosted import Hosted
from agent_fleet_providers._messages import Messages


class Anthropic(Hosted):
    name = "anthropic"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"

    def dialect(self, env: Mapping[str, str]) -> Dialect:
        return Messages(self.url(env), self.key(env), self._config.get("provider.anthropic.model"))


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """Agents over the Messages API."""
    yield Anthropic(config)
