"""Scenarios C28 to C47: `exec`, `resume`, and the hooks of a session."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.estate import CLAUDE, CODEX
from support.project import git
from support.systems import Ours

Build = Callable[..., Ours]
POOL = {"claude": ("--pool", "claude-crew"), "codex": ("--pool", "codex-crew")}
AUTONOMY = {"claude": CLAUDE, "codex": CODEX}


def run(
    machine: Ours, task: str, *more: str, kind: str = "claude", argv: Iterable[str] = (), **settings: Any
) -> dict[str, Any]:
    """Launch and wait for the end; what the program saw."""
    before = len(machine.stand_in.calls())
    done = machine.launch(task, *POOL[kind], *more, argv=[AUTONOMY[kind], *argv], **settings)
    assert done.status == 0, done
    return machine.stand_in.last(before + 1)


def refuse(machine: Ours, *words: str, phrase: str = "") -> None:
    """A refusal that leaves no lease and starts nothing."""
    calls = len(machine.stand_in.calls())
    machine.refused(*words, phrase=phrase)
    assert machine.must("lease", "list")["leases"] == []
    assert len(machine.stand_in.calls()) == calls


def test_c28_the_process_becomes_the_program_in_the_home_of_its_account(build: Build) -> None:
    machine = build(claude=1, codex=1)
    machine.stand_in.tell(sleep=60)
    with machine.start(*machine.words("exec", "t", *POOL["claude"], argv=[CLAUDE, "--model", "m", "hello"])) as child:
        call = machine.stand_in.last()
        (lease,) = machine.must("lease", "list")["leases"]
        child.kill()
    assert call["pid"] == lease["pid"] == child.pid
    assert call["argv"] == [CLAUDE, "--setting-sources", "user", "--model", "m", "--", "hello"]
    assert call["cwd"] == str(machine.root)
    env = call["env"]
    assert env["CLAUDE_CONFIG_DIR"] == str(machine.home_of("claude-1"))
    assert (env["DISABLE_LOGIN_COMMAND"], env["DISABLE_LOGOUT_COMMAND"]) == ("1", "1")
    worn = {
        name: env[f"AGENT_FLEET_{name}"] for name in ("TASK_ID", "PROFILE", "PROVIDER", "POOL", "WORKSPACE", "TURN_END")
    }
    assert list(worn.values()) == [
        "t",
        "claude-1",
        "claude",
        "claude-crew",
        str(machine.root),
        str(machine.turn_end("t")),
    ]
    machine.stand_in.tell()
    call = run(machine, "u", kind="codex", argv=["hello"])
    assert call["argv"][-3:] == [CODEX, "--", "hello"]
    assert call["argv"][:4] == ["--disable", "plugins", "--disable", "plugin_sharing"]
    assert call["env"]["CODEX_HOME"] == call["env"]["CODEX_SQLITE_HOME"] == str(machine.home_of("codex-1"))


WRONG: tuple[tuple[str, ...], ...] = (
    (),
    ("x",),
    (CLAUDE,),
    (CLAUDE, ""),
    (CLAUDE, "x", "y"),
    (CLAUDE, "--model", "-x", "y"),
    (CLAUDE, "--effort", "huge", "x"),
    (CLAUDE, "--effort", "low", "--model", "m", "x"),
    (CLAUDE, "--settings", "{}", "x"),
    ("--model=m", CLAUDE, "x"),
    ("-p", CLAUDE, "x"),
)


def test_c29_other_arguments_are_refused_before_a_lease_is_taken(one: Ours) -> None:
    for argv in WRONG:
        refuse(one, *one.words("exec", "t", *POOL["claude"], argv=argv))


def test_c30_a_prompt_is_a_prompt_whatever_it_looks_like(one: Ours) -> None:
    for number, prompt in enumerate(("login", "claim", "--help", "-c x", "--", "two\nlines")):
        assert run(one, f"t{number}", argv=[prompt])["argv"][-2:] == ["--", prompt]
    long = "x" * 100_001
    call = run(one, "long", argv=[long])
    assert (call["stdin"], long in call["argv"]) == (long, False)


def test_c31_what_is_missing_is_refused_in_one_order(one: Ours) -> None:
    turn_end, place = str(one.turn_end("t")), str(one.root)
    given = [("--task", "t"), ("--workspace", place), ("--turn-end", turn_end), ("--pool", "claude-crew")]
    for number, word in enumerate(("task", "workspace", "turn-end", "pool")):
        words = [each for pair in given[:number] for each in pair]
        refuse(one, "exec", *words, "--", CLAUDE, "x", phrase=word)
    for bad in (
        "relative.turn-ended",
        str(one.turns / "t"),
        str(one.top / "no" / "x.turn-ended"),
        f"{turn_end}/../x.turn-ended",
    ):
        words = [each for pair in given for each in pair]
        refuse(one, "exec", *[bad if each == turn_end else each for each in words], "--", CLAUDE, "x")


def test_c32_c33_what_could_lead_the_program_elsewhere_does_not_come_through(one: Ours) -> None:
    names = "ANTHROPIC_API_KEY CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_HOME AGENT_FLEET_OTHER LD_AUDIT NODE_OPTIONS BROWSER"
    poisoned = dict.fromkeys(names.split(), "poison")
    proxy = {"HTTPS_PROXY": "http://proxy.invalid", "MINE": "stays"}
    call = run(one, "t", argv=["x"], env={**poisoned, **proxy})
    assert "poison" not in call["env"].values()
    assert call["env"]["MINE"] == "stays"
    assert "HTTPS_PROXY" not in call["env"]
    one.set("[providers.claude]", "environment_allow", '["HTTPS_PROXY"]')
    assert run(one, "u", argv=["x"], env=proxy)["env"]["HTTPS_PROXY"] == "http://proxy.invalid"


def test_c34_files_that_give_orders_are_refused(one: Ours) -> None:
    for name in (".mcp.json", ".claude/settings.json", ".claude/settings.local.json"):
        path = one.root / name
        path.parent.mkdir(exist_ok=True)
        for is_link in (True, False):
            path.symlink_to("/nowhere") if is_link else path.write_text("{}")
            refuse(one, *one.words("exec", "t", *POOL["claude"], argv=[CLAUDE, "x"]), phrase=path.name)
            path.unlink()


def test_c34_files_that_give_orders_to_codex_are_refused(build: Build) -> None:
    machine = build(codex=1)
    for name in (".mcp.json", ".codex/config.toml", ".codex/hooks.json"):
        path = machine.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        refuse(machine, *machine.words("exec", "t", *POOL["codex"], argv=[CODEX, "x"]))
        path.unlink()


def test_c35_instructions_are_welcome(one: Ours) -> None:
    for name in ("CLAUDE.md", "AGENTS.md"):
        (one.root / name).write_text("be kind")
    run(one, "t", argv=["x"])


def test_c37_a_linked_work_tree_needs_no_registration(build: Build, tmp_path: Path) -> None:
    machine = build(claude=1, codex=1)
    linked = tmp_path / "linked.v1 tree"
    git(machine.root, "worktree", "add", "-q", "-b", "linked", str(linked))
    for kind in ("claude", "codex"):
        call = run(machine, kind, kind=kind, argv=["x"], workspace=linked)
        assert call["cwd"] == str(linked)
    trusted = json.loads((machine.home_of("claude-1") / ".claude.json").read_text())["projects"]
    assert trusted[str(linked)]["hasTrustDialogAccepted"] is True
    assert f'projects={{"{linked}"={{trust_level="trusted"}}}}' in call["argv"]


def test_c38_a_hook_outside_of_a_launch_does_nothing(one: Ours) -> None:
    for event in ("session-start", "turn-end"):
        found = one.fleet("hook", event, stdin=b'{"session_id": "s"}')
        assert (found.status, found.out) == (0, ""), found
    assert not (one.kept / "sessions").exists()


def test_c39_a_conversation_is_recorded_once_and_no_other_in_its_place(one: Ours) -> None:
    again = {"session_id": "s-claude", "source": "compact"}
    two = {"session_id": "s-claude", "nested": {"sessionId": "s-2"}}
    one.stand_in.tell(more=[again, {"session_id": "s-2"}, two, {"source": "startup"}])
    call = run(one, "t", argv=["x"])
    found = one.must("session", "status", "--task", "t")
    assert (found["session_id"], found["session_event_seq"], found["schema"]) == ("s-claude", 2, 2)
    assert all(status != 2 for status, _, _ in call["hooks"]), call["hooks"]


def test_c41_an_older_record_is_shown_and_becomes_a_newer_one_of_the_same(one: Ours) -> None:
    run(one, "t", argv=["x"])
    (path,) = (one.kept / "sessions").glob("*.json")
    found = json.loads(path.read_text())
    del found["session_event_seq"]
    path.write_text(json.dumps({**found, "schema": 1}))
    assert one.must("session", "status", "--task", "t")["session_event_seq"] == 0
    one.stand_in.tell(session="another")
    one.launch("t", argv=[CLAUDE], verb="resume")
    assert one.must("session", "status", "--task", "t")["session_event_seq"] == 0
    one.stand_in.tell()
    one.launch("t", argv=[CLAUDE], verb="resume")
    assert one.must("session", "status", "--task", "t")["session_event_seq"] == 1


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_c42_the_end_of_a_turn_touches_the_file_of_the_caller(build: Build, kind: str) -> None:
    machine = build(**{kind: 1})
    machine.turn_end("t").touch(0o600)
    os.utime(machine.turn_end("t"), (1, 1))
    run(machine, "t", kind=kind, argv=["x"])
    found = machine.turn_end("t").stat()
    assert (found.st_mode & 0o777, found.st_mtime > 1) == (0o600, True)


def test_c44_a_conversation_goes_on_where_it_was_and_nowhere_else(build: Build, tmp_path: Path) -> None:
    machine = build(claude=2, codex=1)
    first = run(machine, "t", argv=["x"])["env"]["AGENT_FLEET_PROFILE"]
    other = "claude-2" if first == "claude-1" else "claude-1"
    linked = tmp_path / "linked"
    git(machine.root, "worktree", "add", "-q", str(linked))
    for wrong in (("--profile", other), ("--session", "s-9"), ("--pool", "claude-manual")):
        refuse(machine, *machine.words("resume", "t", *wrong, argv=[CLAUDE]))
    refuse(machine, *machine.words("resume", "t", argv=[CLAUDE], workspace=linked))
    refuse(machine, *machine.words("resume", "t", argv=[CLAUDE, "a prompt"]))
    refuse(machine, *machine.words("resume", "nobody", argv=[CLAUDE]), phrase="no recorded provider session")
    right = ("--profile", first, "--session", "s-claude", "--pool", "claude-crew")
    assert machine.launch("t", *right, argv=[CLAUDE, "--model", "m"], verb="resume").status == 0
    call = machine.stand_in.last(2)
    assert call["argv"] == ["--resume", "s-claude", CLAUDE, "--setting-sources", "user", "--model", "m"]
    assert call["env"]["AGENT_FLEET_PROFILE"] == first
    run(machine, "u", kind="codex", argv=["x"])
    assert machine.launch("u", argv=[CODEX], verb="resume").status == 0
    argv = machine.stand_in.last(4)["argv"]
    assert (argv[0], argv[-2:]) == ("resume", ["s-codex", CODEX])


def test_c45_a_conversation_goes_on_below_the_reserve(one: Ours) -> None:
    run(one, "t", argv=["x"])
    one.tell("claude-1", 3.0)
    assert one.choose("u").is_refusal
    assert (
        one.must("lease", "recover", "--task", "t", "--workspace", str(one.root))["decision_reason"] == "sticky-resume"
    )
    assert one.launch("t", argv=[CLAUDE], verb="resume").status == 0


def test_c46_c47_a_live_conversation_is_not_recovered_and_a_killed_one_at_once(one: Ours) -> None:
    one.stand_in.tell(sleep=60)
    with one.start(*one.words("exec", "t", *POOL["claude"], argv=[CLAUDE, "x"])) as child:
        one.stand_in.last()
        where = ("--task", "t", "--workspace", str(one.root))
        one.refused("lease", "recover", *where, phrase="live worker lease")
        one.refused(*one.words("resume", "t", argv=[CLAUDE]), phrase="live worker lease")
        child.kill()
        child.wait()
    assert one.must("lease", "list")["leases"] == []
    assert one.must("lease", "recover", *where)["profile"] == "claude-1"
