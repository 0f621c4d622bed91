"""Coroutines and processes at one throttle, with real sockets: never more calls than allowed, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from agent_fleet.accounts.vault import uptime
from agent_fleet.errors import FleetError
from agent_fleet.queue.lock import DirLock
from agent_fleet.throttle.attempts import Attempts, cap
from agent_fleet.throttle.front import Throttle
from agent_fleet.throttle.pool import LEASE, Grant, Report
from agent_fleet.throttle.shared import Shared, every
from agent_fleet.throttle.terms import Terms
from agent_fleet.throttle.throttles import Throttles
from support import throttled
from support.throttled import Server

DEADLINE = 60.0
FEW_FILES = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def front(state: Path, attempts: Attempts | None = None, **terms: float) -> Throttle:
    return Throttle(Shared(str(state), "a", "e", "m"), Terms(**terms), attempts)  # type: ignore[arg-type]  # whole numbers too


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


def drive(work: Coroutine[None, None, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(DEADLINE):
            await work

    asyncio.run(within())


async def child(
    state: Path, port: int, agents: int, each: int, *more: str, **terms: float
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        throttled.__file__,
        *(str(state), str(port), str(agents), str(each), json.dumps(terms), *more),
        stdout=asyncio.subprocess.PIPE,
    )


def test_a_thousand_coroutines_never_have_more_calls_than_the_limit(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path)
        most = 0

        async def one() -> None:
            nonlocal most
            for _ in range(3):
                async with throttle.call():
                    most = max(most, throttle.flying)
                    await asyncio.sleep(0.001)

        await asyncio.gather(*(one() for _ in range(1000)))
        assert most == 50 and throttle.flying == throttle.waiting == 0
        throttle.close()
        assert Shared(str(tmp_path), "a", "e", "m").look().holders == {}

    drive(work())


def test_two_processes_have_no_more_together_than_one_alone_and_share_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(delay=0.02) as server:
            both = [await child(tmp_path, server.port, 40, 5, calls=12) for _ in range(2)]
            outputs = [(await process.communicate())[0] for process in both]
            assert [int(output) for output in outputs] == [200, 200]
            assert 10 <= server.most <= 12 and len(server.began) == 400

    drive(work())


def test_what_a_killed_process_had_comes_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(delay=3600) as server:
            killed = await child(tmp_path, server.port, 5, 1, calls=5)
            await until(lambda: server.flying == 5)
            throttle = front(tmp_path, calls=5)
            waiter = asyncio.ensure_future(throttle.acquire())
            await asyncio.sleep(0.3)
            assert not waiter.done()
            killed.send_signal(signal.SIGKILL)
            began = uptime()
            await killed.wait()
            await waiter
            assert uptime() - began < 20 and server.flying == 5
            assert len(Shared(str(tmp_path), "a", "e", "m").look().holders) == 1

    drive(work())


def test_a_stopped_process_keeps_its_calls_and_keeps_nobody_from_the_rest(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(delay=3600) as server:
            stopped = await child(tmp_path, server.port, 3, 1, calls=5)
            await until(lambda: server.flying == 3)
            stopped.send_signal(signal.SIGSTOP)
            try:
                throttle = front(tmp_path, calls=5)
                permits = [await throttle.acquire() for _ in range(2)]
                more = asyncio.ensure_future(throttle.acquire())
                await asyncio.sleep(LEASE + 0.5)
                assert len(permits) == 2 and not more.done()
                more.cancel()
            finally:
                stopped.send_signal(signal.SIGCONT)
                stopped.kill()
                await stopped.wait()

    drive(work())


def test_a_server_that_always_refuses_sees_no_more_calls_than_the_cap(tmp_path: Path) -> None:
    """98 calls were planned once, and 1,000 were made."""

    async def work() -> None:
        quick = {"calls": 20, "backoff": 0.005, "longest": 0.01}
        room = str(tmp_path / "run"), str(cap(planned=20, chosen=0))
        async with Server(answer=429) as server:
            both = [await child(tmp_path, server.port, 50, 1, *room, **quick) for _ in range(2)]
            outputs = [(await process.communicate())[0] for process in both]
            assert [int(output) for output in outputs] == [0, 0]
            assert 40 <= len(server.began) <= 60 == int(room[1])

    drive(work())


def test_nobody_anywhere_begins_before_the_server_said(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(answer=429, hint=1.5) as server:
            other = await child(tmp_path, server.port, 8, 3, calls=10)
            throttle = front(tmp_path, calls=10)
            shared = Shared(str(tmp_path), "a", "e", "m")
            await until(lambda: shared.look().closing.until is not None)
            gate = shared.look().closing
            server.answer = 200
            working = asyncio.ensure_future(throttled.agent(throttle, server.port, 5))
            assert int((await other.communicate())[0]) == 24 and await working == 5
            assert gate.until is not None and gate.until >= gate.since + 1.5
            # a permit that was given in the very moment of the closing is no breach
            assert [at for at in server.began if gate.since + 0.25 < at < gate.until] == []
            assert len([at for at in server.began if at >= gate.until]) >= 29

    drive(work())


def test_news_reach_a_process_that_has_permits_to_spare(tmp_path: Path) -> None:
    async def work() -> None:
        one, other = front(tmp_path), front(tmp_path)
        mine = [await one.acquire() for _ in range(9)]
        theirs = await other.acquire()
        for permit in mine[1:]:
            one.release(permit, "ok", latency=0.1)
        other.release(theirs, "rate_limited", retry_after=30.0)
        late = asyncio.ensure_future(one.acquire())
        await asyncio.sleep(0.1)
        assert not late.done() and one.flying == 1
        late.cancel()

    drive(work())


def test_after_a_wall_one_call_tries_and_the_others_follow(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path, backoff=0.05)
        throttle.release(await throttle.acquire(), "rate_limited")
        waiting = [asyncio.ensure_future(throttle.acquire()) for _ in range(10)]
        await until(lambda: throttle.flying == 1)
        await asyncio.sleep(0.4)
        assert throttle.flying == 1
        probe = next(each for each in waiting if each.done()).result()
        assert probe.is_probe
        throttle.release(probe, "ok", latency=0.1)
        await until(lambda: throttle.flying == 9)

    drive(work())


def test_cancelled_waits_and_probes_lose_no_permit(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path, calls=3, backoff=0.05)

        async def one(number: int) -> None:
            try:
                async with asyncio.timeout(0.001 * (number % 40)), throttle.call() as made:
                    await asyncio.sleep(0.002)
                    made.ending = "overloaded" if number % 90 == 0 else "ok"
            except TimeoutError:
                pass

        await asyncio.gather(*(one(number) for number in range(600)))
        assert throttle.flying == throttle.waiting == 0
        assert await throttle.acquire()
        assert throttle.flying == 1

    drive(work())


def test_models_have_limits_of_their_own_and_one_cap_of_attempts(tmp_path: Path) -> None:
    async def work() -> None:
        throttles = Throttles(str(tmp_path), "a", "e", Terms(calls=1), Attempts(str(tmp_path / "run"), 3))
        assert throttles.of("m") is throttles.of("m")
        held = [(throttles.of(model), await throttles.of(model).acquire()) for model in "mn"]
        for throttle, permit in held:
            throttle.release(permit, "server_error")
        throttles.of("m").release(await throttles.of("m").acquire(), "ok")
        with pytest.raises(FleetError) as raised:
            await throttles.of("n").acquire()
        assert raised.value.code == "refused"
        assert raised.value.message.startswith(
            "the run has made all of its 3 calls, and the last that failed met an error"
        )
        throttles.close()
        assert [each.look().holders for each in every(str(tmp_path))] == [{}, {}]

    drive(work())


def test_a_permit_is_handed_back_once(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path)
        permit = await throttle.acquire()
        throttle.release(permit, "ok")
        with pytest.raises(RuntimeError):
            throttle.release(permit, "ok")
        with pytest.raises(ZeroDivisionError):
            async with throttle.call():
                raise ZeroDivisionError
        assert throttle.flying == 0

    drive(work())


class Broken:
    """A source whose lock nobody gives back, or whose disk is gone."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def exchange(self, *_: object) -> Grant | None:
        if self.error:
            raise self.error
        return None

    def heard(self) -> int:
        return 0


