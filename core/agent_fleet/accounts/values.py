"""The values of accounts that cross between rooms: profiles, what was read about them, and leases.

Times are seconds since the epoch (UTC); percentages run from 0 to 100. `None` and the empty text mean "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

SafetyPolicy = Literal["worker", "manual_only", "desktop_shared"]
CredentialState = Literal["present", "absent", "indeterminate"]
QuotaStatus = Literal["fresh", "stale", "unavailable", "auth_required", "rate_limited", "error", "none"]

NO_SOURCE = "no_source_answered"  # the reason of a reading where nobody has numbers for the account

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One account under an opaque label. `options` holds the keys of its table that only its provider understands."""

    id: str
    provider: str
    home: str
    pools: tuple[str, ...]
    enabled: bool = False
    weight: int = 1
    max_concurrent: int = 2
    reserve_percent: int = 15
    safety_policy: SafetyPolicy = "worker"
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @property
    def is_worker(self) -> bool:
        """Whether it may ever be probed, provisioned or routed."""
        return self.safety_policy == "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is left of one allowance. `kind` is `session` or `weekly` for general ones, anything else for narrower ones."""

    id: str
    kind: str
    remaining: float
    resets_at: float | None = None
    observed_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReading:
    """What one reader could tell about one profile.

    `status` `none` says that this kind of account has no windows at all. `reason` is a short token, never a provider's
    text. `account` names who the numbers belong to, as far as the reader saw it, in the words of the provider's `identity`: it
    says who is logged in where that cannot, and closes the account where the two differ. It is salted and digested at once.
    """

    status: QuotaStatus
    windows: tuple[Window, ...] = ()
    source: str = ""
    observed_at: float | None = None
    reason: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One look at who an account is and what it has left, as it is kept.

    `made_at` is when fleet looked, `observed_at` when the numbers were true. `fingerprint` is a salted digest of the
    account, empty where it is unknown, and `broader` one of what its name has before the last colon; `stamp` is what the
    place of its credentials looked like, so that a login that was changed since makes the proof worthless.
    """

    profile: str
    provider: str
    status: QuotaStatus
    made_at: float
    observed_at: float | None = None
    windows: tuple[Window, ...] = ()
    source: str = ""
    reason: str = ""
    fingerprint: str = ""
    broader: str = ""
    stamp: str = ""
    credential: CredentialState = "indeterminate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A task on one profile. `identity` is the text of `agent_fleet.identity`; empty on a reservation and on old leases.

    `process_start` is how the process began, in whatever words the writer used: ours are those of `identity`. A reservation
    was last asked for at `renewed`, which was `renewed_uptime` seconds after the machine's `boot`.
    """

    task: str
    profile: str
    provider: str
    pool: str
    workspace: str
    state: Literal["reserved", "running"]
    created: float
    renewed: float
    renewed_uptime: float = 0.0
    boot: str = ""
    pid: int | None = None
    process_start: str = ""
    bound: float | None = None
    hostname: str = ""
    identity: str = ""
