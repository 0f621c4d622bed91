"""Claude Code as a dispatched worker: one `claude -p` a task, the prompt on its stdin, events on its stdout.

As a crew it is one session that claims for itself: `claude -p` that starts subagents, or `claude` on a terminal.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from agent_fleet.api import (
    Account,
    AccountSpec,
    Config,
    Crew,
    FleetError,
    HookSaid,
    Job,
    Launch,
    Provider,
    QuotaReader,
    Reader,
    hookimpl,
)
from agent_fleet_providers import _claude_account
from agent_fleet_providers._claude_quota import LastRun
from agent_fleet_providers._claude_stream import ClaudeReader
from agent_fleet_providers._claude_turns import ENDED, ClaudeTurns
from agent_fleet_providers._hook_payload import said
from agent_fleet_providers._models import model_name
from agent_fleet_providers._program import found, missing
from agent_fleet_providers._quota_axi import QuotaAxi
from agent_fleet_providers._scratch import write_private
from agent_fleet_providers._sessions import as_job, hook

BINARY = "provider.claude.binary"

# The fleet waits for a limit to pass, for all its workers at once. Claude Code by itself would ask ten times more in each.
PATIENCE = {"CLAUDE_CODE_MAX_RETRIES": "2"}

# A window keeps the name of its worker, by which the person knows it; Claude Code would give all of them its own.
UNNAMED = {"CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1"}

# What a Claude Code session sets for its children. A worker that inherits these would take itself for a part of that
# session, talk to its sockets or refuse to start. Keys, addresses and the configuration directory are not among them.
MARKERS = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_EFFORT",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PID",
        "CLAUDE_PLUGIN_DATA",
        "CLAUDE_PLUGIN_ROOT",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_CODE_CHILD_NOTES_DIR",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_REMOTE",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_TMUX_SESSION",
        "CLAUDE_CODE_WORKER_EPOCH",
    }
)
MARKER_FAMILIES = ("CLAUDE_CODE_SESSION_", "CLAUDE_CODE_REMOTE_", "CLAUDE_CODE_BRIDGE_")

# Options that decide how a worker is started, found again and read; another value would make it unreadable.
OURS = (
    *(
        "-p",
        "--print",
        "--output-format",
        "--input-format",
        "--verbose",
        "--session-id",
        "-r",
        "--resume",
        "-c",
        "--continue",
    ),
    *(
        "--fork-session",
        "--from-pr",
        "--no-session-persistence",
        "--bg",
        "--background",
        "--cloud",
        "--teleport",
        "--tmux",
    ),
    *("--desktop", "-h", "--help", "-v", "--version"),
)
MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan")
STREAM = ("-p", "--output-format", "stream-json", "--verbose")
REPORTING = "Bash(fleet *)"  # what every session must be allowed that claims and reports by itself
SUBAGENTS = "Agent"  # the tool that starts them
SESSION = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
SESSIONS = uuid.UUID("6f0c1d52-8f1f-5b0e-9c39-0d4b5a3f8a11")  # the namespace that session ids are derived in


class Claude:
    """Starts Claude Code and reads its stream of events."""

    name = "claude"
    most_seats: int | None = None

    def __init__(self, config: Config) -> None:
        self._config = config

    def usable(self) -> str | None:
        return missing(self._config, BINARY, "Claude Code")

    def launch(self, job: Job) -> Launch:
        """The process.

        Raises `bad_config` for settings that would change its output, `bad_input` for a bad session or model.
        """
        return Launch(
            worker=job.worker,
            argv=(found(self._config, BINARY, job), *self._arguments(job)),
            cwd=job.cwd,
            env={**PATIENCE, **scrub(job.env)},
            log=os.path.join(job.scratch, "output.log"),
            stdin=job.prompt.encode("utf-8", "replace"),
        )

    def reader(self, job: Job) -> ClaudeReader:
        return ClaudeReader(job)

    def resume(self, session: str) -> tuple[str, ...]:
        """`claude --resume SESSION`, typed where the task was worked on."""
        known = SESSION.fullmatch(session)
        return (self._config.get("provider.claude.binary"), "--resume", session) if known else ()

    def account_spec(self) -> AccountSpec:
        return _claude_account.SPEC

    def identity(self, account: Account, deadline: float) -> str | None:  # noqa: ARG002 - files are read at once
        return _claude_account.identity(account)

    def own_accounts(self, base_home: str, desktop_file: str) -> Iterable[str]:
        return _claude_account.own_accounts(base_home, desktop_file)

    def quota_readers(self, account: Account) -> Iterable[QuotaReader]:  # noqa: ARG002 - they are the same for all
        return (QuotaAxi(self.name, _claude_account.identity), LastRun())

    def hook_event(self, event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
        return said(event, arguments, payload)

    def crew(self, crew: Crew) -> Launch:
        """The process of a session that works the queue by itself.

        On a terminal the brief is an argument: it is a fixed text of fleet's own. Raises as `launch`, and `io_error` if the
        scratch directory cannot be written.
        """
        words = [*self._rights(REPORTING, *([SUBAGENTS] if crew.seats > 1 else [])), *self._model(crew.model)]
        words += ["--session-id", session_of(as_job(crew)), *_own_sources(crew), *self._extra()]
        words += ["--agents", _agents(crew)] if crew.seats > 1 else []
        if crew.interactive:
            words = [crew.brief, *words, *([] if "--settings" in words else ["--settings", _settings(crew)])]
        else:
            words = [*STREAM, *words]
        return Launch(
            worker=crew.worker,
            argv=(found(self._config, BINARY, crew), *words),
            cwd=crew.cwd,
            env={**PATIENCE, **(UNNAMED if crew.interactive else {}), **scrub(crew.env)},
            log=os.path.join(crew.scratch, "output.log"),
            stdin=b"" if crew.interactive else crew.brief.encode("utf-8", "replace"),
        )

    def crew_reader(self, crew: Crew) -> Reader:
        return ClaudeTurns() if crew.interactive else ClaudeReader(as_job(crew), members=crew.seats > 1)

    def _arguments(self, job: Job) -> list[str]:
        budget = job.task.budget
        words = [*STREAM, *_session(job), *_own_sources(job), *self._rights(*_tools(job))]
        words += [*self._model(job.task.model), *_servers(job)]
        if budget.turns is not None:
            words += ["--max-turns", str(max(1, budget.turns))]
        if budget.money is not None and budget.money > 0:
            words += ["--max-budget-usd", f"{budget.money:.6f}"]
        return words + self._extra()

    def _rights(self, *more: str) -> list[str]:
        """What it may do without being asked: what is configured, and `more`."""
        mode = self._config.get("provider.claude.permission_mode")
        if mode not in MODES:
            raise _bad("permission_mode", f"is {mode!r}, no permission mode", f"use one of {', '.join(MODES)}")
        tools = self._config.get("provider.claude.allowed_tools")
        if any(not tool.strip() or tool.startswith("-") for tool in tools):
            raise _bad(
                "allowed_tools", "holds an empty rule or an option", 'write rules such as "Read" or "Bash(git *)"'
            )
        allowed = [*tools, *more]
        return ["--permission-mode", mode, *(["--allowedTools", *allowed] if allowed else [])]

    def _model(self, wish: str) -> list[str]:
        model = model_name(wish or self._config.get("provider.claude.model"))
        return ["--model", model] if model else []

    def _extra(self) -> list[str]:
        extra: list[str] = list(self._config.get("provider.claude.args"))
        for word in extra:
            if word.partition("=")[0] in OURS or word == "--":
                raise _bad("args", f"holds {word}, which fleet decides itself", "leave that argument out")
        return extra


def scrub(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the marks of a Claude Code session that fleet itself may run in."""
    return {name: value for name, value in env.items() if name not in MARKERS and not name.startswith(MARKER_FAMILIES)}


