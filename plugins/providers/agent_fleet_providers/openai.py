"""Agents of fleet's own over the chat completions API, which many servers speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_fleet.api import Config, Dialect, Provider, hookimpl
from agent_fleet_providers._completions import Completions
from agent_fleet_providers._hosted import Hosted


class OpenAI(Hosted):
    name = "openai"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def dialect(self, env: Mapping[str, str]) -> Dialect:
        return Completions(self.url(env), self.key(env), self._config.get("provider.openai.model"))


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """Agents over a chat completions API."""
    yield OpenAI(config)
