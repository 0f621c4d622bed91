"""What one attempt of Claude Code used, from its events.

A result's `modelUsage` and `total_cost_usd` are totals of the whole conversation, earlier attempts included; its
`model_usage_since_last_result` is what this process used, in every model, since its last result. The former is counted
only where the latter is missing. Until a result comes, the messages themselves are counted, each once: partial, because
a message is announced before its output is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_fleet.api import Usage
from agent_fleet_providers._figures import added, count, price, table

MOST_MESSAGES = 100_000  # since the last result; far beyond any real conversation, so that memory stays bounded


class Meter:
    """Adds up events. `resumed`: the conversation has a past, so its total says nothing about this attempt alone."""

    def __init__(self, *, resumed: bool) -> None:
        self._resumed = resumed
        self._settled = Usage(money=0.0)
        self._results = 0
        self._messages: dict[str, Usage] = {}
        self._total: float | None = None

    def message(self, message: Mapping[str, Any]) -> None:
        """Count an announced message; it is announced again for each of its blocks."""
        usage = table(message.get("usage"))
        name = str(message.get("id", ""))
        model = str(message.get("model", ""))
        if not usage or model == "<synthetic>" or (name not in self._messages and len(self._messages) >= MOST_MESSAGES):
            return
        self._messages[name] = _plain(usage, (model,) if model else ())

    def result(self, event: Mapping[str, Any]) -> None:
        """Count a result, which settles every message before it."""
        models = table(event.get("model_usage_since_last_result"))
        if "model_usage_since_last_result" in event:
            used = _models(models)
        else:
            names = tuple(sorted(table(event.get("modelUsage"))))
            used = _plain(table(event.get("usage")), names, self._money(event))
        self._total = price(event.get("total_cost_usd"))
        self._results += 1
        self._messages.clear()
        self._settled = added(self._settled, used, turns=count(event.get("num_turns")))

    @property
    def usage(self) -> Usage:
        """All of this attempt so far."""
        total = self._settled
        for used in self._messages.values():
            total = added(total, used, turns=1)
        if self._messages:
            return replace(total, partial=True)
        return total if self._results else Usage()

    def _money(self, event: Mapping[str, Any]) -> float | None:
        total = price(event.get("total_cost_usd"))
        before = self._total if self._total is not None else (None if self._resumed else 0.0)
        return None if total is None or before is None else max(0.0, total - before)


def _plain(usage: Mapping[str, Any], models: tuple[str, ...], money: float | None = None) -> Usage:
    thinking = count(table(usage.get("output_tokens_details")).get("thinking_tokens"))
    output = count(usage.get("output_tokens"))
    return Usage(
        input=count(usage.get("input_tokens")),
        cache_write=count(usage.get("cache_creation_input_tokens")),
        cache_read=count(usage.get("cache_read_input_tokens")),
        output=output - min(thinking, output),
        reasoning=min(thinking, output),
        money=money,
        models=models,
    )


def _models(models: Mapping[str, Any]) -> Usage:
    """The sum over all models; the money is unknown as soon as one model's is."""
    total = Usage(money=0.0)
    for name, value in models.items():
        used = table(value)
        output = count(used.get("outputTokens"))
        thinking = min(count(used.get("thinkingTokens")), output)  # billed as output, and part of that number
        one = Usage(
            input=count(used.get("inputTokens")),
            cache_write=count(used.get("cacheCreationInputTokens")),
            cache_read=count(used.get("cacheReadInputTokens")),
            output=output - thinking,
            reasoning=thinking,
            money=price(used.get("costUSD")),
            models=(str(name),),
        )
        total = added(total, one)
    return total