def test_who_waits_is_told_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_fleet.throttle.front.PATIENCE", 0.05)
    for error, code in ((None, "busy"), (OSError(28, "No space left on device"), "disk_full"), (FEW_FILES, "io_error")):

        async def work(error: Exception | None = error, code: str = code) -> None:
            throttle = Throttle(Broken(error), Terms())
            for _ in range(2):
                with pytest.raises(FleetError) as raised:
                    await throttle.acquire()
                assert raised.value.code == code and throttle.waiting == 0

        drive(work())


def test_closing_gives_back_what_is_leased_and_tells_who_waits(tmp_path: Path) -> None:
    async def work() -> None:
        attempts = Attempts(str(tmp_path / "run"), 1000)
        throttle = front(tmp_path, attempts, calls=1)
        permit = await throttle.acquire()
        waiter = asyncio.ensure_future(throttle.acquire())
        await asyncio.sleep(0.01)
        throttle.release(permit, "ok")
        throttle.release(await waiter, "ok")
        held = await throttle.acquire()
        waiter = asyncio.ensure_future(throttle.acquire())
        await asyncio.sleep(0)
        throttle.close()
        with pytest.raises(FleetError):
            await waiter
        throttle.release(held, "ok")
        throttle.close()
        assert attempts.taken() == 3
        assert Shared(str(tmp_path), "a", "e", "m").look().holders == {}

    drive(work())


