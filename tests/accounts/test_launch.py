"""`exec` and `resume` at the moments that a black box cannot time, and what hooks do where nobody expects them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import config
from agent_fleet.accounts import binaries
from agent_fleet.accounts.departure import Departure, Order
from agent_fleet.accounts.environment import environment
from agent_fleet.accounts.outfit import outfit
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.registrar import Registrar
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.plugins import Plugins
from support.estate import CLAUDE, Estate
from support.project import BOOT


@pytest.fixture
def estate(top: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> Estate:
    monkeypatch.setattr(Estate, "server", server)
    return Estate(top, claude=1).ready()


def inside(estate: Estate) -> Departure:
    """The same in this process, which must not become another one."""
    environ = estate.environment()
    registrar = Registrar(str(estate.file), environ)
    registry, vault = registrar.load(), Vault(str(estate.kept))
    settings = config.load(str(estate.root), queue_dir=str(estate.dir), environ=environ)
    port = ProviderPort(Plugins(settings), registry, vault, environ)
    return Departure(Router(registrar, vault, port), port, registry)


def order(estate: Estate, **more: Any) -> Order:
    told = {"task": "t", "workspace": str(estate.root), "turn_end": str(estate.turn_end("t")), "pool": "claude-crew"}
    return Order(**{**told, "argv": (CLAUDE, "hello"), **more})


@pytest.mark.parametrize("verb", ["exec", "resume"])
def test_what_it_becomes_is_told_where_it_is_and_not_where_it_was_called(estate: Estate, verb: str) -> None:
    rest: tuple[str, ...]
    elsewhere = {"PWD": str(estate.top), "OLDPWD": "/"}
    if verb == "resume":
        assert estate.launch("t", "--pool", "claude-crew", argv=[CLAUDE, "hello"]).status == 0
        rest, argv = (), [CLAUDE]
    else:
        rest, argv = ("--pool", "claude-crew"), [CLAUDE, "hello"]
    done = estate.launch("t", *rest, argv=argv, verb=verb, cwd=estate.top, env=elsewhere)
    assert done.status == 0, done
    call = estate.stand_in.last()
    assert (call["cwd"], call["env"]["PWD"]) == (str(estate.root), str(estate.root))
    assert "OLDPWD" not in call["env"]


@pytest.mark.parametrize("moment", ["before the home", "after the home"])
def test_what_appears_after_the_lease_was_taken_ends_it(
    estate: Estate, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def late(*_: Any, **__: Any) -> Any:
        (estate.root / ".mcp.json").write_text("{}")
        assert estate.leases()["t"]["pid"] == os.getpid()
        return real(*_, **__)

    real: Callable[..., Any] = outfit if moment == "before the home" else environment
    where = "departure.outfit" if moment == "before the home" else "outfit.environment.environment"
    monkeypatch.setattr(f"agent_fleet.accounts.{where}", late)
    with pytest.raises(FleetError) as caught:
        inside(estate).start(order(estate))
    assert caught.value.code == "project_refused"
    assert estate.leases() == {}


def test_a_project_that_was_exchanged_after_the_lease_was_taken_is_not_entered(
    estate: Estate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: Any) -> Any:
        estate.root.rename(estate.top / "away")
        (estate.top / "away").joinpath(".git").rename(estate.top / "git")
        estate.root.mkdir()
        (estate.top / "git").rename(estate.root / ".git")
        return outfit(*given)

    monkeypatch.setattr("agent_fleet.accounts.departure.outfit", late)
    with pytest.raises(FleetError, match="exchanged"):
        inside(estate).start(order(estate))
    assert inside(estate).router.leases.of("t") is None


def test_what_was_provisioned_while_a_program_was_read_is_not_taken_back(
    estate: Estate, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = inside(estate).port
    profile = port.registry.profile("claude-1")
    made = port.homes.of(profile)
    assert made is not None
    newer = replace(made, words=(sys.executable, "newer"))

    def slow(*given: Any) -> Any:
        port.homes.write(newer)
        return check(*given)

    check = binaries.check
    os.utime(made.pin.real, (1, 1))  # touched, so that its pin is made anew
    monkeypatch.setattr("agent_fleet.accounts.ports.binaries.check", slow)
    port.readiness(profile)
    assert port.homes.of(profile) == newer


def test_a_program_that_cannot_be_started_gives_the_lease_back(estate: Estate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(8, "Exec format error")

    monkeypatch.setattr(os, "execve", refuse)
    monkeypatch.chdir(estate.top)
    with pytest.raises(FleetError, match="Exec format error"):
        inside(estate).start(order(estate))
    assert estate.leases() == {}
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN, "what is told of it must not end this process"


def test_a_hook_ends_with_0_and_in_silence_whatever_it_is_given(estate: Estate) -> None:
    estate.stand_in.tell(sleep=30)
    worker = estate.start(*estate.words("exec", "t", "--pool", "claude-crew", argv=[CLAUDE, "hello"]))
    try:
        call = estate.stand_in.last()
        assert (call["pid"], call["hooks"]) == (worker.pid, [[0, "", ""]])
        assert estate.leases()["t"]["pid"] == worker.pid
        worn = {name: value for name, value in call["env"].items() if name.startswith("AGENT_FLEET_")}
        good = json.dumps({"session_id": "s-claude"})
        table: tuple[tuple[list[str], bytes, str], ...] = (
            (["session-start"], b'{"session_id": "other"}', "already bound"),
            (["session-start"], b'{"session_id": "a", "deep": [{"sessionId": "b"}]}', "2 sessions"),
            (["session-start"], b"{}", "no session"),
            (["session-start"], b"not JSON", "no session"),
            (["session-start"], b"[" * 100_000, "no session"),
            (["turn-end", "--unknown", "-x", "--json"], b'{"session_id": "title-thread"}', ""),
            (["turn-end", json.dumps({"thread-id": "title-thread"})], b"", ""),
            (["turn-end"], b"", "no session"),
            (["something-else"], good.encode(), ""),
            ([], b"", ""),
        )
        for words, payload, told in table:
            answer = estate.fleet("hook", *words, env=worn, stdin=payload)
            assert (answer.status, answer.out) == (0, ""), (words, payload[:80], answer)
            assert told in answer.err, (words, payload[:80], answer.err)
            assert bool(answer.err) is bool(told), (words, answer.err)
        assert not estate.turn_end("t").exists()
        assert estate.json("session", "status", "--task", "t")["session_event_seq"] == 1
        for spoiled in ({"AGENT_FLEET_PROFILE": "claude-2"}, {"AGENT_FLEET_TASK_ID": "u"}, {"AGENT_FLEET_POOL": "x"}):
            for event in ("turn-end", "session-start"):
                answer = estate.fleet("hook", event, env={**worn, **spoiled}, stdin=good.encode())
                assert (answer.status, answer.out) == (0, ""), answer
                assert ("no lease for task" in answer.err) is (event == "session-start")
        assert not estate.turn_end("t").exists()
        unreadable = estate.fleet("--config", "/nowhere", "hook", "turn-end", env=worn, stdin=good.encode())
        assert (unreadable.status, unreadable.out) == (0, "")
        answer = estate.fleet("hook", "turn-end", good, env=worn, stdin=b"")
        assert (answer.status, answer.out, answer.err) == (0, "", "")
        assert (estate.turn_end("t").stat().st_mode & 0o777, estate.turn_end("t").stat().st_size) == (0o600, 0)
    finally:
        worker.kill()
        worker.communicate()
    estate.turn_end("t").unlink()
    late = estate.fleet("hook", "turn-end", good, env=worn, stdin=b"")
    assert (late.status, late.err, estate.turn_end("t").exists()) == (0, "", True)
    gone = estate.fleet("hook", "session-start", env=worn, stdin=good.encode())
    assert (gone.status, "no lease for task" in gone.err) == (0, True)


def test_a_hook_does_not_wait_for_an_end_of_input_that_never_comes(estate: Estate) -> None:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", BOOT, "hook", "turn-end", '{"thread-id": "x"}'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=estate.environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read() == b""
        assert child.wait(30) == 0
        assert time.monotonic() - began < 20
