"""The shared file: killed writers, damaged texts, other boots, and a count of attempts that never passes its cap."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet import identity
from agent_fleet.accounts.vault import uptime
from agent_fleet.errors import FleetError
from agent_fleet.queue.lock import DirLock
from agent_fleet.text import duration
from agent_fleet.throttle import record
from agent_fleet.throttle.attempts import PER_CALL, Attempts, cap
from agent_fleet.throttle.endpoint import endpoint
from agent_fleet.throttle.pool import Grant, Pool, Report
from agent_fleet.throttle.shared import Shared, every
from agent_fleet.throttle.standing import Standing, standings
from agent_fleet.throttle.terms import Observation, Terms

TERMS = Terms()


def ask(shared: Shared, name: str = "", want: int = 5, *ended: Observation, flying: int = 0) -> Grant:
    grant = shared.exchange(TERMS, name or identity.identity_of() + "/x", Report(flying, want, 0, ended), 0.5)
    assert grant is not None
    return grant


def failed() -> tuple[Observation, ...]:
    return tuple(Observation(uptime() - 0.1, uptime(), "server_error") for _ in range(4)) * 6


def test_a_cut_is_there_for_every_process_and_for_one_account_endpoint_and_model_alone(tmp_path: Path) -> None:
    one, other = Shared(str(tmp_path), "a", "e", "m"), Shared(str(tmp_path), "a", "e", "m")
    before = other.heard()
    ask(one, "", 5, *failed())
    assert other.heard() != before
    assert ask(other).limit == 40.0
    for names in (("ae", "", "m"), ("", "ae", "m"), ("a", "em", ""), ("b", "e", "m"), ("a", "f", "m"), ("a", "e", "n")):
        assert ask(Shared(str(tmp_path), *names)).limit == 50.0


def test_all_pools_are_found_by_their_names(tmp_path: Path) -> None:
    assert every(str(tmp_path)) == []
    names = [("a", "e", "m\n\u00e9\ud800"), ("a", "e", "n"), ("a", "f", "m"), ("b", "e", "m")]
    for each in reversed(names):
        ask(Shared(str(tmp_path), *each), "", 3)
    (tmp_path / "throttle" / "stray").mkdir()
    (tmp_path / "throttle" / "file").write_text("")
    found = every(str(tmp_path))
    assert [tuple(each.names.values()) for each in found] == names
    assert found[0].look().holders


def test_a_file_that_names_no_endpoint_is_left_as_it_is_and_counts_for_nobody(tmp_path: Path) -> None:
    former = tmp_path / "throttle" / hashlib.sha256(b"1:am").hexdigest()[:24]
    former.mkdir(parents=True)
    os.chmod(former.parent, 0o700)
    text = record.written(Pool(), identity.boot_id(), {"account": "a", "model": "m"})
    (former / "pool.json").write_bytes(text)
    os.chmod(former / "pool.json", 0o600)
    assert every(str(tmp_path)) == [] == standings(str(tmp_path), TERMS)
    shared = Shared(str(tmp_path), "a", "e", "m")
    assert ask(shared).permits == 5 and shared.notices == []
    assert (former / "pool.json").read_bytes() == text


def test_an_endpoint_is_the_same_however_it_is_written_and_shows_no_secret() -> None:
    for url in (
        "https://Api.example/v1",
        "HTTPS://api.example:443/v1/",
        "https://me:word@api.example/v1?key=word#word",
    ):
        assert endpoint(url) == "https://api.example/v1"
    assert endpoint("http://[::1]:8080/") == "http://[::1]:8080"
    others = ("http://api.example/v1", "https://api.example:8443/v1", "https://api.example/v2", "https://b.example/v1")
    assert len({endpoint(url) for url in (*others, "https://api.example/v1")}) == 5


def test_a_person_sees_how_the_limits_stand_under_which_somebody_calls(tmp_path: Path) -> None:
    state, me = str(tmp_path), identity.identity_of()
    assert standings(state, TERMS) == []
    ask(Shared(state, "a", "e", "m"), "", 7, flying=3)
    host, _, *rest = me.split(":")
    ask(Shared(state, "b", "e", "m"), ":".join([host, "1", *rest]) + "/dead", 7)
    (one,) = standings(state, TERMS)
    assert one == Standing("a", "e", "m", 50, 50, 3, 4, None, "", (me,))
    assert one.said == "calls of a to m at e: 3 on their way, 4 wait; 50 calls at once"
    ask(
        Shared(state, "a", "e", "m"), "", 7, Observation(uptime(), uptime(), "rate_limited", retry_after=90.0), flying=0
    )
    (one,) = standings(state, TERMS)
    assert one.closed is not None and 80 < one.closed < 92
    why = "none begins after failures, the last of which met a limit on calls (429)"
    assert one.said == f"calls of a to m at e: 0 on their way, 7 wait; {why}; one is to try in {duration(one.closed)}"
    ask(Shared(state, "a", "e", "n"), "", 7, *failed())
    assert [(each.model, each.allowed, each.baseline) for each in standings(state, TERMS)] == [
        ("m", 50, 50),
        ("n", 40, 50),
    ]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_whatever_is_in_the_file_is_read_as_a_pool_or_refused(data: st.DataObject) -> None:
    pool, now = Pool(), 1000.0
    for n in range(3):
        ended = tuple(Observation(now + n, now + n, "server_error") for _ in range(24))
        pool.exchange(TERMS, "a/1", Report(1, 5, 0, ended), now + n, 0.5)
    text = bytearray(record.written(pool, "boot", {}))
    now = 1010.0
    assert record.parsed(bytes(text).ljust(5000), "boot", now) == pool
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = record.parsed(bytes(text), "boot", now)
        found.exchange(TERMS, "b/1", Report(0, 5), now, 0.5)
    except (ValueError, record.NewerError):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\0" * 300,
        b'{"format": 0}',
        b'{"format": 1, "boot": "BOOT"}',
        b"[" * 100_000,
        b'{"format": 1, "boot": "BOOT", "at": 1e30, "news": 0, "curve": [1, 0, null, null], "slices": [],'
        b'"closing": [null, null, null, 0, 0, ""], "buckets": [[null, 0], [null, 0]], "holders": {}}',
    ],
)
def test_a_damaged_file_is_set_aside_and_named_and_work_goes_on(tmp_path: Path, content: bytes) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    ask(shared)
    Path(shared.path).write_bytes(content.replace(b"BOOT", identity.boot_id().encode()))
    assert ask(shared).permits == 5
    assert len(shared.notices) == 1 and "set aside" in shared.notices[0]
    kept = [path for path in Path(shared.directory).iterdir() if "corrupt" in path.name]
    assert len(kept) == 1
    assert ask(shared).permits == 5 and len(shared.notices) == 1


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    target = tmp_path / "precious"
    target.write_text("mine")
    os.symlink(target, shared.path)
    with pytest.raises(OSError) as raised:
        ask(shared)
    assert raised.value.errno == errno.ELOOP
    assert target.read_text() == "mine"


def test_a_file_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    Path(shared.path).write_text('{"format": 2}')
    with pytest.raises(FleetError) as raised:
        ask(shared)
    assert raised.value.code == "format_newer" and Path(shared.path).read_text() == '{"format": 2}'


def test_another_boot_starts_anew(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    ask(shared, "", 5, *failed())
    stored = json.loads(Path(shared.path).read_text())
    stored["boot"], stored["at"] = "another", 1e12
    Path(shared.path).write_text(json.dumps(stored))
    assert ask(shared).limit == 50.0 and shared.notices == []


def test_a_directory_that_others_may_use_is_refused_and_one_that_was_removed_is_made_again(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    os.chmod(shared.directory, 0o755)  # noqa: S103  # that is what is tried
    with pytest.raises(FleetError, match="not private"):
        Shared(str(tmp_path), "a", "e", "m")
    os.rmdir(shared.directory)
    assert ask(shared).permits == 5
    assert stat.S_IMODE(os.stat(shared.directory).st_mode) == 0o700


def test_who_finds_it_locked_does_not_wait_in_the_loop(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    with DirLock(shared.directory):
        assert shared.exchange(TERMS, "x", Report(0, 1), 0.5) is None


def test_the_permits_of_one_who_never_lived_come_back(tmp_path: Path) -> None:
    shared = Shared(str(tmp_path), "a", "e", "m")
    parts = identity.identity_of().split(":")
    ask(shared, ":".join([parts[0], "1", *parts[2:]]) + "/x", 50, flying=50)
    assert ask(shared).permits == 0
    with DirLock(shared.directory):
        stored = json.loads(Path(shared.path).read_text())
        for holder in stored["holders"].values():
            holder[3] -= 2.5
        Path(shared.path).write_text(json.dumps(stored))
    shared._swept = 0.0
    assert ask(shared).permits == 5


def _hammer(directory: str, most: int, back: object) -> None:
    attempts = Attempts(directory, most)
    taken = 0
    while True:
        if attempts.left == 0:
            more = attempts.more()
            if more is None:
                continue
            if not more:
                break
        attempts.take()
        taken += 1
    back.put(taken)  # type: ignore[attr-defined]  # a queue between processes, whose class has no public name


def test_many_processes_never_take_more_than_the_cap(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    back = context.Queue()
    workers = [context.Process(target=_hammer, args=(str(tmp_path), 5000, back)) for _ in range(4)]
    for worker in workers:
        worker.start()
    taken = [back.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 5000 == Attempts(str(tmp_path), 5000).taken()


def test_what_was_not_used_comes_back_if_it_is_given_back(tmp_path: Path) -> None:
    attempts = Attempts(str(tmp_path), 640)
    assert attempts.more() and attempts.left == 20
    attempts.take()
    attempts.give_back()
    assert attempts.taken() == 1 and attempts.left == 0


def test_a_count_that_cannot_be_read_lets_nothing_through(tmp_path: Path) -> None:
    attempts = Attempts(str(tmp_path), 10)
    for content in ("", "{}", '{"taken": -1}', '{"taken": true}'):
        Path(attempts.path).write_text(content)
        with pytest.raises(FleetError) as raised:
            attempts.more()
        assert raised.value.code == "corrupt" and attempts.left == 0


def test_the_cap_is_chosen_or_three_times_what_is_planned() -> None:
    assert [cap(98, 0), cap(98, 120), cap(0, 0)] == [294, 120, 3]


def test_a_cap_that_nobody_chose_grows_with_the_answers_and_with_nothing_else(tmp_path: Path) -> None:
    one, other = Attempts(str(tmp_path), cap(2, 0), each=PER_CALL), Attempts(str(tmp_path), cap(1, 0), each=PER_CALL)
    assert [attempts.more() for attempts in (one, other, one, other, one, other)] == [True] * 6
    assert not other.more()
    one.answered()
    assert [other.more() for _ in range(2)] == [False] * 2, (
        "what another process has earned comes with its next question"
    )
    assert [one.more(), other.more(), one.more(), other.more()] == [True, True, True, False]
    chosen = Attempts(str(tmp_path), 9)
    chosen.answered()
    assert not chosen.more()
