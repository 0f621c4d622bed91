from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Budget, FleetError, Launch
from agent_fleet_providers.claude import Claude, fleet_providers, scrub, session_of
from support.jobs import job, settings

SESSION = "00000000-0000-4000-8000-000000000001"


def program(root: Path) -> Path:
    """A program that lies on no path; a launch names it and does not run it."""
    file = root / "claude"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def launch(root: Path, toml: str = "", **task: Any) -> Launch:
    claude = Claude(settings(root, f'[provider.claude]\nbinary = "{program(root)}"\n{toml}\n'))
    return claude.launch(job(root, **task))


def test_the_prompt_goes_by_stdin_and_no_text_of_the_task_into_the_arguments(tmp_path: Path) -> None:
    made = launch(tmp_path, prompt="secret text", target="secret text", env={"ANTHROPIC_API_KEY": "secret key"})

    assert made.stdin == b"secret text"
    assert "secret" not in " ".join(made.argv)
    assert made.env["ANTHROPIC_API_KEY"] == "secret key"
    assert made.worker == "w1"


def test_the_arguments_are_those_that_the_settings_and_the_task_ask_for(tmp_path: Path) -> None:
    toml = 'allowed_tools = ["Read", "Bash(git log, *)"]\nmodel = "small"\nargs = ["--add-dir", "/data"]'
    argv = launch(tmp_path, toml, budget=Budget(turns=7, money=1.5)).argv

    assert argv[1:5] == ("-p", "--output-format", "stream-json", "--verbose")
    assert argv[argv.index("--permission-mode") + 1] == "dontAsk"
    at = argv.index("--allowedTools")
    assert argv[at + 1 : at + 3] == ("Read", "Bash(git log, *)")
    assert argv[argv.index("--model") + 1] == "small"
    assert argv[argv.index("--max-turns") + 1] == "7"
    assert argv[argv.index("--max-budget-usd") + 1] == "1.500000"
    assert argv[-2:] == ("--add-dir", "/data")
    assert "--model" not in launch(tmp_path).argv
    assert launch(tmp_path, toml, model="big").argv[argv.index("--model") + 1] == "big"


def test_an_attempt_has_a_session_of_its_own_or_goes_on_with_the_one_it_was_given(tmp_path: Path) -> None:
    new, old = launch(tmp_path).argv, launch(tmp_path, session=SESSION).argv

    assert new[new.index("--session-id") + 1] == session_of(job(tmp_path))
    assert "--resume" not in new
    assert old[old.index("--resume") + 1] == SESSION
    assert "--session-id" not in old


@pytest.mark.parametrize(
    ("toml", "task", "code"),
    [
        ('permission_mode = "yolo"', {}, "bad_config"),
        ('allowed_tools = ["Read", "--model"]', {}, "bad_config"),
        ('allowed_tools = ["Read", " "]', {}, "bad_config"),
        ('args = ["--output-format", "text"]', {}, "bad_config"),
        ('args = ["--resume=x"]', {}, "bad_config"),
        ('args = ["--", "a prompt"]', {}, "bad_config"),
        ("", {"model": "--dangerously-skip-permissions"}, "bad_input"),
        ("", {"model": "a b"}, "bad_input"),
        ("", {"session": "--continue"}, "bad_input"),
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
    kept = {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": "u",
        "CLAUDE_CODE_OAUTH_TOKEN": "t",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CONFIG_DIR": "/c",
        "FLEET_WORKER": "w1",
    }
    marks = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": "x",
        "CLAUDE_CODE_SSE_PORT": "1",
        "CLAUDE_CODE_REMOTE_SESSION_ID": "x",
        "CLAUDE_ENV_FILE": "/e",
    }

    assert scrub({**kept, **marks}) == kept


def test_a_program_that_is_not_there_is_named_with_the_setting(tmp_path: Path) -> None:
    for wanted in ("no-such-claude", str(tmp_path / "none"), "bin/none"):
        claude = Claude(settings(tmp_path, f'[provider.claude]\nbinary = "{wanted}"\n'))
        said = claude.usable() or ""
        assert wanted in said
        assert "provider.claude.binary" in said


def test_a_program_is_found_by_a_path_in_the_project(tmp_path: Path) -> None:
    program(tmp_path)
    (claude,) = fleet_providers(settings(tmp_path, '[provider.claude]\nbinary = "./claude"\n'))

    assert claude.usable() is None
    assert Path(claude.launch(job(tmp_path)).argv[0]).samefile(tmp_path / "claude")