def session_of(job: Job) -> str:
    """The id of this attempt's conversation: the one it goes on with, else one derived from its worker and nonce."""
    return job.session or str(uuid.uuid5(SESSIONS, f"{job.worker}/{job.nonce}"))


def _session(job: Job) -> list[str]:
    if job.session and not SESSION.fullmatch(job.session):
        raise FleetError(
            "bad_input", f"{job.session[:60]!r} is no session of Claude Code", hint="start the task without a session"
        )
    return ["--resume" if job.session else "--session-id", session_of(job)]


def _own_sources(work: Job | Crew) -> tuple[str, ...]:
    """Under an account: its home's settings alone, not those that lie in the project."""
    return _claude_account.USER if work.account else ()


def _servers(job: Job) -> list[str]:
    """The MCP servers of this attempt alone, where it is said which."""
    if job.servers is None:
        return []
    file = write_private(os.path.join(job.scratch, "mcp.json"), json.dumps({"mcpServers": job.servers}))
    return ["--mcp-config", file, "--strict-mcp-config"]


def _tools(job: Job) -> list[str]:
    """The right to use what these servers offer: nobody could be asked for it."""
    return [f"mcp__{name}" for name in job.servers or ()]


def _agents(crew: Crew) -> str:
    """The file that defines the subagents of a crew."""
    told = {"description": "Works tasks of the queue, one after the other.", "prompt": crew.member}
    return write_private(os.path.join(crew.scratch, "agents.json"), json.dumps({crew.kind: told}))


def _settings(crew: Crew) -> str:
    """The file with the hooks that tell the end of a turn."""
    told = [{"hooks": [{"type": "command", "command": hook()}]}]
    hooks = dict.fromkeys(ENDED, told)
    return write_private(os.path.join(crew.scratch, "settings.json"), json.dumps({"hooks": hooks}))


def _bad(key: str, what: str, hint: str) -> FleetError:
    return FleetError("bad_config", f"provider.claude.{key} {what}", hint=hint)


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """Claude Code."""
    yield Claude(config)
