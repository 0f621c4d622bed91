"""What one agent may use: tokens of every class and turns, counted while its answers come. Pure."""

from __future__ import annotations

from dataclasses import replace

from agent_fleet.model import Usage
from agent_fleet.prices import COUNTS

_CHARS = 3.0  # of one token at most, as an estimate from above of what came but was not reported yet
LEAST = 16  # tokens of an answer below which a call is not worth its prompt


class Exhausted(Exception):  # noqa: N818 - nothing is wrong: the budget is used up
    """The agent has reached a ceiling of its own. The text says which."""


class Allowance:
    """`tokens` and `turns` are what is left for this attempt; None is no limit."""

    def __init__(self, tokens: int | None, turns: int | None) -> None:
        self.used = Usage()
        self._tokens = tokens
        self._turns = turns
        self._prompt = 0  # tokens of the last prompt and its answer: what the next one begins with
        self._sent = 0  # bytes of the last request

    def admit(self, size: int, most: int) -> tuple[int, int]:
        """(the most tokens that a request of `size` bytes can be, how many may come back), at most `most` of the latter.

        A token is at least one byte, and what was sent before is known to the token. Raises Exhausted.
        """
        if self._turns is not None and self.used.turns >= self._turns:
            raise Exhausted(f"{self.used.turns} turns used, {self._turns} allowed")
        bound = self._prompt + max(0, size - self._sent) if self._prompt else size
        if self._tokens is None:
            return bound, most
        room = self._tokens - self.used.tokens - self._guess(size)
        if room < LEAST:
            raise Exhausted(f"{self.used.tokens:,} tokens used, {self._tokens:,} allowed")
        return bound, min(most, room)

    def watch(self, reported: Usage, written: int, size: int) -> None:
        """Look at a call on its way: what the server reported of it, and how many characters came. Raises Exhausted.

        Of a server that reports only at the end, what was sent is a guess until then.
        """
        if self._tokens is None:
            return
        sent = reported.input + reported.cache_write + reported.cache_read or self._guess(size)
        shown = max(int(written / _CHARS), reported.output + reported.reasoning)
        now = self.used.tokens + sent + shown
        if now > self._tokens:
            raise Exhausted(f"{now:,} tokens used, {self._tokens:,} allowed")

    def close(self, used: Usage, size: int) -> None:
        """A call is over."""
        self.used = add(self.used, used)
        if not used.partial and used.tokens:
            self._prompt, self._sent = used.tokens, size

    def cut(self, reported: Usage, written: int, size: int) -> Usage:
        """What a call that was cut short has used: what was reported of it, and what came, as an estimate."""
        sent = reported.input + reported.cache_write + reported.cache_read
        shown = max(int(written / _CHARS), reported.output + reported.reasoning) - reported.reasoning
        if not sent and not written:
            return Usage()
        return replace(reported, input=reported.input if sent else self._guess(size), output=shown, partial=True)

    def _guess(self, size: int) -> int:
        """How many tokens a request is, when nobody has said it yet."""
        return self._prompt + int(max(0, size - self._sent) / _CHARS) if self._prompt else int(size / (_CHARS + 1))


def add(one: Usage, other: Usage) -> Usage:
    """The sum of two usages."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in COUNTS}
    models = one.models if set(other.models) <= set(one.models) else (*one.models, *other.models)
    return Usage(**sums, models=models, partial=one.partial or other.partial)