def test_closing_outlasts_another_who_has_the_lock_for_a_moment(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path)
        shared = Shared(str(tmp_path), "a", "e", "m")
        throttle.release(await throttle.acquire(), "ok")
        lock = DirLock(shared.directory)
        lock.__enter__()
        threading.Timer(0.05, lock.__exit__, (None, None, None)).start()
        throttle.close()
        assert shared.look().holders == {}

    drive(work())


def test_a_reader_of_the_state_directory_finds_nothing_open_to_others(tmp_path: Path) -> None:
    async def work() -> None:
        throttle = front(tmp_path / "state")
        throttle.release(await throttle.acquire(), "rate_limited")
        throttle.close()

    drive(work())
    for path in [*(tmp_path / "state" / "throttle").rglob("*"), tmp_path / "state" / "throttle"]:
        assert os.stat(path).st_mode & 0o077 == 0


class Short(Shared):
    """A pool that may open nothing a few times, as in a process that has too many files open."""

    fails = 0

    def exchange(self, terms: Terms, name: str, report: Report, draw: float) -> Grant | None:
        if self.fails:
            self.fails -= 1
            raise FEW_FILES
        return super().exchange(terms, name, report, draw)


def test_a_shortage_of_this_process_is_waited_for_and_told_once_each_time(tmp_path: Path) -> None:
    async def work() -> None:
        told: list[str] = []
        source = Short(str(tmp_path), "a", "e", "m")
        throttle = Throttle(source, Terms(calls=2), tell=told.append)
        for _ in range(2):
            source.fails = 4
            permits = await asyncio.gather(*(throttle.acquire() for _ in range(2)))
            for permit in permits:
                throttle.release(permit, "ok")
            throttle.close()
        assert told == ["calls wait, as the shared limit cannot be used: Too many open files"] * 2
        assert source.look().holders == {}

    drive(work())


def test_a_failure_that_could_not_be_announced_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        source = Shared(str(tmp_path), "a", "e", "m")
        throttle = Throttle(source, Terms(calls=4, sample=99))
        first, second = await throttle.acquire(), await throttle.acquire()
        fails = [1]
        announce = source._announce

        def hampered() -> None:
            if fails[0]:
                fails[0] -= 1
                raise FEW_FILES
            announce()

        monkeypatch.setattr(source, "_announce", hampered)
        throttle.release(first, "rate_limited")
        assert fails == [0]
        await until(lambda: not throttle._seen)
        assert sum(each.errors for each in source.look().curve.slices) == 1
        throttle.release(second, "cancelled")

    drive(work())
