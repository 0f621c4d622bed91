"""What steers a throttle: its thresholds, and what is seen of a call that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from agent_fleet.config import Config

Ending = Literal[
    "ok", "rate_limited", "overloaded", "server_error", "timeout", "broken", "refused", "auth", "cancelled"
]

CONGESTED = frozenset(("rate_limited", "overloaded"))
ERRORS = CONGESTED | {"server_error", "timeout", "broken"}
MEANT: dict[Ending, str] = {
    "rate_limited": "a limit on calls (429)",
    "overloaded": "an overloaded server (503, 529)",
    "server_error": "an error of the server (500 and above)",
    "timeout": "no answer in time",
    "broken": "no connection, or one that was cut",
}
# The server has answered, and what it said is about the request or the key: no sign of how busy it is.
ANSWERED = frozenset(("ok", "refused", "auth"))


class Observation(NamedTuple):
    """One call that has ended. Moments are seconds of the clock that all processes of this boot share (`vault.uptime`).

    `latency` is the time to the first byte of the answer, None if there was none: how long a model then writes says nothing of
    how busy its server is. `retry_after` is what the server asked for, in seconds. `tokens` is what the call turned out to
    use. `probe` marks the one call that was let through a closed gate.
    """

    began: float
    at: float
    ending: Ending
    latency: float | None = None
    retry_after: float | None = None
    tokens: int = 0
    probe: bool = False


class Terms(NamedTuple):
    """The thresholds. Rates and steps are fractions, times seconds; a rate a minute of 0 is no limit."""

    calls: int = 50
    errors: float = 0.05
    error_cut: float = 0.20
    look: float = 30.0
    latency: float = 2.0
    latency_cut: float = 0.10
    calm: float = 60.0
    rise: float = 0.10
    sample: int = 20
    failures: int = 5
    backoff: float = 1.0
    longest: float = 60.0
    max_wait: float = 21600.0
    calls_per_minute: float = 0.0
    tokens_per_minute: float = 0.0


def terms(config: Config) -> Terms:
    """The thresholds that are in force in a project."""

    def value(name: str) -> float:
        return float(config.get(f"throttle.{name}"))

    return Terms(
        calls=int(value("calls")),
        errors=value("errors") / 100,
        error_cut=value("error_cut") / 100,
        look=value("look"),
        latency=value("latency"),
        latency_cut=value("latency_cut") / 100,
        calm=value("calm"),
        rise=value("rise") / 100,
        sample=int(value("sample")),
        failures=int(value("failures")),
        backoff=value("backoff"),
        longest=value("longest"),
        max_wait=float(config.get("run.max_wait")),
        calls_per_minute=value("calls_per_minute"),
        tokens_per_minute=value("tokens_per_minute"),
    )


def pause(strikes: int, draw: float, terms: Terms) -> float:
    """Seconds to wait after that many failures in a row, with full jitter: evenly from nothing to a doubling bound.

    `draw` is a random number from 0 to 1.
    """
    return draw * min(terms.longest, terms.backoff * 2.0 ** min(max(strikes, 1) - 1, 60))
