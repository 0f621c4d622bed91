"""Scenarios C13 to C27 and C56: which account is chosen, and what is said of the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.systems import Ours

Build = Callable[..., Ours]


def files(machine: Ours) -> dict[str, bytes]:
    """Every file of state and homes but for locks and what was seen of accounts."""
    found = {}
    for top in (machine.kept, machine.top / "share"):
        for path in sorted(top.rglob("*")):
            name = str(path.relative_to(machine.top))
            if path.is_file() and "lock" not in name and not name.startswith("state/quota") and "cache" not in name:
                found[name] = path.read_bytes()
    return found


def test_c13_a_dry_run_writes_nothing(one: Ours) -> None:
    before = files(one)
    where = ("--task", "t", "--pool", "claude-crew", "--workspace", str(one.root))
    assert one.must("choose", *where, "--dry-run")["lease"] is None
    assert files(one) == before


def test_c14_the_most_headroom_wins_and_a_reserve_is_kept(build: Build) -> None:
    machine = build(claude=3, left={"claude-1": 40.0, "claude-2": 70.0, "claude-3": 15.0})
    assert machine.choose("a").data["profile"] == "claude-2"
    for label in machine.labels:
        machine.tell(label, 10.0)
    assert "quota reserve" in machine.choose("b").data["error"]


def test_c16_full_or_cooling_accounts_take_nothing(build: Build) -> None:
    machine = build(claude=1)
    for task in "ab":
        assert machine.choose(task).status == 0
    phrase = "no enabled, provisioned profile has capacity"
    assert phrase in machine.choose("c").data["error"]
    machine.must("lease", "release", "--task", "a")
    machine.must("profile", "cooldown", "claude-1", "--seconds", "60", "--reason", "x")
    assert phrase in machine.choose("c").data["error"]


def test_c17_weight_counts(build: Build) -> None:
    machine = build(claude=2, left={"claude-1": 70.0, "claude-2": 62.0})
    machine.set('[profiles."claude-2"]', "weight", "3")
    assert machine.choose("t").data["profile"] == "claude-2"


@pytest.mark.parametrize("spoiled", ["nothing", "no numbers", "old"])
def test_c19_c20_one_that_cannot_be_seen_is_left_out_with_its_reason(build: Build, spoiled: str) -> None:
    machine = build(claude=2, left={"claude-1": 90.0, "claude-2": 50.0})
    spoil(machine, "claude-1", spoiled)
    found = machine.choose("t")
    assert (found.status, found.data.get("profile")) == (0, "claude-2"), found
    assert machine.name == "peer" or [each["profile"] for each in found.data["others"]] == ["claude-1"]


def spoil(machine: Ours, label: str, how: str) -> None:
    if machine.name == "peer":
        machine.tell(label, 90.0, status={"nothing": "error", "no numbers": "rate_limited", "old": "stale"}[how])
        return
    (machine.kept / "quota" / f"{label}.json").unlink(missing_ok=True)
    row = {"id": "five_hour", "kind": "session", "remaining_percent": 90}
    told: dict[str, Any] = {"windows": [row], "observed_at": "2026-01-01T00:00:00Z"}
    if how == "nothing":
        machine.left_of(label).unlink()
    else:
        machine.left_of(label).write_text("{}" if how == "no numbers" else json.dumps(told))


def test_c21_one_account_under_two_labels_is_refused(build: Build) -> None:
    machine = build(claude=2)
    machine.login("claude-2", "claude-1")
    machine.tell("claude-2", 90.0, **({"who": "claude-1"} if machine.name == "peer" else {}))
    machine.tell("claude-1", 90.0)
    assert "duplicate" in json.dumps(machine.choose("t").data)


def test_c22_what_a_source_says_in_error_is_repeated_nowhere(build: Build) -> None:
    machine = build(claude=1)
    secret = "sk-ant-oat01-PLANTED"
    if machine.name == "peer":
        machine.tell("claude-1", 80.0, print=f"not JSON {secret}", exit=1)
    else:
        machine.left_of("claude-1").write_text(json.dumps({"windows": [{"id": secret, "remaining_percent": "x"}]}))
        (machine.kept / "quota" / "claude-1.json").unlink()
    found = machine.choose("t")
    assert found.is_refusal
    assert secret not in found.text
    assert not any(secret.encode() in path.read_bytes() for path in machine.kept.rglob("*") if path.is_file())


def test_c23_asking_again_keeps_the_account(one: Ours) -> None:
    first, second = one.choose("t").data, one.choose("t").data
    assert (second["decision_reason"], second["profile"]) == ("sticky", first["profile"])


def test_c25_a_reservation_ends_by_itself(build: Build) -> None:
    machine = build(claude=1)
    machine.set("[settings]", "lease_grace_seconds", "1")
    for task in "ab":
        assert machine.choose(task).status == 0
    deadline = time.monotonic() + 20
    while machine.must("lease", "list")["leases"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert machine.choose("c").status == 0


def test_c27_release_in_every_state(one: Ours) -> None:
    one.choose("r")
    one.must("lease", "release", "--task", "r")
    one.refused("lease", "release", "--task", "r", phrase="no lease for task")
    one.stand_in.tell(sleep=60)
    with one.start(
        *one.words("exec", "t", "--pool", "claude-crew", argv=["--dangerously-skip-permissions", "x"])
    ) as child:
        one.stand_in.last()
        one.refused("lease", "release", "--task", "t")
        one.must("lease", "release", "--task", "t", "--force")
        assert one.must("lease", "list")["leases"] == []
        child.kill()


def test_c56_the_status_of_a_pool_has_a_row_and_a_reason_for_each(build: Build) -> None:
    machine = build(claude=2)
    machine.must("profile", "cooldown", "claude-2", "--seconds", "60", "--reason", "x")
    (found,) = machine.must("pool", "status", "--pool", "claude-crew")["providers"]
    rows = {row["profile"]: (row["eligible"], row["routeability_reason"]) for row in found["profiles"]}
    assert rows["claude-1"][0] is True
    assert rows["claude-2"] == (False, "cooldown")
    assert (found["available"], found["selection_mode"], found["degraded"]) == (True, "quota", False)
    assert found["eligible_profiles"] == 1
    assert isinstance(found["best_adjusted_headroom_percent"], int | float)


def test_twelve_choosers_at_once_share_two_equal_accounts(build: Build, tmp_path: Path) -> None:
    machine = build(claude=2)
    for label in machine.labels:
        machine.set(f'[profiles."{label}"]', "max_concurrent", "9")
    where = ("--pool", "claude-crew", "--workspace", str(machine.root), "--format", "json")
    started = [machine.start("lease", "choose", "--task", f"t{n}", *where) for n in range(12)]
    chosen = []
    for each in started:
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        chosen.append(json.loads(out)["profile"])
    assert sorted(chosen) == ["claude-1"] * 6 + ["claude-2"] * 6
