from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Config, Exit, FleetError, Launch, Usage
from agent_fleet_providers._codex_threads import path_of
from agent_fleet_providers.codex import Codex, fleet_providers, scrub
from support.jobs import job, settings
from support.rollouts import THREAD, record, rollout


def program(root: Path) -> Path:
    """A program that lies on no path; a launch names it and does not run it."""
    file = root / "codex"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def configured(root: Path, toml: str = "") -> Config:
    return settings(root, f'[provider.codex]\nbinary = "{program(root)}"\n{toml}\n')


def launch(root: Path, toml: str = "", **task: Any) -> Launch:
    return Codex(configured(root, toml)).launch(job(root, **task))


def test_the_prompt_goes_by_stdin_and_no_text_of_the_task_into_the_arguments(tmp_path: Path) -> None:
    made = launch(tmp_path, prompt="secret text", target="secret text", env={"CODEX_API_KEY": "secret key"})

    assert made.stdin == b"secret text"
    assert made.argv[-1] == "-"
    assert "secret" not in " ".join(made.argv)
    assert made.env["CODEX_API_KEY"] == "secret key"


def test_the_arguments_are_those_that_the_settings_and_the_task_ask_for(tmp_path: Path) -> None:
    toml = 'sandbox = "read-only"\nmodel = "small"\nargs = ["--add-dir", "/data", "-c", "model_reasoning_effort=low"]'
    argv = launch(tmp_path, toml).argv

    assert argv[1:6] == ("exec", "--add-dir", "/data", "-c", "model_reasoning_effort=low")
    assert 'sandbox_mode="read-only"' in argv
    assert 'approval_policy="never"' in argv
    assert argv[argv.index("-m") + 1] == "small"
    assert argv[-3:] == ("--json", "--skip-git-repo-check", "-")
    assert "-m" not in launch(tmp_path).argv
    assert launch(tmp_path, toml, model="big").argv[argv.index("-m") + 1] == "big"
    assert 'sandbox_mode="workspace-write"' in launch(tmp_path).argv


def test_a_session_is_resumed_with_the_same_settings(tmp_path: Path) -> None:
    argv = launch(tmp_path, 'args = ["--add-dir", "/data"]', session=THREAD).argv

    assert argv[-5:] == ("resume", "--json", "--skip-git-repo-check", THREAD, "-")
    assert argv.index("--add-dir") < argv.index("resume")
    assert argv.index('sandbox_mode="workspace-write"') < argv.index("resume")
    assert "resume" not in launch(tmp_path).argv


@pytest.mark.parametrize(
    ("toml", "task", "code"),
    [
        ('sandbox = "none"', {}, "bad_config"),
        ('args = ["--json"]', {}, "bad_config"),
        ('args = ["--sandbox=read-only"]', {}, "bad_config"),
        ('args = ["--dangerously-bypass-approvals-and-sandbox"]', {}, "bad_config"),
        ('args = ["-c", "sandbox_mode=danger-full-access"]', {}, "bad_config"),
        ('args = ["--config=sandbox_mode=danger-full-access"]', {}, "bad_config"),
        ('args = ["-csandbox_mode=danger-full-access"]', {}, "bad_config"),
        ('args = ["-sdanger-full-access"]', {}, "bad_config"),
        ('args = ["--", "a prompt"]', {}, "bad_config"),
        ('args = ["a prompt"]', {}, "bad_config"),
        ('args = ["resume"]', {}, "bad_config"),
        ('args = ["-c", "a=b", "review"]', {}, "bad_config"),
        ('args = ["--ephemeral"]', {}, "bad_config"),
        ("", {"model": "--yolo"}, "bad_input"),
        ("", {"session": "--last"}, "bad_input"),
        ("", {"session": "the last one"}, "bad_input"),
    ],
)
def test_what_would_change_how_a_worker_runs_or_is_read_is_refused(
    tmp_path: Path, toml: str, task: dict[str, Any], code: str
) -> None:
    with pytest.raises(FleetError) as raised:
        launch(tmp_path, toml, **task)
    assert raised.value.code == code
    assert raised.value.hint


