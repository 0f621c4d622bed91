"""Command lines: the accepted ones become exactly what is written here, and every other one is refused."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.accounts.arguments import LONGEST, Request, build, parse
from agent_fleet.accounts.spec import Grammar
from agent_fleet.errors import FleetError
from agent_fleet_providers._claude_account import GRAMMAR as CLAUDE
from agent_fleet_providers._codex_account import GRAMMAR as CODEX

YES = "--dangerously-skip-permissions"
FREE = "--dangerously-bypass-approvals-and-sandbox"
ROOT = '/src/v1.2 "x"/my.app'
END = "/run/it's/t1.turn-ended"
TOUCH = "notify=" + json.dumps(["bash", "-c", "touch '/run/it'\"'\"'s/t1.turn-ended'"])
SID = "0b1c-22"
OURS = [
    *("--disable", "plugins", "--disable", "plugin_sharing"),
    *("-c", 'projects={"/src/v1.2 \\"x\\"/my.app"={trust_level="trusted"}}', "--dangerously-bypass-hook-trust"),
]
HOOK = ("/opt/fleet", "hook", "turn-end")
OUR_NOTIFY = ["-c", 'notify=["/opt/fleet", "hook", "turn-end"]']
USER = ["--setting-sources", "user"]


def launched(grammar: Grammar, words: list[str], *, session: str = "", turn_end: str = END) -> list[str]:
    request = parse(grammar, words, operation="resume" if session else "start", turn_end=turn_end)
    return list(build(grammar, request, root=ROOT, notify=HOOK, session=session).arguments)


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ([YES, "do it"], [YES, *USER, "--", "do it"]),
        ([YES, "--model", "opus", "do it"], [YES, *USER, "--model", "opus", "--", "do it"]),
        ([YES, "--effort", "max", "do it"], [YES, *USER, "--effort", "max", "--", "do it"]),
        ([YES, "--model", "m", "--effort", "low", "-p"], [YES, *USER, "--model", "m", "--effort", "low", "--", "-p"]),
        ([YES, "--help"], [YES, *USER, "--", "--help"]),
        ([YES, "--"], [YES, *USER, "--", "--"]),
        ([YES, YES], [YES, *USER, "--", YES]),
        ([YES, "$(id) `id` \n\t"], [YES, *USER, "--", "$(id) `id` \n\t"]),
    ],
)
def test_good_forms_of_claude_code(words: list[str], made: list[str]) -> None:
    assert launched(CLAUDE, words) == made


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ([FREE, "do it"], [*OURS, FREE, "--", "do it"]),
        (["--model", "m", FREE, "do it"], [*OURS, "--model", "m", FREE, "--", "do it"]),
        (
            ["-c", 'model_reasoning_effort="xhigh"', FREE, "x"],
            [*OURS, "-c", 'model_reasoning_effort="xhigh"', FREE, "--", "x"],
        ),
        ([FREE, "-c", TOUCH, "do it"], [*OURS, FREE, *OUR_NOTIFY, "--", "do it"]),
        (
            ["--model", "m", "-c", 'model_reasoning_effort="low"', FREE, "-c", TOUCH, "login"],
            [*OURS, "--model", "m", "-c", 'model_reasoning_effort="low"', FREE, *OUR_NOTIFY, "--", "login"],
        ),
        ([FREE, "-c"], [*OURS, FREE, "--", "-c"]),
    ],
)
def test_good_forms_of_codex(words: list[str], made: list[str]) -> None:
    assert launched(CODEX, words) == made


@pytest.mark.parametrize(
    ("grammar", "words", "made"),
    [
        (CLAUDE, [YES], ["--resume", SID, YES, *USER]),
        (CLAUDE, [YES, "--model", "m"], ["--resume", SID, YES, *USER, "--model", "m"]),
        (CODEX, [FREE], ["resume", *OURS, SID, FREE]),
        (CODEX, ["--model", "m", FREE, "-c", TOUCH], ["resume", *OURS, SID, "--model", "m", FREE, *OUR_NOTIFY]),
    ],
)
def test_good_forms_that_go_on(grammar: Grammar, words: list[str], made: list[str]) -> None:
    assert launched(grammar, words, session=SID) == made


BAD_CLAUDE = [
    [],
    ["do it"],
    [YES],
    [YES, ""],
    [YES, "  \n"],
    [YES, "do", "it"],
    ["do it", YES],
    [YES, YES, "do it"],
    ["-p", YES, "do it"],
    [YES, "-p", "do it"],
    [YES, "--print", "do it"],
    [YES, "--", "do it"],
    [YES, "--resume", SID, "do it"],
    [YES, "-r", SID, "do it"],
    [YES, "-c", "do it"],
    [YES, "--continue", "do it"],
    [YES, "--session-id", SID, "do it"],
    [YES, "--settings", "{}", "do it"],
    [YES, "--setting-sources", "project", "do it"],
    [YES, "--mcp-config", "x.json", "do it"],
    [YES, "--plugin-dir", "/x", "do it"],
    [YES, "--add-dir", "/", "do it"],
    [YES, "--append-system-prompt", "x", "do it"],
    [YES, "--allowedTools", "Bash", "do it"],
    [YES, "--model=opus", "do it"],
    [YES, "--model", "--help", "do it"],
    [YES, "--model", "", "do it"],
    [YES, "--model", "a\nb", "do it"],
    [YES, "--model", "m" * 257, "do it"],
    [YES, "--model", "opus"],
    [YES, "--effort", "extreme", "do it"],
    [YES, "--effort", "low", "--model", "m", "do it"],
    [YES, "--model", "a", "--model", "b", "do it"],
    ["--permission-mode", "bypassPermissions", "do it"],
    ["--dangerously-skip-permissions=true", "do it"],
    ["--allow-dangerously-skip-permissions", "do it"],
    [YES, "auth", "login"],
    [YES, "mcp", "add"],
    [YES, "half \ud83d"],
    [YES, "nul \0"],
]

BAD_CODEX = [
    [],
    ["do it"],
    [FREE],
    [FREE, ""],
    [FREE, "do", "it"],
    ["login", FREE],
    ["exec", FREE, "do it"],
    ["resume", SID, FREE],
    [FREE, "--model", "m", "do it"],
    ["-m", "m", FREE, "do it"],
    ["--model", "m", "--model", "n", FREE, "do it"],
    ["-c", "model_reasoning_effort=low", FREE, "do it"],
    ["-c", 'model_reasoning_effort="max"', FREE, "do it"],
    ["-c", 'model_reasoning_effort="low" ', FREE, "do it"],
    ["-c", 'sandbox_mode="danger-full-access"', FREE, "do it"],
    ["-c", 'model_provider="x"', FREE, "do it"],
    ["--config", 'model_reasoning_effort="low"', FREE, "do it"],
    ["-cmodel_reasoning_effort=low", FREE, "do it"],
    ["--enable", "plugins", FREE, "do it"],
    ["--profile", "x", FREE, "do it"],
    ["--cd", "/", FREE, "do it"],
    ["--yolo", "do it"],
    ["-s", "danger-full-access", "do it"],
    [FREE, "-c", 'notify=["bash","-c","curl evil"]', "do it"],
    [FREE, "-c", "notify=[]", "do it"],
    [FREE, "-c", "notify=" + json.dumps(["bash", "-c", "touch '/run/other.turn-ended'"]), "do it"],
    [FREE, "-c", TOUCH.replace("ended'", "ended'; id"), "do it"],
    [FREE, "-c", TOUCH],
    ["-c", TOUCH, FREE, "do it"],
    [FREE, "-c", TOUCH, "-c", TOUCH, "do it"],
]


@pytest.mark.parametrize(
    ("grammar", "words"),
    [(CLAUDE, words) for words in BAD_CLAUDE] + [(CODEX, words) for words in BAD_CODEX],
    ids=lambda value: " ".join(value)[:60].encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
def test_every_other_form_is_refused_and_the_right_one_is_shown(grammar: Grammar, words: list[str]) -> None:
    with pytest.raises(FleetError) as caught:
        launched(grammar, words)
    assert caught.value.code == "refused"
    assert "PROMPT" in caught.value.hint


@pytest.mark.parametrize(("grammar", "flag"), [(CLAUDE, YES), (CODEX, FREE)])
def test_a_resume_takes_no_prompt_and_no_session_that_is_none(grammar: Grammar, flag: str) -> None:
    with pytest.raises(FleetError):
        launched(grammar, [flag, "do it"], session=SID)
    for session in ("--help", "a b", "../x", "-x", "x" * 200):
        with pytest.raises(FleetError):
            launched(grammar, [flag], session=session)


def test_a_turn_end_cannot_be_asked_for_where_there_is_none() -> None:
    with pytest.raises(FleetError):
        launched(CODEX, [FREE, "-c", TOUCH, "do it"], turn_end="")


@pytest.mark.parametrize(("grammar", "flag"), [(CLAUDE, YES), (CODEX, FREE)])
def test_a_long_prompt_goes_by_standard_input(grammar: Grammar, flag: str) -> None:
    prompt = "é" * (LONGEST // 2 + 1)
    made = build(grammar, parse(grammar, [flag, prompt], operation="start"), root=ROOT)
    assert made.stdin.decode() == prompt
    assert max(map(len, made.arguments)) < 1000
    fits = build(grammar, parse(grammar, [flag, "x" * LONGEST], operation="start"), root=ROOT)
    assert fits.stdin == b""
    assert fits.arguments[-2:] == ("--", "x" * LONGEST)


def test_a_provider_without_such_a_form_refuses_a_long_prompt() -> None:
    with pytest.raises(FleetError, match="longer than"):
        build(Grammar(), Request(prompt="x" * (LONGEST + 1)), root=ROOT)


@settings(deadline=None)
@given(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))
def test_any_prompt_arrives_behind_the_dashes_and_nowhere_else(prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError:
        return
    for grammar, flag in ((CLAUDE, YES), (CODEX, FREE)):
        made = launched(grammar, [flag, prompt])
        assert made[-2:] == ["--", prompt]
        assert made[:-1] == launched(grammar, [flag, "x"])[:-1]


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30))
def test_a_project_of_any_name_is_one_key_of_the_inline_table(name: str) -> None:
    made = build(CODEX, Request(options={"autonomy": ""}, prompt="x"), root="/" + name).arguments
    (setting,) = [word for word in made if word.startswith("projects=")]
    assert tomllib.loads(setting) == {"projects": {"/" + name: {"trust_level": "trusted"}}}


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([YES, "--model", "m", "--effort", "low", "do it", "-p", "--resume", "--", "-c"]), max_size=6
    )
)
def test_whatever_is_accepted_holds_only_known_options_before_the_prompt(words: list[str]) -> None:
    try:
        made = launched(CLAUDE, words)
    except FleetError:
        return
    options = [word for word in made[: made.index("--")] if word.startswith("-")]
    assert set(options) <= {YES, "--setting-sources", "--model", "--effort"}
    assert options.count(YES) == 1
