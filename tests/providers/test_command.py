from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent_fleet.api import Exit, FleetError, Provider
from agent_fleet_providers.command import Command, CommandReader, fleet_providers
from support.jobs import NONCE, job, settings
from support.launching import attempt

BAD_TABLES = {
    "unknown key": 'argv = ["cat"]\nprompts = "stdin"',
    "no argv": 'prompt = "stdin"',
    "argv is a text": 'argv = "cat"',
    "argv is empty": "argv = []",
    "the prompt as an argument": 'argv = ["cat", "{prompt}"]',
    "an unknown field": 'argv = ["cat", "{home}"]',
    "file without its name": 'argv = ["cat"]\nprompt = "file"',
    "stdin with a file name": 'argv = ["cat", "{prompt_file}"]\nprompt = "stdin"',
    "another channel": 'argv = ["cat"]\nprompt = "socket"',
    "a mark of fleet": 'argv = ["cat"]\nenv = { FLEET_WORKER = "x" }',
    "env of numbers": 'argv = ["cat"]\nenv = { A = 1 }',
    "another end": 'argv = ["cat"]\ndone = "always"',
    "an option as the model": 'argv = ["cat", "{model}"]\nmodel = "--help"',
}


def agent(root: Path, table: str, name: str = "mine") -> Provider:
    config = settings(root, f"[agents.{name}]\n{table}\n")
    return {each.name: each for each in fleet_providers(config)}[name]


def script(root: Path, text: str) -> str:
    file = root / "agent.sh"
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_a_command_that_exits_0_is_done_with_its_last_lines_as_evidence(tmp_path: Path) -> None:
    work = job(tmp_path, target="echo one; echo two >&2")
    outcome, events = attempt(Command().launch(work), Command().reader(work))

    assert outcome.kind == "done"
    assert outcome.result.startswith("exited 0 after ")
    assert outcome.result.endswith("one\ntwo")
    assert [event.text for event in events] == ["one", "two"]


def test_a_command_that_prints_nothing_says_so(tmp_path: Path) -> None:
    work = job(tmp_path, target="true")
    outcome, _ = attempt(Command().launch(work), Command().reader(work))

    assert outcome.kind == "done"
    assert "it printed nothing" in outcome.result


def test_a_status_other_than_0_is_the_reason_with_the_last_line(tmp_path: Path) -> None:
    work = job(tmp_path, target="echo 'no such host'; exit 3")
    outcome, _ = attempt(Command().launch(work), Command().reader(work))

    assert (outcome.kind, outcome.reason) == ("failed", "exited 3: no such host")


def test_a_command_that_a_signal_ended_has_crashed(tmp_path: Path) -> None:
    work = job(tmp_path, target="kill -KILL $$")
    outcome, _ = attempt(Command().launch(work), Command().reader(work))

    assert (outcome.kind, outcome.reason) == ("crashed", "ended by SIGKILL")


def test_any_text_runs_as_it_is_whatever_its_quotes_lines_and_length(tmp_path: Path) -> None:
    filler = "x" * 2_000_000  # far beyond the limit of one argument, 128 KiB on Linux
    target = f"# {filler}\nprintf '%s\\n' \"it's \\\"so\\\" \\$HOME é 🐟\"\ncat <<'END'\n-n $(false) `false`\nEND"
    work = job(tmp_path, target=target)
    outcome, _ = attempt(Command().launch(work), Command().reader(work))

    assert outcome.kind == "done"
    assert outcome.result.endswith('it\'s "so" $HOME é 🐟\n-n $(false) `false`')


def test_the_file_of_a_command_is_private_even_where_an_open_one_lay(tmp_path: Path) -> None:
    work = job(tmp_path, target="true")
    old = Path(work.scratch) / "task.sh"
    old.write_text("echo old, and much longer than the new one\n")
    old.chmod(0o644)
    launch = Command().launch(work)

    assert launch.argv == ("/bin/sh", str(old))
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert old.read_text() == "true\n"


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    work = job(tmp_path, target="true")
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (Path(work.scratch) / "task.sh").symlink_to(precious)

    with pytest.raises(FleetError) as raised:
        Command().launch(work)
    assert raised.value.code == "io_error"
    assert precious.read_text() == "keep"


def test_a_command_from_outside_is_never_run(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as raised:
        Command().launch(job(tmp_path, target="rm -rf .", trust="outside"))

    assert raised.value.code == "refused"
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize("target", ["", "  \n", "echo \0", "echo \ud800"])
def test_a_target_that_is_no_text_of_a_command_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(FleetError) as raised:
        Command().launch(job(tmp_path, target=target))
    assert raised.value.code == "bad_input"


def test_output_of_any_size_is_kept_in_bounds_and_says_that_more_is_in_the_log() -> None:
    reader = CommandReader()
    for number in range(20_000):
        list(reader.feed(f"line {number}\n"))
    list(reader.feed("z" * 10_000_000))
    result = reader.outcome(Exit(code=0, seconds=1.25)).result

    assert result.startswith("exited 0 after 1.2 s\n(earlier output is in the log)\n")
    assert len(result) < 10_000


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("first_byte", "timeout"),
        ("idle", "timeout"),
        ("timeout", "timeout"),
        ("stopped", "unknown"),
        ("shed", "unknown"),
        ("lost", "unknown"),
        ("unstarted", "crashed"),
    ],
)
def test_who_ended_a_command_decides_before_its_status(cause: str, kind: str) -> None:
    ended = Exit(code=0, cause=cause, seconds=7, note="why")  # type: ignore[arg-type]  # parametrized texts
    outcome = CommandReader().outcome(ended)

    assert outcome.kind == kind
    assert outcome.reason.endswith(": why")
    if kind == "timeout":
        assert cause in outcome.reason


