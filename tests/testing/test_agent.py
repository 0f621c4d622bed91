"""The scripted agent: each mode does what its name says, and the provider's reader sees it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_fleet.api import Event, Exit, FleetError, Launch, Outcome
from agent_fleet.run.settle import feed_all
from agent_fleet.testing import script
from agent_fleet.testing.agent import MOST
from agent_fleet.testing.agent.modes import MODES
from agent_fleet.testing.agent.script import script_of
from agent_fleet.testing.provider import Scripted, ScriptedReader
from support import jobs, procs

PATIENCE = 60.0


class Ran(NamedTuple):
    """One attempt: how its process ended, what it printed, and what the reader made of it."""

    status: int
    log: Path
    outcome: Outcome

    @property
    def events(self) -> list[dict[str, Any]]:
        found = []
        for line in self.log.read_text("utf-8", "replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


@pytest.fixture
def launch(tmp_path: Path, mark: str) -> Callable[..., Launch]:
    """The launch of an attempt whose task's text holds a script; `table` is `[plugin.scripted]`."""

    def make(mode: str, table: dict[str, Any] | None = None, **parameters: Any) -> Launch:
        told = {"state": str(tmp_path / "state"), **(table or {})}
        text = f"Do this.\n{script(mode, **parameters)}\nThank you."
        env = {"FLEET_WORKER": mark, "FLEET_TASK": "t1", "FLEET_GENERATION": "1"}
        return Scripted(told).launch(jobs.job(tmp_path, prompt=text, env=env))

    return make


@pytest.fixture
def attempt(launch: Callable[..., Launch]) -> Callable[..., Ran]:
    """Runs an attempt to its end, and judges it as settling does."""

    def run(mode: str, table: dict[str, Any] | None = None, **parameters: Any) -> Ran:
        begun = launch(mode, table, **parameters)
        process = started(begun)
        process.communicate(begun.stdin, PATIENCE)
        return judged(begun, process.returncode)

    return run


def started(launch: Launch) -> subprocess.Popen[bytes]:
    with open(launch.log, "wb") as log:
        return subprocess.Popen(
            launch.argv, env=dict(launch.env), cwd=launch.cwd, stdin=subprocess.PIPE, stdout=log, stderr=log
        )


def fed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.close()


def ended(status: int) -> Exit:
    return Exit(code=None, signal=-status) if status < 0 else Exit(code=status)


def judged(launch: Launch, status: int) -> Ran:
    reader = ScriptedReader()
    feed_all(reader, launch.log)
    return Ran(status, Path(launch.log), reader.outcome(ended(status)))


EXPECTED = {
    "ok": (0, "done"),
    "ok-empty": (0, "failed"),
    "exit0-limit": (0, "limit"),
    "exit1-limit": (1, "limit"),
    "429-burst-then-ok": (1, "limit"),
    "429-forever": (1, "limit"),
    "auth-401": (1, "auth"),
    "overload": (1, "overload"),
    "silent-before-first-byte": (0, "done"),
    "stall": (0, "done"),
    "reads-stdin": (0, "done"),
    "ignores-sigterm": (0, "done"),
    "double-forks": (0, "done"),
    "own-session-child": (0, "done"),
    "own-tmux-server": (0, "done"),
    "leaks-memory": (0, "done"),
    "fork-burst": (0, "done"),
    "writes-result-late": (0, "unknown"),
    "partial-json": (0, "unknown"),
    "lone-surrogate": (0, "done"),
    "50-MB-line": (0, "done"),
    "changes-cwd": (0, "done"),
    "dirty-worktree-exit": (1, "failed"),
    "wrong-identity": (0, "auth"),
    "usage-over-budget": (1, "budget"),
    "onboarding-screen": (1, "auth"),
    "blocked": (0, "blocked"),
    "failed": (0, "failed"),
    "crash": (-9, "crashed"),
    "unknown-exit": (7, "unknown"),
    "false-done": (0, "done"),
}
QUICK = {
    "50-MB-line": {"mb": 6},
    "fork-burst": {"count": 20},
    "leaks-memory": {"mb": 20},
    "own-tmux-server": {"seconds": 2},
    "writes-result-late": {"seconds": 5},
}


