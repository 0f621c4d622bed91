"""Choosing is pure, so it is tried with whatever could be: the verdicts, the formula, and what must never happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.accounts import registry as registries
from agent_fleet.accounts import selection, standing
from agent_fleet.accounts.cooldowns import Cooldown
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.selection import Readiness, Request, Situation
from agent_fleet.accounts.values import Lease, Proof, Window
from support.accounts import pin_of

NOW = 1_800_000_000.0
LABELS = tuple(f"p{number}" for number in range(5))


def registry(profiles: dict[str, dict[str, Any]], **settings_: Any) -> Registry:
    document = {
        "version": 1,
        "settings": {"state_dir": "/s/state", "share_dir": "/s/share", **settings_},
        "providers": {"toy": {}},
        "profiles": {
            label: {"provider": "toy", "pools": ["crew"], "enabled": True, **fields}
            for label, fields in profiles.items()
        },
    }
    return registries.parse(document, "/s/accounts.toml", {})


def proof(label: str, left: float = 50.0, **more: Any) -> Proof:
    fields: dict[str, Any] = {
        "profile": label,
        "provider": "toy",
        "status": "fresh",
        "made_at": NOW - 10,
        "observed_at": NOW - 10,
        "windows": (Window(id="five_hour", kind="session", remaining=left),),
        "fingerprint": label.encode().hex(),
        "stamp": "s",
    }
    return Proof(**{**fields, **more})


def lease(label: str, task: str) -> Lease:
    return Lease(
        task=task,
        profile=label,
        provider="toy",
        pool="crew",
        workspace="/w",
        state="reserved",
        created=NOW,
        renewed=NOW,
    )


def situation(profiles: dict[str, dict[str, Any]], left: dict[str, float] | None = None, **more: Any) -> Situation:
    settings_ = more.pop("settings", {})
    found = registry(profiles, **settings_)
    fields: dict[str, Any] = {
        "registry": found,
        "now": NOW,
        "proofs": {label: proof(label, (left or {}).get(label, 50.0)) for label in profiles},
        "pins": {p.id: pin_of(p, p.id.encode().hex()) for p in found.workers()},
        "readiness": {label: Readiness(provisioned=True, stamp="s") for label in profiles},
    }
    return Situation(**{**fields, **more})


def asked(**more: Any) -> Request:
    return Request(**{"task": "t", "pool": "crew", "workspace": "/w", **more})


def chosen(given_: Situation, **more: Any) -> str | None:
    best, _ = selection.choose(asked(**more), given_)
    return best.profile if best else None


def code(given_: Situation, label: str = "a", **more: Any) -> str:
    return selection.judge(given_.registry.profile(label), asked(**more), given_).code


# ------------------------------------------------------------------------------------------------------- the formula


def test_the_score_is_what_is_left_and_weight_and_leases() -> None:
    two: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    assert chosen(situation(two, {"a": 60, "b": 70})) == "b"
    heavy = {"a": {"weight": 3}, "b": {}}
    assert chosen(situation(heavy, {"a": 62, "b": 70})) == "a"
    assert chosen(situation(heavy, {"a": 59, "b": 70})) == "b"
    busy = (lease("b", "x"),)
    assert chosen(situation(two, {"a": 63, "b": 70}, leases=busy)) == "a"
    assert chosen(situation(two, {"a": 61, "b": 70}, leases=busy)) == "b"


def test_ties_go_to_fewer_leases_then_a_near_reset_then_the_longest_unused_then_the_first() -> None:
    two: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    assert chosen(situation(two)) == "a"
    assert chosen(situation(two, stamps={"a": NOW - 5})) == "b"
    assert chosen(situation(two, stamps={"a": NOW - 5, "b": NOW - 9})) == "b"
    soon = {
        "a": proof("a"),
        "b": proof("b", windows=(Window(id="week", kind="weekly", remaining=50, resets_at=NOW + 60),)),
    }
    assert chosen(situation(two, proofs=soon)) == "b"
    one_more = (lease("a", "x"),)
    assert chosen(situation(two, {"a": 58, "b": 50}, leases=one_more)) == "b"


@pytest.mark.parametrize(
    ("windows", "least"),
    [
        ((("five_hour", "session", 40), ("seven_day", "weekly", 20), ("opus", "model", 1)), 20),
        ((("x", "session", 40), ("y", "weekly", 30), ("z", "model", 1)), 30),
        ((("z", "model", 1),), None),
        ((), None),
    ],
)
def test_what_is_left_is_the_least_of_the_windows_that_bound_all_work(windows: Any, least: float | None) -> None:
    from agent_fleet.accounts.quota import headroom

    assert headroom(Window(id=i, kind=k, remaining=r) for i, k, r in windows) == least


# ------------------------------------------------------------------------------------------------------- the reasons


def test_every_reason_has_its_code() -> None:
    one: dict[str, dict[str, Any]] = {"a": {}}
    assert code(situation({"a": {"enabled": False}})) == "profile_disabled"
    assert code(situation({"a": {"enabled": False, "safety_policy": "manual_only"}})) == "safety_policy_manual_only"
    assert code(situation(one, readiness={})) == "profile_unprovisioned"
    not_ready = {"a": Readiness(provisioned=True, fault="x")}
    assert code(situation(one, readiness=not_ready)) == "profile_not_ready"
    assert code(situation(one, closed_projects={"toy": "x"})) == "project_refused"
    assert code(situation(one, pins={})) == "identity_binding_missing"
    closed = {"a": [Cooldown(profile="a", reason="x", created=NOW, expires=NOW + 9)]}
    assert code(situation(one, cooldowns=closed)) == "cooldown"
    assert code(situation({"a": {"max_concurrent": 1}}, leases=(lease("a", "x"),))) == "no_capacity"
    assert code(situation(one, {"a": 15})) == "quota_reserve"
    assert code(situation(one, {"a": 15}), ignore_reserve=True) == "fresh"
    assert code(situation(one, {"a": 15.1})) == "fresh"


@pytest.mark.parametrize(
    ("more", "strict", "soft"),
    [
        ({"status": "rate_limited"}, "rate_limited", "rate_limited"),
        ({"status": "auth_required"}, "auth_required", "auth_required"),
        ({"status": "unavailable"}, "fresh_remote_identity_proof_required", "quota_unknown"),
        ({"status": "error", "reason": "timeout"}, "timeout", "quota_unknown"),
        ({"made_at": NOW - 301}, "remote_verification_expired", "quota_unknown"),
        ({"made_at": NOW + 60}, "remote_verification_expired", "quota_unknown"),
        ({"stamp": "other"}, "credential_source_changed", "credential_source_changed"),
        ({"fingerprint": "ff"}, "identity_binding_remote_mismatch", "identity_binding_remote_mismatch"),
        ({"fingerprint": ""}, "identity_unavailable", "identity_unavailable"),
        ({"status": "none", "windows": ()}, "fresh", "fresh"),
        (
            {"windows": (Window(id="week", kind="weekly", remaining=9, resets_at=NOW - 1),)},
            "remote_verification_expired",
            "quota_unknown",
        ),
    ],
)
def test_identity_fails_closed_and_numbers_as_the_policy_says(more: Any, strict: str, soft: str) -> None:
    proofs = {"a": proof("a", **more)}
    assert code(situation({"a": {}}, proofs=proofs)) == strict
    assert code(situation({"a": {}}, proofs=proofs, settings={"quota_policy": "soft"})) == soft
    assert (
        code(situation({"a": {}}, proofs={}, settings={"quota_policy": "soft"}))
        == "fresh_remote_identity_proof_required"
    )


def test_an_account_without_room_says_so_though_nobody_has_looked_at_it_lately() -> None:
    full: dict[str, Any] = {"leases": (lease("a", "x"), lease("a", "y"))}
    for old in ({"made_at": NOW - 9000}, {"stamp": "other"}, {}):
        assert code(situation({"a": {}}, proofs={"a": proof("a", **old)}, **full)) == "no_capacity"
    assert code(situation({"a": {}}, proofs={}, **full)) == "no_capacity"
    gone = {"a": proof("a", status="auth_required", windows=())}
    assert code(situation({"a": {}}, proofs=gone, **full)) == "auth_required"
    assert code(situation({"a": {}}, pins={}, **full)) == "identity_binding_missing"


def test_what_is_known_goes_before_what_is_not() -> None:
    proofs = {"a": proof("a", status="unavailable"), "b": proof("b", left=16)}
    given_ = situation({"a": {"weight": 99}, "b": {}}, proofs=proofs, settings={"quota_policy": "soft"})
    assert chosen(given_) == "b"
    assert chosen(given_, profile="a") == "a"


def test_one_account_under_two_labels_closes_both_whatever_the_scope_or_pool() -> None:
    three = {"a": {}, "b": {"enabled": False, "pools": ["else"]}, "c": {}}
    pins = {label: pin_of(registry(three).profile(label), "aa" if label in "ab" else "cc") for label in three}
    proofs = {"a": proof("a", fingerprint="aa"), "c": proof("c", fingerprint="cc")}
    given_ = situation(three, pins=pins, proofs=proofs)
    assert code(given_, "a") == "duplicate_provider_identity"
    assert chosen(given_) == "c"


def test_with_the_scope_of_a_provider_one_account_that_cannot_be_proved_closes_the_others() -> None:
    proofs = {"a": proof("a"), "b": proof("b", status="rate_limited")}
    given_ = situation({"a": {}, "b": {}}, proofs=proofs)
    assert chosen(given_) == "a"
    scoped = situation({"a": {}, "b": {}}, proofs=proofs, settings={"proof_scope": "provider"})
    assert code(scoped) == "provider_identity_proof_incomplete"
    assert chosen(scoped) is None
    off = situation({"a": {}, "b": {"enabled": False}}, proofs=proofs, settings={"proof_scope": "provider"})
    assert chosen(off) == "a"


def test_a_cooldown_of_one_model_closes_only_that() -> None:
    closed = {"a": [Cooldown(profile="a", reason="x", created=NOW, expires=NOW + 9, scope="opus")]}
    given_ = situation({"a": {}}, cooldowns=closed)
    names = ("opus", "Claude-Opus-4.8[1m]", "opusplan", "haiku", None, "")
    assert [code(given_, model=name) for name in names] == ["cooldown"] * 3 + ["fresh"] * 2 + ["cooldown"]
    verdict = selection.judge(given_.registry.profile("a"), asked(model="opus"), given_)
    assert verdict.words == "closed to opus for another 9.0 s: x"


def test_a_pool_bound_to_projects_lends_its_accounts_to_no_other() -> None:
    document = {"a": {"pools": ["crew", "work"]}, "b": {}}
    bound = replace(registry(document), pool_projects={"work": ("/w/work",)})
    away = situation(document, closed_pools={"work": "not here"})
    away = replace(away, registry=bound)
    assert code(away, "a") == "pool_not_for_project"
    assert code(away, "a", pool="explicit") == "pool_not_for_project"
    assert code(away, "b") == "fresh"
    assert code(replace(away, closed_pools={}), "a", pool="work") == "fresh"


# ------------------------------------------------------------------------------------------- whatever could be the case

FIELDS = st.fixed_dictionaries(
    {
        "enabled": st.booleans(),
        "weight": st.integers(1, 5),
        "max_concurrent": st.integers(1, 4),
        "reserve_percent": st.integers(0, 100),
        "pools": st.lists(st.sampled_from(["crew", "else"]), min_size=1, unique=True),
    }
)
PROOFS = st.builds(
    lambda left, age, status, stamp, who: {
        "windows": (Window(id="five_hour", kind="session", remaining=left),),
        "made_at": NOW - age,
        "observed_at": NOW - age,
        "status": status,
        "stamp": stamp,
        "who": who,
    },
    st.integers(0, 100),
    st.sampled_from([1, 299, 301, -100]),
    st.sampled_from(
        ["fresh", "fresh", "fresh", "rate_limited", "unavailable", "none", "auth_required", "error", "stale"]
    ),
    st.sampled_from(["s", "s", "s", "t"]),
    st.sampled_from([*LABELS, ""]),
)


@st.composite
def situations(draw: Any) -> Situation:
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=1, unique=True))
    profiles = {label: draw(FIELDS) for label in labels}
    drawn = {label: draw(st.none() | PROOFS) for label in labels}
    proofs = {}
    for label, more in drawn.items():
        if more is not None:
            who = more.pop("who")
            account = label if draw(st.integers(0, 3)) else who
            proofs[label] = proof(label, fingerprint=account.encode().hex(), **more)
    tasks = draw(st.lists(st.tuples(st.sampled_from(labels), st.integers(0, 9)), unique_by=lambda each: each[1]))
    policy = draw(st.sampled_from(["strict", "soft"]))
    scope = draw(st.sampled_from(["profile", "provider"]))
    return situation(
        profiles,
        proofs=proofs,
        leases=tuple(lease(label, f"task{number}") for label, number in tasks),
        stamps=draw(st.dictionaries(st.sampled_from(labels), st.floats(NOW - 99, NOW))),
        settings={"quota_policy": policy, "proof_scope": scope},
    )


@settings(max_examples=300, deadline=None)
@given(situations(), st.booleans(), st.sampled_from(["crew", "else", "explicit"]))
def test_whatever_is_chosen_was_allowed_and_nothing_better_was(given_: Situation, ignore: bool, pool: str) -> None:
    request = asked(pool=pool, ignore_reserve=ignore)
    best, verdicts = selection.choose(request, given_)
    assert len({verdict.profile for verdict in verdicts}) == len(verdicts)
    assert all(verdict.code and verdict.words for verdict in verdicts)
    allowed = [verdict for verdict in verdicts if verdict.eligible]
    assert (best is None) is (not allowed)
    again, _ = selection.choose(request, given_)
    assert again == best
    if best is None:
        return
    profile = given_.registry.profile(best.profile)
    known = given_.proofs[best.profile]
    assert profile.enabled
    assert pool == "explicit" or pool in profile.pools
    assert given_.active(profile.id) < profile.max_concurrent
    assert known.fingerprint == given_.pins[profile.id].fingerprint
    assert known.stamp == "s"
    assert known.status not in ("rate_limited", "auth_required")
    seen = [other for label, other in given_.proofs.items() if label != profile.id and other.made_at <= NOW + 5]
    assert known.fingerprint not in [other.fingerprint for other in seen]
    if best.headroom is not None and not ignore:
        assert best.headroom > profile.reserve_percent
    if given_.registry.rules.quota_policy == "strict":
        assert best.fresh
    known_ones = [verdict for verdict in allowed if verdict.headroom is not None]
    if known_ones:
        assert best.score == max(verdict.score or 0.0 for verdict in known_ones)


@settings(max_examples=100, deadline=None)
@given(situations())
def test_the_status_of_a_pool_agrees_with_a_choice(given_: Situation) -> None:
    best, _ = selection.choose(asked(task="new"), given_)
    (told,) = standing.pool("crew", "toy", given_)["providers"]
    rows = {row["profile"]: row for row in told["profiles"]}
    assert bool(best) == told["available"] == any(row["eligible"] for row in rows.values())
    sound = [
        row for row in rows.values() if row["eligible"] and row["quota_fresh"] and not row["identity_binding_conflict"]
    ]
    assert told["eligible_profiles"] == len(sound)
    if best is not None:
        assert rows[best.profile]["eligible"]
        assert told["degraded"] is not best.fresh or not sound


@settings(max_examples=100, deadline=None)
@given(situations(), st.integers(1, 30))
def test_many_choices_in_a_row_never_take_more_than_an_account_has_room_for(given_: Situation, number: int) -> None:
    for count in range(number):
        best, _ = selection.choose(asked(task=f"new{count}"), given_)
        if best is None:
            break
        given_ = replace(given_, leases=(*given_.leases, lease(best.profile, f"new{count}")))
        assert given_.active(best.profile) <= given_.registry.profile(best.profile).max_concurrent