def test_terminal_control_and_broken_text_do_not_reach_the_evidence() -> None:
    reader = CommandReader()
    list(reader.feed("\x1b[31mred\x1b[0m \x1b]0;title\x07half \ud800 10%\r20%\x1b[K\n"))

    assert reader.outcome(Exit(code=0)).result.splitlines()[1:] == ["20%"]
    reader = CommandReader()
    list(reader.feed("\x1b[31mred\x1b[0m \x1b]0;title\x07half \ud800\r\n"))
    assert reader.outcome(Exit(code=0)).result.splitlines()[1:] == ["red half ?"]


def test_a_table_makes_a_provider_that_gets_the_prompt_on_stdin(tmp_path: Path) -> None:
    mine = agent(tmp_path, 'argv = ["cat"]')
    prompt = '-x "quoted" $HOME\n' + "🐟" * 100_000
    work = job(tmp_path, prompt=prompt)
    launch = mine.launch(work)
    outcome, _ = attempt(launch, mine.reader(work))

    assert mine.usable() is None
    assert launch.stdin == prompt.encode()
    assert prompt not in launch.argv
    assert outcome.kind == "done"
    assert outcome.result.endswith("🐟" * 100)


def test_a_table_fills_its_fields_and_leaves_other_braces_alone(tmp_path: Path) -> None:
    program = script(tmp_path, 'cat "$1"; shift; printf "%s\\n" "$@" "$EXTRA"')
    table = f"""argv = ["{program}", "{{prompt_file}}", "{{task}}", "{{model}}", '{{"a": {{}}}}', "{{{{cwd}}}}"]
env = {{ EXTRA = "in {{cwd}}" }}
model = "small"
"""
    mine = agent(tmp_path, table)
    work = job(tmp_path, prompt="the prompt\n")
    launch = mine.launch(work)
    outcome, _ = attempt(launch, mine.reader(work))

    assert launch.stdin == b""
    assert outcome.result.splitlines() == ["the prompt", "t1", "small", '{"a": {}}', "{cwd}", f"in {work.cwd}"]
    assert stat.S_IMODE((Path(work.scratch) / "prompt.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("table", BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_table_that_cannot_work_says_why_and_spoils_nothing_else(tmp_path: Path, table: str) -> None:
    config = settings(tmp_path, f'[agents.bad]\n{table}\n[agents.good]\nargv = ["cat"]\n')
    offered = {each.name: each for each in fleet_providers(config)}

    assert sorted(offered) == ["bad", "command", "good"]
    assert offered["good"].usable() is None
    assert offered["bad"].usable()
    with pytest.raises(FleetError) as raised:
        offered["bad"].launch(job(tmp_path))
    assert raised.value.code in ("bad_config", "bad_input")
    assert raised.value.hint


def test_a_table_may_not_take_the_name_of_a_built_in_provider(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as raised:
        list(fleet_providers(settings(tmp_path, '[agents.claude]\nargv = ["cat"]\n')))
    assert raised.value.code == "bad_config"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "no-such-agent" in (agent(tmp_path, 'argv = ["no-such-agent"]').usable() or "")


def test_a_model_that_is_asked_for_and_named_by_nobody_is_an_error(tmp_path: Path) -> None:
    mine = agent(tmp_path, 'argv = ["cat", "{model}"]')
    with pytest.raises(FleetError):
        mine.launch(job(tmp_path))
    assert mine.launch(job(tmp_path, model="big")).argv[1] == "big"


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ("true", "failed", "empty answer"),
        ("printf '\\033[0m\\n  \\n'", "failed", "empty answer"),
        ('echo "You\'ve hit your weekly limit · resets Jun 29, 3am (Asia/Singapore)"', "limit", ""),
        ('echo "Please run /login · API Error: 401 Invalid authentication credentials"', "auth", ""),
        ('echo working; echo "You\'ve hit your limit · resets 8pm (UTC)"; exit 1', "limit", ""),
        ('echo "the error: You\'ve hit your limit, as the log of today says"; exit 1', "failed", ""),
        (f"echo saw it; echo FLEET-{NONCE} DONE", "done", ""),
        (f"echo FLEET-{NONCE} 'BLOCKED: captcha: https://Shop.example/x'", "blocked", "captcha: shop.example"),
        (f"echo tried; echo FLEET-{NONCE} 'FAILED: no such page'; exit 1", "failed", "no such page"),
        ("echo FLEET-otherone 'BLOCKED: captcha: a.example'", "done", ""),
        ("echo oops; exit 3", "failed", "exited 3: oops"),
        ("kill -TERM $$", "crashed", "ended by SIGTERM"),
    ],
)
def test_the_output_of_an_agent_is_its_answer(tmp_path: Path, body: str, kind: str, reason: str) -> None:
    mine = agent(tmp_path, f'argv = ["{script(tmp_path, body)}"]')
    work = job(tmp_path)
    outcome, _ = attempt(mine.launch(work), mine.reader(work))

    assert outcome.kind == kind
    assert not reason or outcome.reason == reason
    assert f"FLEET-{NONCE}" not in outcome.result
    assert kind != "limit" or outcome.limit