def test_every_mode_is_judged_here() -> None:
    assert set(EXPECTED) == set(MODES)


@pytest.mark.parametrize("mode", EXPECTED)
def test_a_mode_ends_as_it_should_and_the_reader_says_what_it_was(mode: str, attempt: Callable[..., Ran]) -> None:
    if mode == "own-tmux-server" and not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    ran = attempt(mode, **{"seconds": 0.2, **QUICK.get(mode, {})})
    assert (ran.status, ran.outcome.kind) == EXPECTED[mode], (ran.outcome, ran.log.read_bytes()[:2000])
    assert ran.outcome.kind == "done" or ran.outcome.reason
    assert ran.outcome.kind != "done" or ran.outcome.result


def test_the_work_is_told_in_every_kind_of_event(attempt: Callable[..., Ran]) -> None:
    ran = attempt("ok", file="report.txt", content="hello")
    assert ran.kinds == ["started", "text", "tool", "usage", "result"]
    usage = ran.outcome.usage
    assert min(usage.input, usage.cache_write, usage.cache_read, usage.output, usage.reasoning, usage.turns) > 0
    assert (usage.money or 0) > 0
    assert usage.models == ("scripted-1",)
    assert not usage.partial
    assert ran.outcome.session.startswith("scripted-")
    assert (ran.log.parents[1] / "cwd" / "report.txt").read_text() == "hello"


def test_a_limit_names_its_kind_and_when_it_resets_or_that_nobody_knows(attempt: Callable[..., Ran]) -> None:
    soon = attempt("exit1-limit", kind="weekly", resets_in=600).outcome
    assert soon.limit == "weekly"
    assert soon.resets_at is not None
    assert 0 < soon.resets_at - time.time() < 700
    assert attempt("exit0-limit", resets_in=None).outcome.resets_at is None
    assert attempt("429-forever", wait=0, retries=2).kinds == ["started", "text", "retry", "retry", "limit"]


def test_a_burst_is_refused_a_few_times_over_all_processes_and_then_passes(launch: Callable[..., Launch]) -> None:
    found = []
    for _ in range(4):
        begun = launch("429-burst-then-ok", fails=3, wait=0)
        process = started(begun)
        process.communicate(begun.stdin, PATIENCE)
        found.append(judged(begun, process.returncode).outcome.kind)
    assert found == ["limit", "limit", "limit", "done"]


def test_silence_lasts_until_it_is_over(launch: Callable[..., Launch]) -> None:
    begun = launch("silent-before-first-byte", seconds=600)
    with started(begun) as process:
        fed(process, begun.stdin)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        assert Path(begun.log).read_bytes() == b""
        process.kill()
    exit = Exit(code=None, signal=9, cause="first_byte", seconds=120)
    assert ScriptedReader().outcome(exit).kind == "timeout"


def test_a_stalled_agent_has_begun(launch: Callable[..., Launch]) -> None:
    begun = launch("stall", seconds=600)
    with started(begun) as process:
        fed(process, begun.stdin)
        procs.wait_until(lambda: b"I look" in Path(begun.log).read_bytes(), "it begins")
        assert process.poll() is None
        process.kill()
    reader = ScriptedReader()
    feed_all(reader, begun.log)
    assert reader.outcome(Exit(code=None, signal=9, cause="idle", seconds=405)).kind == "timeout"


def test_it_waits_for_the_end_of_its_input(launch: Callable[..., Launch]) -> None:
    begun = launch("reads-stdin")
    with started(begun) as process:
        assert process.stdin is not None
        process.stdin.write(begun.stdin)
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert judged(begun, 0).outcome.result == f"read {len(begun.stdin)} bytes, then 0"


def test_it_can_ignore_being_asked_to_end(launch: Callable[..., Launch]) -> None:
    begun = launch("ignores-sigterm", seconds=600)
    with started(begun) as process:
        fed(process, begun.stdin)
        procs.wait_until(lambda: b"I look" in Path(begun.log).read_bytes(), "it begins")
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()