def test_only_the_marks_of_an_enclosing_session_are_taken_from_the_environment() -> None:
    kept = {"PATH": "/bin", "CODEX_HOME": "/c", "CODEX_API_KEY": "k", "OPENAI_API_KEY": "k", "CODEX_SQLITE_HOME": "/s"}
    marks = {"CODEX_THREAD_ID": "x", "CODEX_SANDBOX": "seatbelt", "CODEX_SANDBOX_NETWORK_DISABLED": "1"}

    assert scrub({**kept, **marks}) == kept


def test_a_program_that_is_not_there_is_named_with_the_setting(tmp_path: Path) -> None:
    for wanted in ("no-such-codex", str(tmp_path / "none"), "bin/none"):
        said = Codex(settings(tmp_path, f'[provider.codex]\nbinary = "{wanted}"\n')).usable() or ""
        assert wanted in said
        assert "provider.codex.binary" in said


def test_a_program_is_found_by_a_path_in_the_project(tmp_path: Path) -> None:
    program(tmp_path)
    (codex,) = fleet_providers(settings(tmp_path, '[provider.codex]\nbinary = "./codex"\n'))

    assert codex.usable() is None
    assert Path(codex.launch(job(tmp_path)).argv[0]).samefile(tmp_path / "codex")


def test_a_reader_made_later_knows_where_the_thread_was_when_its_attempt_began(tmp_path: Path) -> None:
    codex = Codex(configured(tmp_path))
    file = rollout(tmp_path / "home", record("turn-1", 100, 30, 7))
    work = job(tmp_path, session=THREAD, env={"CODEX_HOME": str(tmp_path / "home")})
    codex.launch(work)
    with file.open("a") as out:
        out.write(record("turn-2", 50, 20, 5))
    later = codex.reader(replace(work, session="", env={}))
    usage = {"input_tokens": 150, "cached_input_tokens": 50, "output_tokens": 12, "reasoning_output_tokens": 0}
    for event in (
        {"type": "thread.started", "thread_id": THREAD},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "seen"}},
        {"type": "turn.completed", "usage": usage},
    ):
        list(later.feed(json.dumps(event)))

    assert later.outcome(Exit(code=0)).usage == Usage(input=30, cache_read=20, output=5, turns=1, models=("m",))


@pytest.mark.parametrize("memo", ["", "{", "[]", '{"sessions": 5, "size": "x"}', "\x00", "9" * 5000])
def test_a_memo_that_is_damaged_or_missing_breaks_nothing(tmp_path: Path, memo: str) -> None:
    work = job(tmp_path)
    if memo:
        (tmp_path / "scratch" / "codex.json").write_text(memo)

    assert Codex(configured(tmp_path)).reader(work).outcome(Exit(code=1)).kind == "refused"


def test_the_home_is_the_one_of_the_attempts_environment(tmp_path: Path) -> None:
    codex = Codex(configured(tmp_path))
    for env, sessions in (
        ({"CODEX_HOME": "/c", "HOME": "/h"}, "/c/sessions"),
        ({"HOME": "/h"}, "/h/.codex/sessions"),
        ({"CODEX_HOME": "", "HOME": "/h"}, "/h/.codex/sessions"),
        ({}, ""),
    ):
        codex.launch(job(tmp_path, env=env))
        assert json.loads((tmp_path / "scratch" / "codex.json").read_text())["sessions"] == sessions


@pytest.mark.parametrize(
    "thread", ["", "x", "zzzzzzzz-0000-7000-8000-000000000001", "f" * 8 + "-ffff-7000-8000-" + "0" * 12]
)
def test_a_thread_whose_id_holds_no_day_has_no_file(tmp_path: Path, thread: str) -> None:
    assert path_of(str(tmp_path), thread) == ""
