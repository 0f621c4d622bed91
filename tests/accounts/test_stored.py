"""The files of accounts: those that the older program wrote, those that are wrong, and clocks that jump."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.accounts import audit, cooldowns, leases, sessions, stamps, unfinished
from agent_fleet.accounts.cooldowns import Cooldowns
from agent_fleet.accounts.leases import Leases
from agent_fleet.accounts.pins import Pins, fingerprint, salt_of
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.sessions import Session, Sessions
from agent_fleet.accounts.stored import key_of
from agent_fleet.accounts.values import Lease
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError
from support.accounts import clock


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(str(tmp_path / "state"))


def put(vault: Vault, directory: str, stem: str, content: Any, mode: int = 0o600) -> Path:
    """Write a file as another program would have."""
    path = Path(vault.root) / directory / f"{stem}.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def old_lease(task: str = "demo-7", **more: Any) -> dict[str, Any]:
    return {
        "schema": 2,
        "task": task,
        "profile": "codex-blue",
        "provider": "codex",
        "pool": "codex-crew",
        "workspace": "/src/app",
        "state": "reserved",
        "pid": None,
        "process_start": None,
        "hostname": "box",
        "created_at": "2026-05-04T10:00:00.000001+00:00",
        "created_unix": time.time(),
        "bound_at": None,
        **more,
    }


def old_session(task: str = "demo-7", schema: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "schema": schema,
        "task": task,
        "profile": "codex-blue",
        "provider": "codex",
        "pool": "codex-crew",
        "workspace": "/src/app",
        "turn_end": "/run/x/demo-7.turn-ended",
        "session_id": "01abc-def",
        "updated_at": "2026-05-04T10:02:00.5+00:00",
        **({"session_event_seq": 3} if schema == 2 else {}),
        **more,
    }


def running(pid: int, **more: Any) -> dict[str, Any]:
    bound = {"pid": pid, "process_start": "Mon May  4 10:00:05 2026", "bound_at": "2026-05-04T10:00:05+00:00"}
    return old_lease(state="running", **{**bound, **more})


# ------------------------------------------------------------------------------------------------------------ leases


def test_a_reservation_of_the_older_program_lasts_by_the_wall_clock(vault: Vault) -> None:
    now = clock()
    for age, counts in ((0, True), (29, True), (31, False), (-29, True), (-31, False), (-1e9, False)):
        put(vault, "leases", key_of("demo-7"), old_lease(created_unix=now.now - age))
        assert (len(Leases(vault).active(now, 30)) == 1) is counts, age


def test_a_running_lease_of_the_older_program_counts_until_nothing_has_its_number(vault: Vault) -> None:
    child = subprocess.Popen(["sleep", "600"])
    put(vault, "leases", key_of("demo-7"), running(child.pid))
    assert [lease.pid for lease in Leases(vault).active(clock(), 30)] == [child.pid]
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Leases(vault).active(clock(), 30) == []
    child.wait()
    assert Leases(vault).active(clock(), 30) == []


def test_a_number_that_the_kernel_gave_to_another_process_holds_nothing(vault: Vault) -> None:
    child = subprocess.Popen(["sleep", "600"])
    mine = leases.bind(leases.parse(old_lease(), key_of("demo-7")), clock(), child.pid)
    Leases(vault).write(mine)
    (again,) = Leases(vault).active(clock(), 30)
    assert leases.record(again) == leases.record(mine)
    pid, start, *rest = mine.identity.split(":")
    reused = ":".join([pid, str(int(start) - 1), *rest])
    Leases(vault).write(Lease(**{**{f: getattr(mine, f) for f in Lease.__slots__}, "identity": reused}))
    assert Leases(vault).active(clock(), 30) == []
    child.kill()
    child.wait()


def test_a_reservation_of_ours_does_not_care_what_is_done_to_the_clock(vault: Vault) -> None:
    now = clock()
    Leases(vault).write(leases.reserve(leases.parse(old_lease(), key_of("demo-7")), now))
    kept = Leases(vault)
    for jump in (-1e8, 1e8):
        assert len(kept.active(clock(now=now.now + jump), 30)) == 1
    assert kept.active(clock(uptime=now.uptime + 31), 30) == []
    assert kept.active(clock(boot="another"), 30) == []
    if now.boot:
        assert len(kept.active(clock(uptime=now.uptime + 29), 30)) == 1


def test_a_reservation_of_another_machine_on_the_same_files_counts_for_its_time(vault: Vault) -> None:
    now = clock()
    there = clock(boot="elsewhere", host="other", uptime=5.0)
    made = leases.reserve(leases.parse(old_lease(), key_of("demo-7")), there)
    Leases(vault).write(replace(made, hostname="other"))
    assert len(Leases(vault).active(now, 30)) == 1
    assert len(Leases(vault).active(clock(now=now.now + 29), 30)) == 1
    assert Leases(vault).active(clock(now=now.now + 31), 30) == []
    assert Leases(vault).active(clock(host="other"), 30) == []  # its own machine was booted again since


WRONG_LEASES = [
    "",
    "{",
    "[]",
    "null",
    "{" * 100_000,
    old_lease(schema=1),
    old_lease(schema=True),
    old_lease(task="other"),
    old_lease(task=""),
    old_lease(profile=7),
    old_lease(workspace="src"),
    old_lease(workspace="/src/../app"),
    old_lease(created_at="yesterday"),
    old_lease(created_unix="1"),
    old_lease(created_unix=True),
    old_lease(created_unix=10**400),
    old_lease(renewed_uptime=-(10**400)),
    old_lease(schema=10**400),
    old_lease(state="idle"),
    old_lease(pid=4),
    running(0),
    running(-1),
    running(2**40),
    running(1, process_start=""),
    running(1, bound_at=None),
    running(1, bound_at="9999-12-31T23:59:59.999999Z"),
    running(1, identity=7),
]


@pytest.mark.parametrize("content", WRONG_LEASES, ids=range(len(WRONG_LEASES)))
def test_a_wrong_lease_costs_itself_alone(vault: Vault, content: Any) -> None:
    bad = put(vault, "leases", key_of("demo-7"), content)
    put(vault, "leases", key_of("good"), old_lease("good"))
    before = bad.read_bytes()
    assert [lease.task for lease in Leases(vault).active(clock(), 30)] == ["good"]
    assert bad.read_bytes() == before
    assert any(bad.name in notice for notice in vault.notices)
    assert [lease.task for lease in Leases(vault).active(clock(), 30, sweep=True)] == ["good"]
    assert not bad.exists()
    (kept,) = (Path(vault.root) / "quarantine").iterdir()
    assert kept.read_bytes() == before


def test_what_a_killed_writer_left_is_swept_an_hour_later(vault: Vault) -> None:
    put(vault, "leases", key_of("good"), old_lease("good"))
    old, new = (Path(vault.root) / "leases" / name for name in (".tmp-1-1", ".tmp-1-2"))
    for path in (old, new):
        path.write_bytes(b"{")
    os.utime(old, (1, 1))
    assert len(Leases(vault).active(clock(), 30, sweep=True)) == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_an_unsafe_file_is_not_believed(vault: Vault, tmp_path: Path) -> None:
    good = old_lease()
    path = put(vault, "leases", key_of("demo-7"), good, mode=0o640)
    assert Leases(vault).of("demo-7") is None
    path.chmod(0o600)
    assert Leases(vault).of("demo-7") is not None
    os.link(path, tmp_path / "twice")
    assert Leases(vault).of("demo-7") is None
    path.unlink()
    path.symlink_to(tmp_path / "twice")
    assert Leases(vault).of("demo-7") is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert Leases(vault).of("demo-7") is None
    assert len(vault.notices) >= 3


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(old_lease())), st.none() | st.integers() | st.just(10**400) | st.text() | st.floats()
    )
)
def test_no_content_of_a_lease_can_break_more_than_itself(more: dict[str, Any]) -> None:
    try:
        found = leases.parse({**old_lease(), **more}, key_of("demo-7"))
    except BadFileError:
        return
    again = leases.parse(json.loads(json.dumps(leases.record(found))), key_of(found.task))
    assert leases.record(again) == leases.record(found)


@pytest.mark.parametrize("after", ["new", ""], ids=["another", "none"])
def test_whoever_reads_while_another_writes_sees_one_of_the_two(vault: Vault, after: str) -> None:
    """A file that is replaced between its opening and the look at it has no name any more, which is no fault of it."""
    path = put(vault, "leases", key_of("demo-7"), old_lease(pool="old"))
    fstat = os.fstat
    replaced: list[bool] = []

    def slow(descriptor: int) -> os.stat_result:
        if not replaced:
            replaced.append(True)
            path.unlink()
            if after:
                put(vault, "leases", key_of("demo-7"), old_lease(pool=after))
        return fstat(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", slow)
        found = Leases(vault).of("demo-7")
    assert (found.pool if found else "") == after
    assert replaced and not vault.notices


# ---------------------------------------------------------------------------------------------------------- sessions


def test_an_older_session_reads_as_zero_and_counts_from_its_next_start(vault: Vault) -> None:
    path = put(vault, "sessions", key_of("demo-7"), old_session())
    before = path.read_bytes()
    known = Sessions(vault).must("demo-7")
    assert sessions.record(known)["session_event_seq"] == 0
    assert path.read_bytes() == before
    with pytest.raises(FleetError, match="already bound to another identity"):
        Sessions(vault).started(Session(**{**_fields(known), "session_id": "other"}))
    assert path.read_bytes() == before
    assert [Sessions(vault).started(known).sequence for _ in range(3)] == [1, 2, 3]
    stored = json.loads(path.read_text())
    assert (stored["schema"], stored["session_event_seq"]) == (2, 3)
    assert set(stored) == set(old_session(schema=2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _fields(found: Session) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Session.__slots__}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        old_session(schema=3),
        old_session(extra=1),
        old_session(turn_end="/x"),
        old_session(turn_end="x.turn-ended"),
        old_session(session_id="../x"),
        old_session(pool=""),
        old_session(updated_at="2026-05-04"),
        old_session(schema=2, session_event_seq=0),
        old_session(schema=2, session_event_seq=2**63),
        old_session(schema=2, session_event_seq=True),
    ],
    ids=range(11),
)
def test_a_wrong_session_is_never_resumed_and_can_be_removed(vault: Vault, content: Any) -> None:
    path = put(vault, "sessions", key_of("demo-7"), content)
    with pytest.raises(FleetError) as refusal:
        Sessions(vault).must("demo-7")
    assert refusal.value.code == "corrupt"
    assert Sessions(vault).all() == []
    assert Sessions(vault).remove("demo-7") is None
    assert not path.exists()
    with pytest.raises(FleetError, match="no recorded provider session"):
        Sessions(vault).must("demo-7")


# ------------------------------------------------------------------------------------------- cooldowns, stamps, proofs


def test_cooldowns_of_both_programs_count_until_their_time(vault: Vault) -> None:
    now = time.time()
    entry = {
        "schema": 1,
        "profile": "a",
        "reason": "x",
        "created_at": "2026-05-04T10:00:00+00:00",
        "expires_unix": now + 60,
    }
    put(vault, "cooldowns", "a", entry)
    put(vault, "cooldowns", "b", {**entry, "profile": "a"})
    put(vault, "cooldowns", "c", {**entry, "profile": "c", "expires_unix": now - 1})
    put(vault, "cooldowns", "d", {**entry, "profile": "d", "expires_unix": 1e300})
    assert set(Cooldowns(vault).active(now)) >= {"a"}
    Cooldowns(vault).begin("c", "limit", 60, scope="opus")
    Cooldowns(vault).begin("c", "limit", 60)
    assert len(Cooldowns(vault).active(now)["c"]) == 2
    assert set(cooldowns.record(Cooldowns(vault).active(now)["c"][0])) >= set(entry)
    assert Cooldowns(vault).clear("c")
    assert "c" not in Cooldowns(vault).active(now)


@pytest.mark.parametrize("spoiled", ["{", "[]", {"schema": 1}, {"schema": 1, "profile": "b"}], ids=str)
@pytest.mark.parametrize("stem", ["a", "a@0123456789abcdef"])
def test_a_cooldown_that_cannot_be_read_closes_its_profile_for_as_long_as_any_may(
    vault: Vault, spoiled: Any, stem: str
) -> None:
    """Until its day is over or a person opens the profile; whoever writes sets the file aside, and that opens nothing."""
    now = time.time()
    cools = Cooldowns(vault)
    put(vault, "cooldowns", stem, spoiled)
    path = Path(vault.path("cooldowns", f"{stem}.json"))
    os.utime(path, (now, now - 3600))
    end = pytest.approx(now - 3600 + cooldowns.LONGEST, abs=1)

    def closed() -> tuple[str, Any, str]:
        (one,) = cools.active(now)["a"]
        return one.profile, one.expires, one.scope

    assert closed() == ("a", end, "")
    assert any(str(path) in notice and "cooldown-clear a" in notice for notice in vault.notices)
    cools.begin("other", "limit", 60)  # any writer
    assert closed() == ("a", end, "")
    (kept,) = Path(vault.path("quarantine")).iterdir()
    assert kept.name.startswith(f"cooldowns-{stem}.json")
    assert [entry["event"] for entry in audit.newest(vault, 9)] == ["cooldown-unreadable"]
    assert cools.repair(now) == []
    assert "a" not in cools.active(now + cooldowns.LONGEST)
    assert cools.clear("a")
    assert "a" not in cools.active(now)
    assert not cools.clear("a")


def test_an_unreadable_cooldown_that_must_be_over_closes_nothing(vault: Vault) -> None:
    now = time.time()
    put(vault, "cooldowns", "a", "{")
    os.utime(vault.path("cooldowns", "a.json"), (now, now - cooldowns.LONGEST - 1))
    assert Cooldowns(vault).active(now) == {}
    assert Cooldowns(vault).repair(now) == []
    assert not Path(vault.path("cooldowns", "a.json")).exists()


def test_a_time_of_writing_that_is_still_to_come_prolongs_nothing(vault: Vault) -> None:
    now = time.time()
    put(vault, "cooldowns", "a", "{")
    os.utime(vault.path("cooldowns", "a.json"), (now, now + 5e6))
    (one,) = Cooldowns(vault).active(now)["a"]
    assert one.expires == pytest.approx(now + cooldowns.LONGEST, abs=1)


def test_a_cooldown_that_can_be_read_keeps_its_reason_beside_one_that_cannot(vault: Vault) -> None:
    now = time.time()
    cools = Cooldowns(vault)
    cools.begin("a", "auth: the login was refused", 60)
    put(vault, "cooldowns", "a@0123456789abcdef", "{")
    cools.repair(now)
    (one,) = cools.active(now)["a"]
    assert one.reason.startswith("auth: the login was refused; ")
    assert one.expires > now + cooldowns.LONGEST - 60


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": "then"}', "\x00"])
def test_unreadable_stamps_are_as_if_there_were_none(vault: Vault, content: str) -> None:
    assert stamps.read(vault) == {}
    Path(vault.root).mkdir(mode=0o700)
    path = Path(vault.root) / "selection.json"
    path.write_text(content)
    path.chmod(0o600)
    assert stamps.read(vault) == {}
    stamps.write(vault, {"a": 1_800_000_000.0})
    assert stamps.read(vault) == {"a": 1_800_000_000.0}


def test_the_numbers_of_the_older_program_are_read_again(vault: Vault) -> None:
    """Its fingerprints are not salted, so one of them could never be compared with one of ours."""
    entry = {
        "schema": 1,
        "profile": "a",
        "provider": "claude",
        "status": "fresh",
        "reported_status": "fresh",
        "reason": None,
        "headroom_percent": 41.0,
        "windows": [{"id": "five_hour", "kind": "session", "remaining_percent": 41.0, "resets_at": None}],
        "verified_at": "2026-05-04T09:59:58+00:00",
        "refreshed_at": "2026-05-04T10:00:00+00:00",
        "identity_fingerprint": "f" * 64,
        "identity_source": "quota-account",
        "credential_state": "present",
    }
    put(vault, "quota", "a", entry)
    assert Proofs(vault).of("a") is None
    ours = {**entry, "stamp": "s", "source": "x"}
    put(vault, "quota", "a", ours)
    assert Proofs(vault).of("a") is not None
    window = {"id": "five_hour", "kind": "session", "remaining_percent": 41.0, "resets_at": None}
    for more in (
        {"windows": [{**window, "remaining_percent": 10**400}]},
        {"windows": [{**window, "remaining_percent": -1}]},
        {"windows": [{**window, "resets_at": "9999-12-31T23:59:59.999999Z"}]},
        {"refreshed_at": "0001-01-01T00:00:00Z"},
    ):
        put(vault, "quota", "a", {**ours, **more})
        assert Proofs(vault).of("a") is None, more


# ------------------------------------------------------------------------------------------------- identities and salt


def test_a_fingerprint_is_of_this_installation_alone(vault: Vault, tmp_path: Path) -> None:
    salt = salt_of(vault)
    assert salt_of(vault) == salt
    other = salt_of(Vault(str(tmp_path / "else")))
    mine = fingerprint(salt, "toy", "me@example.com")
    assert mine == fingerprint(salt, "toy", " ME@Example.COM ")
    assert len({mine, fingerprint(other, "toy", "me@example.com"), fingerprint(salt, "else", "me@example.com")}) == 3
    assert fingerprint(salt, "toy", "  ") == ""
    (Path(vault.root) / "identity" / "salt.json").write_text("{}")
    with pytest.raises(FleetError) as refusal:
        salt_of(vault)
    assert refusal.value.code == "corrupt"


def test_a_wrong_pin_is_none(vault: Vault) -> None:
    put(vault, "identity", "pin-a", {"schema": 1, "profile": "b"})
    assert Pins(vault).of("a") is None
    assert vault.notices
    good = {"schema": 1, "profile": "a", "provider": "toy", "home": "/h", "adopted_at": "2026-05-04T10:00:00Z"}
    for digits in (None, "f" * 64):
        put(vault, "identity", "pin-a", {**good, "fingerprint": digits})
        assert Pins(vault).of("a") is not None
    # a fingerprint that is missing is not that of a provider which tells no accounts apart
    others: tuple[Any, ...] = ("f", "F" * 64, 7, [], False)
    for wrong in (good, *({**good, "fingerprint": each} for each in others)):
        put(vault, "identity", "pin-a", wrong)
        assert Pins(vault).of("a") is None, wrong


def test_a_salt_that_was_lost_is_told_as_that_and_no_other_is_made(vault: Vault) -> None:
    salt_of(vault)
    (Path(vault.root) / "identity" / "salt.json").unlink()
    first = salt_of(vault)
    put(vault, "identity", "pin-a", {"schema": 1})
    assert salt_of(vault) == first
    (Path(vault.root) / "identity" / "salt.json").unlink()
    with pytest.raises(FleetError, match="it is gone") as refusal:
        salt_of(vault)
    assert refusal.value.code == "corrupt"


# ------------------------------------------------------------------------------------------------------ audit and vault


def test_the_audit_is_turned_over_and_bad_lines_are_left_out(vault: Vault) -> None:
    for number in range(40):
        audit.note(vault, "e", task=f"a secret task {number}", largest=4000, number=number)
    assert (Path(vault.root) / "audit.1.jsonl").exists()
    with (Path(vault.root) / "audit.jsonl").open("ab") as file:
        file.write(b'nonsense\n{"event": 1}\n\xff\n')
    found = audit.newest(vault, 15)
    assert [event["number"] for event in found] == list(range(25, 40))
    text = "".join(path.read_text(errors="replace") for path in Path(vault.root).glob("audit*"))
    assert "secret" not in text
    assert stat.S_IMODE((Path(vault.root) / "audit.jsonl").stat().st_mode) == 0o600


def test_all_that_is_made_is_private_whatever_the_umask(vault: Vault) -> None:
    before = os.umask(0)
    try:
        Cooldowns(vault).begin("a", "x", 5)
        salt_of(vault)
        audit.note(vault, "e")
        with vault.lock("x", "a test"):
            pass
    finally:
        os.umask(before)
    for path in [Path(vault.root), *Path(vault.root).rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_others_may_use_is_refused(vault: Vault) -> None:
    Cooldowns(vault).begin("a", "x", 5)
    (Path(vault.root) / "cooldowns").chmod(0o750)
    with pytest.raises(FleetError) as refusal:
        Cooldowns(vault).begin("a", "x", 5)
    assert refusal.value.code == "refused"


def test_a_lock_is_free_the_moment_its_holder_is_killed_and_says_who_has_it(vault: Vault) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with vault.lock("x", "a long look"):
            os.write(writer, b"!")
            time.sleep(600)
        os._exit(0)
    assert os.read(reader, 1) == b"!"
    with (
        pytest.raises(FleetError, match=f"process {child} took it last, for a long look") as refusal,
        vault.lock("x", "me", patience=0.2),
    ):
        pass
    assert refusal.value.code == "busy"
    os.kill(child, signal.SIGKILL)
    began = time.monotonic()
    with vault.lock("x", "me", patience=5):
        assert time.monotonic() - began < 2
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def test_it_is_seen_what_the_older_program_left(vault: Vault) -> None:
    unfinished.check(vault, "x")
    put(vault, "transactions/credential-recovery", "codex-a", "{")
    with pytest.raises(FleetError, match="pending credential recovery blocks x: codex-a"):
        unfinished.check(vault, "x")