@pytest.mark.parametrize(
    ("mode", "left"), [("double-forks", 1), ("own-session-child", 1), ("fork-burst", 7), ("own-tmux-server", 2)]
)
def test_what_it_leaves_behind_outlives_it_and_carries_the_mark(
    mode: str, left: int, attempt: Callable[..., Ran], mark: str
) -> None:
    from agent_fleet.process import marked

    if mode == "own-tmux-server" and not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    ran = attempt(mode, count=7, seconds=60)
    assert ran.status == 0
    procs.wait_until(lambda: len(marked(mark)) == left, f"{left} processes are left")
    own = os.getsid(0)
    assert all(mode == "fork-burst" or os.getsid(proc.pid) != own for proc in marked(mark))


def test_memory_is_really_taken(launch: Callable[..., Launch]) -> None:
    begun = launch("leaks-memory", mb=60, wait=0, seconds=600)
    with started(begun) as process:
        fed(process, begun.stdin)
        procs.wait_until(lambda: b"holding 60 MiB" in Path(begun.log).read_bytes(), "it holds them")
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        assert pages * os.sysconf("SC_PAGE_SIZE") > 60 << 20
        process.kill()


def test_a_result_comes_after_the_end(launch: Callable[..., Launch]) -> None:
    begun = launch("writes-result-late", seconds=0.3)
    process = started(begun)
    process.communicate(begun.stdin, PATIENCE)
    procs.wait_until(lambda: b'"result"' in Path(begun.log).read_bytes(), "the result is written")
    assert judged(begun, process.returncode).outcome.result == "it came late"


def test_a_line_is_as_long_as_it_is_said_to_be(attempt: Callable[..., Ran]) -> None:
    assert max(len(line) for line in attempt("50-MB-line", mb=9).log.read_bytes().splitlines()) > 9 << 20


def test_half_a_character_is_replaced(attempt: Callable[..., Ran]) -> None:
    ran = attempt("lone-surrogate")
    assert b"\xed\xa0\xbd" in ran.log.read_bytes()
    assert ran.outcome.result == "half a face: ?"


def test_it_says_where_it_went_and_leaves_half_a_file(attempt: Callable[..., Ran], tmp_path: Path) -> None:
    assert attempt("changes-cwd", to=str(tmp_path)).outcome.result == f"worked in {tmp_path}"
    attempt("dirty-worktree-exit", file="half.txt")
    assert (tmp_path / "cwd" / "half.txt").read_text() == "half of it"


def test_usage_grows_to_what_it_spends(attempt: Callable[..., Ran]) -> None:
    ran = attempt("usage-over-budget", tokens=5000, seconds=0)
    totals = [event["turns"] for event in ran.events if event["type"] == "usage"]
    assert totals == list(range(1, 11))
    assert ran.outcome.usage.tokens == 5000
    assert ran.outcome.usage.partial


def test_a_wall_and_a_reason_are_the_ones_that_were_asked_for(attempt: Callable[..., Ran]) -> None:
    assert attempt("blocked", wall="needs answer: red or blue?").outcome.reason == "needs answer: red or blue?"
    assert attempt("failed", reason="the shop is shut").outcome.reason == "the shop is shut"
    assert attempt("crash", signal="SIGSEGV").status == -11
    assert attempt("unknown-exit", code=3).status == 3
    assert attempt("unknown-exit").log.read_bytes() == b""


def test_a_claim_is_only_a_claim(attempt: Callable[..., Ran], tmp_path: Path) -> None:
    assert attempt("false-done").outcome.kind == "done"
    assert list((tmp_path / "cwd").iterdir()) == []


def test_an_identity_that_is_wanted_is_no_stranger(tmp_path: Path) -> None:
    reader = Scripted({"identity": "me@example.com"}).reader(jobs.job(tmp_path))
    list(reader.feed(json.dumps({"type": "started", "identity": "me@example.com"})))
    list(reader.feed(json.dumps({"type": "result", "status": "done", "text": "yes"})))
    assert reader.outcome(Exit(code=0)).kind == "done"


