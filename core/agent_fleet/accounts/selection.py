"""Which account takes a task: one verdict a profile, and the best of those that may. Pure.

Identity and policy fail closed; what is not known of the numbers fails as the registry's `quota_policy` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent_fleet.accounts import proofs, quota, unfinished
from agent_fleet.accounts.cooldowns import Cooldown, concerning
from agent_fleet.accounts.pins import Pin
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.values import NO_SOURCE, Lease, Profile, Proof
from agent_fleet.text import duration

SOON = 3600.0
EXPLICIT = "explicit"
_HARD = ("auth_required", "rate_limited")
_UNSEEN = ("credential_source_changed", "fresh_remote_identity_proof_required", "remote_verification_expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked. The pool `explicit` is any pool; `model` matters to cooldowns of one model alone: see `concerns`."""

    task: str
    pool: str
    workspace: str
    provider: str | None = None
    profile: str | None = None
    model: str | None = ""
    ignore_reserve: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What can be told of a profile without starting anything.

    `fault` says why it is not ready, `stamp` how its login looks, and `login` by which command a person logs in there.
    """

    provisioned: bool
    fault: str = ""
    stamp: str = ""
    login: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a choice rests on, as it was at one moment. `leases` are those that count."""

    registry: Registry
    now: float
    leases: tuple[Lease, ...] = ()
    cooldowns: Mapping[str, list[Cooldown]] = field(default_factory=dict)
    stamps: Mapping[str, float] = field(default_factory=dict)
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    pins: Mapping[str, Pin] = field(default_factory=dict)
    readiness: Mapping[str, Readiness] = field(default_factory=dict)
    # by provider, or `unfinished.ANY`: the logins that were begun and never ended
    pending: Mapping[str, list[str]] = field(default_factory=dict)
    # by provider: the fingerprints of the person's own logins
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # by provider: why it may not be used in the workspace
    closed_projects: Mapping[str, str] = field(default_factory=dict)
    # by pool that is bound to projects: why it may not be used there
    closed_pools: Mapping[str, str] = field(default_factory=dict)

    def active(self, label: str, *, but: str = "") -> int:
        """How many tasks work on a profile, not counting the task `but`."""
        return sum(lease.profile == label and lease.task != but for lease in self.leases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said of one profile. `code` is stable; `score` is None unless the profile may take the task."""

    profile: str
    provider: str
    code: str
    words: str
    eligible: bool = False
    fresh: bool = False
    headroom: float | None = None
    score: float | None = None
    active: int = 0
    resets_at: float | None = None
    is_waiting: bool = False


def candidates(request: Request, registry: Registry) -> list[Profile]:
    """The profiles that were asked for, in the registry's order; whether they can is another question."""
    return [
        profile
        for profile in registry.profiles.values()
        if request.profile in (None, profile.id)
        and request.provider in (None, profile.provider)
        and (request.pool == EXPLICIT or request.profile is not None or request.pool in profile.pools)
    ]


def judge(profile: Profile, request: Request, situation: Situation) -> Verdict:
    """What is to be said of one profile for this request: the first reason against it, or that it may."""
    proof = situation.proofs.get(profile.id)
    known = _KnownQuota.of(profile, proof, situation)
    closed = before_proof(profile, request, situation) or _who_and_what(profile, known, situation)
    if closed is not None and closed[0] in _UNSEEN:
        # nobody looks at an account that has no room, so that it was not seen lately is no reason of its own
        closed = _room(profile, request, situation) or closed
    if closed is None:
        closed = _scope(profile, situation) or _room(profile, request, situation)
    if closed is None and known.headroom is not None and not request.ignore_reserve:
        closed = _reserve(profile, known.headroom)
    active = situation.active(profile.id, but=request.task)
    code, words, is_waiting = closed or known.open
    resets = quota.next_reset(proof.windows, situation.now) if proof else None
    return Verdict(
        profile=profile.id,
        provider=profile.provider,
        code=code,
        words=words,
        eligible=closed is None,
        fresh=known.is_fresh,
        headroom=known.headroom,
        score=None if closed else _score(profile, known, active, situation),
        active=active,
        resets_at=resets,
        is_waiting=is_waiting,
    )


def choose(request: Request, situation: Situation) -> tuple[Verdict | None, list[Verdict]]:
    """The best of those that may, None if none may, and the verdict on each that was asked for."""
    verdicts = [judge(profile, request, situation) for profile in candidates(request, situation.registry)]
    ranks = {label: position for position, label in enumerate(situation.registry.profiles)}

    def rank(verdict: Verdict) -> tuple[float, ...]:
        stamp = situation.stamps.get(verdict.profile)
        soon = verdict.resets_at is not None and verdict.resets_at - situation.now <= SOON
        score = float("-inf") if verdict.score is None else verdict.score
        return (
            verdict.headroom is not None,
            score,
            -verdict.active,
            soon,
            stamp is None,
            -(stamp or 0.0),
            -ranks[verdict.profile],
        )

    return max((verdict for verdict in verdicts if verdict.eligible), key=rank, default=None), verdicts


# (code, words, whether waiting alone may change it)
_Reason = tuple[str, str, bool]


def before_proof(profile: Profile, request: Request, situation: Situation) -> _Reason | None:
    """Why a profile cannot take the task, by all that needs no look at its account; None if it may."""
    return (
        _pending(profile, situation)
        or _policy(profile, situation)
        or _project(profile, request, situation)
        or _cooldown(profile, request, situation)
    )


def _pending(profile: Profile, situation: Situation) -> _Reason | None:
    begun = [*situation.pending.get(profile.provider, ()), *situation.pending.get(unfinished.ANY, ())]
    if not begun or not profile.is_worker:
        return None
    words = f"pending credential recovery blocks a choice: {', '.join(begun)}; {unfinished.HINT}"
    return "pending_transaction", words, False


def _policy(profile: Profile, situation: Situation) -> _Reason | None:
    if not profile.is_worker:
        return f"safety_policy_{profile.safety_policy}", "a reserve is never routed", False
    if not profile.enabled:
        return "profile_disabled", f"`fleet profile enable {profile.id}` opens it", False
    ready = situation.readiness.get(profile.id)
    if ready is None or not ready.provisioned:
        why = f": {ready.fault}" if ready and ready.fault else ""
        return "profile_unprovisioned", f"`fleet profile provision {profile.id}` makes its home{why}", False
    if ready.fault:
        return "profile_not_ready", ready.fault, False
    return None


def _project(profile: Profile, request: Request, situation: Situation) -> _Reason | None:
    if fault := situation.closed_projects.get(profile.provider):
        return "project_refused", fault, False
    if fault := situation.closed_pools.get(request.pool):
        return "pool_not_for_project", fault, False
    # a pool that was not named does not lend its account to a project that it is not for
    bound = [pool for pool in profile.pools if pool in situation.registry.pool_projects]
    if bound and all(pool in situation.closed_pools for pool in bound):
        return "pool_not_for_project", situation.closed_pools[bound[0]], False
    return None


def _cooldown(profile: Profile, request: Request, situation: Situation) -> _Reason | None:
    closing = concerning(situation.cooldowns.get(profile.id, ()), request.model)
    if not closing:
        return None
    last = max(closing, key=lambda each: each.expires)
    left = duration(last.expires - situation.now)
    return "cooldown", f"closed{last.what} for another {left}: {last.reason}", True


def _room(profile: Profile, request: Request, situation: Situation) -> _Reason | None:
    active = situation.active(profile.id, but=request.task)
    if active < profile.max_concurrent:
        return None
    return "no_capacity", f"{active} of {profile.max_concurrent} leases are taken", True


def _reserve(profile: Profile, headroom: float) -> _Reason | None:
    if headroom > profile.reserve_percent:
        return None
    return "quota_reserve", f"{headroom:g} % is left, and {profile.reserve_percent} % is its quota reserve", True


def _identity(profile: Profile, situation: Situation) -> _Reason | None:
    twins = duplicates(profile, situation)
    if twins:
        return "duplicate_provider_identity", f"the same account as {', '.join(twins)}", False
    return own_login(profile, situation) or binding(
        profile, situation.pins.get(profile.id), situation.proofs.get(profile.id)
    )


def _who_and_what(profile: Profile, known: _KnownQuota, situation: Situation) -> _Reason | None:
    """Why an account cannot be relied on. That nobody could be seen is told as the reason why nothing was seen, if there is one."""
    closed = _identity(profile, situation)
    if closed is None or closed[0] == "identity_unavailable":
        return known.closed or closed
    return closed


def duplicates(profile: Profile, situation: Situation) -> list[str]:
    """The other workers that hold the same account, by what was last seen of each or else by its pin."""
    mine = _known_identity(profile, situation)
    if not mine:
        return []
    return [
        other.id
        for other in situation.registry.workers(profile.provider)
        if other.id != profile.id and _known_identity(other, situation) == mine
    ]


def own_login(profile: Profile, situation: Situation) -> _Reason | None:
    """Why a profile is not apart from what the person themselves is logged in as, or None."""
    own = situation.own.get(profile.provider, frozenset())
    if not own & {_known_identity(profile, situation), _seen(profile, situation).broader} - {""}:
        return None
    words = f"it is the account that your own {profile.provider} is logged in to; log in to another one here or there"
    return "identity_of_own_login", words, False


def _known_identity(profile: Profile, situation: Situation) -> str:
    pin = situation.pins.get(profile.id)
    return _seen(profile, situation).fingerprint or (pin.fingerprint if pin else "")


def _seen(profile: Profile, situation: Situation) -> Proof:
    """The last proof of a profile, if it still says who that is; else one that says nothing."""
    proof = situation.proofs.get(profile.id)
    if proof is not None and proofs.is_recent(proof, situation.registry.rules, situation.now):
        return proof
    return Proof(profile=profile.id, provider=profile.provider, status="unavailable", made_at=situation.now)


def binding(profile: Profile, pin: Pin | None, proof: Proof | None) -> _Reason | None:
    """Why a home is not seen to belong to whom it must, or None. Without any proof the pin alone is judged."""
    adopt = f"`fleet profile identity adopt {profile.id}` decides whom it belongs to"
    if pin is None:
        return "identity_binding_missing", adopt, False
    if pin.provider != profile.provider:
        return "identity_binding_profile_mismatch", f"its pin is of another provider; {adopt}", False
    if pin.home != profile.home:
        return "identity_binding_home_mismatch", f"its pin is of another home, {pin.home}; {adopt}", False
    if proof is None or proof.status in _HARD:
        return None
    if pin.fingerprint and not proof.fingerprint:
        return "identity_unavailable", "its provider cannot tell who is logged in", True
    if proof.fingerprint != pin.fingerprint:
        return "identity_binding_remote_mismatch", f"somebody else is logged in; {adopt}", False
    return None


@dataclass(frozen=True, slots=True)
class _KnownQuota:
    """What a proof says of the numbers: the reason against the profile if there is one, else the words for it."""

    open: _Reason
    closed: _Reason | None = None
    headroom: float | None = None
    is_fresh: bool = False

    @classmethod
    def of(cls, profile: Profile, proof: Proof | None, situation: Situation) -> _KnownQuota:
        rules, now = situation.registry.rules, situation.now
        ready = situation.readiness.get(profile.id)
        stamp = ready.stamp if ready else ""
        if proof is not None and proof.status in _HARD:
            return cls(("", "", False), _hard(proof, profile, ready))
        if proof is not None and proofs.is_good(proof, stamp, rules, now):
            headroom = quota.headroom(proof.windows)
            if proof.status == "none":
                return cls(("fresh", "its account has no windows", False), None, None, True)
            return cls(("fresh", f"{headroom:g} % is left", False), None, headroom, True)
        if proof is not None and proof.reason == quota.ANOTHER and proof.stamp == stamp:
            words = "its numbers are those of another account than its login names; log in there again, then look again"
            return cls(("", "", False), (quota.ANOTHER, words, False))
        mend = ""
        if proof is not None and proof.stamp != stamp:
            code, words = "credential_source_changed", "its login was changed since it was last looked at"
        elif proof is None:
            code, words = "fresh_remote_identity_proof_required", "it was never looked at"
        elif proof.status in ("fresh", "none"):
            code, words = "remote_verification_expired", "what was seen of it is too old"
        else:
            code = proof.reason or "fresh_remote_identity_proof_required"
            words, mend = f"what is left of it is unknown ({proof.status})", f"; {_ask_again(proof, profile)}"
        if rules.quota_policy == "soft" and proof is not None and proof.stamp == stamp:
            return cls(("quota_unknown", f"{words}; the registry's soft policy lets it work", True))
        return cls(("", "", False), (code, words + mend, True))


def _ask_again(proof: Proof, profile: Profile) -> str:
    if proof.reason == NO_SOURCE:
        return 'name quota-axi or a quota_file in the registry, or set quota_policy = "soft"'
    return f"`fleet quota refresh {profile.id}` asks again"


def _hard(proof: Proof, profile: Profile, ready: Readiness | None) -> _Reason:
    if proof.status == "auth_required":
        return proof.reason or "auth_required", log_in(profile, ready), False
    return proof.reason or "rate_limited", "its provider refuses work until its limit is over", True


def log_in(profile: Profile, ready: Readiness | None) -> str:
    """What is missing of a login, and the command that makes one; of an account without a home it is the key."""
    if ready is None or not ready.login:
        return f"the key that {profile.id} names must be there"
    return f"{profile.id} must be logged in: `{ready.login}`"


def _scope(profile: Profile, situation: Situation) -> _Reason | None:
    """With `proof_scope = "provider"`, what is wrong with any enabled worker of the provider closes all of them."""
    if situation.registry.rules.proof_scope != "provider":
        return None
    for other in situation.registry.workers(profile.provider):
        if other.id == profile.id or not other.enabled:
            continue
        proof = situation.proofs.get(other.id)
        fault = _who_and_what(other, _KnownQuota.of(other, proof, situation), situation)
        if fault:
            return "provider_identity_proof_incomplete", f"{other.id}: {fault[0]} ({fault[1]})", fault[2]
    return None


def _score(profile: Profile, known: _KnownQuota, active: int, situation: Situation) -> float:
    """Points: what is left, five for each unit of weight beyond the first, less the penalty of each lease."""
    penalty = situation.registry.rules.active_lease_penalty
    return (known.headroom or 0.0) + 5 * (profile.weight - 1) - penalty * active


def needing_proof(request: Request, situation: Situation) -> list[Profile]:
    """The profiles of which one must look again before anything is decided: those alone that may still be chosen."""
    rules = situation.registry.rules
    asked = [
        profile
        for profile in candidates(request, situation.registry)
        if before_proof(profile, request, situation) is None
        and _room(profile, request, situation) is None
        and binding(profile, situation.pins.get(profile.id), None) is None
    ]
    if rules.proof_scope == "provider":
        scoped = {profile.provider for profile in asked}
        asked = [p for p in situation.registry.workers() if p.provider in scoped and p.enabled]
    return [profile for profile in asked if is_due(profile, situation)]


def is_due(profile: Profile, situation: Situation) -> bool:
    ready = situation.readiness.get(profile.id)
    stamp = ready.stamp if ready else ""
    return proofs.is_due(situation.proofs.get(profile.id), stamp, situation.registry.rules, situation.now)


def explain(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """One line a profile: label, code, words."""
    return tuple(f"{verdict.profile}: {verdict.code}: {verdict.words}" for verdict in verdicts)