# --------------------------------------------------------------------------------------------------- what it is told


def test_the_variable_counts_before_the_text_and_the_text_before_the_seed() -> None:
    text = script("failed")
    assert script_of(text, {"FLEET_SCRIPTED_MODE": "ok", "FLEET_SCRIPTED_SEED": "1"}).mode == "ok"
    assert script_of(text, {"FLEET_SCRIPTED_MODE": '{"mode": "stall", "seconds": 2}'}).number("seconds", 9) == 2
    assert script_of(text, {"FLEET_SCRIPTED_SEED": "1"}).mode == "failed"
    assert script_of("nothing", {}).mode == "ok"


def test_a_list_holds_one_script_for_each_lease_and_the_last_for_all_others() -> None:
    text = 'SCRIPT: [{"mode": "crash"}, {"mode": "failed"}, {"mode": "ok"}] and more'
    found = [script_of(text, {"FLEET_GENERATION": str(number)}).mode for number in (1, 2, 3, 9)]
    assert found == ["crash", "failed", "ok", "ok"]


def test_a_seed_draws_the_same_mix_again_and_another_seed_another() -> None:
    def drawn(seed: str) -> list[str]:
        base = {"FLEET_SCRIPTED_SEED": seed, "FLEET_SCRIPTED_MIX": '{"ok": 1, "crash": 1}'}
        return [script_of("", base | {"FLEET_TASK": f"t{number}"}).mode for number in range(64)]

    assert drawn("1") == drawn("1")
    assert drawn("1") != drawn("2")
    assert set(drawn("1")) == {"ok", "crash"}


@pytest.mark.parametrize("text", ["SCRIPT: nonsense", "SCRIPT: 7", "SCRIPT: {", 'SCRIPT: {"mode": "nosuch"}'])
def test_a_script_that_means_nothing_fails_with_a_sentence(text: str, tmp_path: Path) -> None:
    launch = Scripted({}).launch(jobs.job(tmp_path, prompt=text))
    process = started(launch)
    process.communicate(launch.stdin, PATIENCE)
    ran = judged(launch, process.returncode)
    assert (ran.status, ran.outcome.kind) == (2, "failed")
    assert "there is no mode" in ran.outcome.reason


def test_no_parameter_takes_more_than_the_agent_may() -> None:
    told = script_of(script("ok", seconds=1e9, mb=1e9, count=-5, tokens="many"), {})
    assert told.number("seconds", 1) == MOST["seconds"]
    assert told.number("mb", 1, "mb") == MOST["mb"]
    assert told.number("count", 3, "count") == 3
    assert told.number("tokens", 4, "tokens") == 4


@pytest.mark.parametrize("table", [{"mode": 7}, {"mix": "ok"}, {"mix": {"ok": "often"}}, {"identity": []}])
def test_a_table_that_means_nothing_is_refused(table: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"plugin\.scripted\.") as caught:
        provider = Scripted(table)
        provider.launch(jobs.job(tmp_path))
        provider.reader(jobs.job(tmp_path))
    assert caught.value.code == "bad_config"


def test_it_starts_as_a_module_too_and_needs_nothing_but_python() -> None:
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "FLEET_SCRIPTED_MODE": "ok"}
    check = (
        "import sys, runpy; sys.argv = ['x']\ntry: runpy.run_module('agent_fleet.testing.agent', run_name='__main__')\n"
    )
    check += "except SystemExit as end: print(end.code, sorted({'pytest', 'pluggy', 'click', 'subprocess'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", check], env=env, input=b"", capture_output=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.splitlines()[-1] == b"0 []"


def test_the_events_are_typed() -> None:
    reader = ScriptedReader()
    lines = (
        {"type": "tool", "name": "Edit"},
        {"type": "retry", "status": 429},
        {"type": "news"},
        {"type": "text", "text": "a"},
    )
    found = [event for line in lines for event in reader.feed(json.dumps(line))]
    assert found == [
        Event(kind="tool", text="Edit"),
        Event(kind="retry", text="status 429"),
        Event(kind="other"),
        Event(kind="text", text="a"),
    ]
