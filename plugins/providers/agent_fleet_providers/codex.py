"""Codex as a dispatched worker: one `codex exec --json` a task, the prompt on its stdin, events on its stdout.

As a crew it is one session that claims for itself: `codex exec --json` again, or `codex` on a terminal. In a sandbox it does
so by the tools of `fleet mcp`, which stands outside of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from agent_fleet_providers import _codex_account
from agent_fleet_providers._codex_quota import Rollout, Server
from agent_fleet_providers._codex_servers import servers
from agent_fleet_providers._codex_stream import CodexReader
from agent_fleet_providers._codex_threads import Threads, length
from agent_fleet_providers._figures import count, table
from agent_fleet_providers._hook_payload import said
from agent_fleet_providers._models import model_name
from agent_fleet_providers._program import found, missing
from agent_fleet_providers._quota_axi import QuotaAxi
from agent_fleet_providers._scratch import write_private
from agent_fleet_providers._sessions import Unread, as_job, notifier

BINARY = "provider.codex.binary"
MEMO = "codex.json"  # in the scratch directory: what was known of the thread when the attempt began

# What Codex sets for the commands that its model runs. Keys, the home and addresses are not among them.
MARKERS = frozenset(
    {
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_SESSION_ID",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_VERSION",
    }
)

# Options that decide where a worker runs, what it may do, and how it is found again and read.
OURS = (
    *("--json", "--last", "--all", "--ephemeral", "--color", "--help", "--version", "--cd", "--worktree", "--sandbox"),
    *("--dangerously-bypass-approvals-and-sandbox", "--remote", "--thread-source", "-", "--"),
)
OURS_SHORT = re.compile(r"-[ChsV]")  # its value may follow without a space
OURS_KEYS = re.compile(r"(?:--config=|-c)?\s*[\"']?(?:sandbox_mode|approval_policy)[\"']?\s*=")
TOOLS = """
The sandbox of this session keeps the queue from the commands of `fleet`. Use the tools of the server `fleet` in place of each of
them, the first claim included; a report names the number of your lease, and no name beside it.
"""
SERVER_SECONDS = {"startup_timeout_sec": 60, "tool_timeout_sec": 3600}  # a report runs the check of its task
FORWARDED = re.compile(r"(?:FLEET|AGENT|XDG)_\w+|PATH|HOME|TMPDIR|LANG|LC_ALL|PYTHONPATH")
THREAD = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Codex:
    """Starts Codex and reads its stream of events."""

    name = "codex"

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def most_seats(self) -> int | None:
        """One; in a sandbox none without the library of `fleet mcp`, since Codex keeps `.agents` read-only there.

        To open the queue to what runs in a sandbox would be a way out of it, since `fleet run` runs commands from there.
        """
        return 1 if self._is_open or importlib.util.find_spec("mcp") is not None else 0

    def usable(self) -> str | None:
        return missing(self._config, BINARY, "Codex")

    def launch(self, job: Job) -> Launch:
        """The process.

        Raises `bad_config` for settings that would change its output, `bad_input` for a bad session or model, `io_error`
        if the scratch directory cannot be written.
        """
        return self._start(job, [])

    @property
    def _is_open(self) -> bool:
        """Whether no sandbox is between the agent and the queue."""
        return bool(self._config.get("provider.codex.sandbox") == "danger-full-access")

    def _start(self, job: Job, tools: list[str]) -> Launch:
        words = self._arguments(job, tools)
        sessions = _sessions(job.env)
        memo = {"sessions": sessions, "thread": job.session, "size": length(sessions, job.session)}
        write_private(os.path.join(job.scratch, MEMO), json.dumps(memo))
        return Launch(
            worker=job.worker,
            argv=(found(self._config, BINARY, job), *words),
            cwd=job.cwd,
            env=scrub(job.env),
            log=os.path.join(job.scratch, "output.log"),
            stdin=job.prompt.encode("utf-8", "replace"),
        )

    def resume(self, session: str) -> tuple[str, ...]:
        """`codex resume THREAD`, typed where the task was worked on."""
        known = THREAD.fullmatch(session)
        return (self._config.get("provider.codex.binary"), "resume", session) if known else ()

    def reader(self, job: Job) -> CodexReader:
        memo = _memo(job)
        thread = str(memo.get("thread", job.session))
        sessions = str(memo.get("sessions") or "")
        threads = Threads(sessions, {thread: count(memo.get("size"))}) if sessions else None
        return CodexReader(job, threads, thread=thread)

    def account_spec(self) -> AccountSpec:
        return _codex_account.SPEC

    def identity(self, account: Account, deadline: float) -> str | None:  # noqa: ARG002 - files are read at once
        return _codex_account.identity(account)

    def own_accounts(self, base_home: str, desktop_file: str) -> Iterable[str]:  # noqa: ARG002 - Codex has no desktop
        return _codex_account.own_accounts(base_home)

    def quota_readers(self, account: Account) -> Iterable[QuotaReader]:  # noqa: ARG002 - they are the same for all
        return (QuotaAxi(self.name, _codex_account.identity), Server(), Rollout())

    def hook_event(self, event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
        return said(event, arguments, payload)

    def crew(self, crew: Crew) -> Launch:
        """The process of a session that works the queue by itself. Raises as `launch`.

        On a terminal the brief is an argument: it is a fixed text of fleet's own.
        """
        tools: list[str] = []
        if not self._is_open:
            crew = replace(crew, brief=crew.brief + TOOLS)
            tools = _tools(crew)
        if not crew.interactive:
            return self._start(as_job(crew), tools)
        # its window keeps the name of its worker, by which the person knows it
        own = ["-c", f"notify={json.dumps(notifier())}", "-c", "tui.terminal_title=[]"]
        words = [*_own(crew), *self._extra(), *self._rights(crew.model), *tools, *own, crew.brief]
        return Launch(
            worker=crew.worker,
            argv=(found(self._config, BINARY, crew), *words),
            cwd=crew.cwd,
            env=scrub(crew.env),
            log=os.path.join(crew.scratch, "output.log"),
        )

    def crew_reader(self, crew: Crew) -> Reader:
        return Unread() if crew.interactive else self.reader(as_job(crew))

    def _arguments(self, job: Job, tools: list[str]) -> list[str]:
        """The user's own come first: they are options of `exec`, and `exec resume` does not know all of those."""
        words = ["exec", *_own(job), *self._extra(), *self._rights(job.task.model), *tools, *servers(job)]
        if job.session and not THREAD.fullmatch(job.session):
            raise FleetError(
                "bad_input", f"{job.session[:60]!r} is no thread of Codex", hint="start the task without a session"
            )
        words += ["resume"] if job.session else []
        return [*words, "--json", "--skip-git-repo-check", *([job.session] if job.session else []), "-"]

    def _rights(self, wish: str) -> list[str]:
        """What it may do, and which model it is: what is configured, unless the task wishes for another model."""
        model = model_name(wish or self._config.get("provider.codex.model"))
        settings = {"sandbox_mode": self._config.get("provider.codex.sandbox"), "approval_policy": "never"}
        words = [word for key, value in settings.items() for word in ("-c", f'{key}="{value}"')]
        return [*words, "-m", model] if model else words

    def _extra(self) -> list[str]:
        extra: list[str] = list(self._config.get("provider.codex.args"))
        before = ""
        for word in extra:
            if word.partition("=")[0] in OURS or OURS_SHORT.match(word) or OURS_KEYS.match(word):
                raise _bad(f"holds {word}, which fleet decides itself", "leave that argument out")
            if not word.startswith("-") and (not before.startswith("-") or "=" in before):
                raise _bad(f"holds {word}, which is no option and no option's value", "leave that argument out")
            before = word
        return extra


def _own(work: Job | Crew) -> list[str]:
    """Under an account: no plugins, this project trusted, the hooks of its home trusted."""
    return _codex_account.ours(work.cwd) if work.account else []


def scrub(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the marks of a Codex session that fleet itself may run in."""
    return {name: value for name, value in env.items() if name not in MARKERS}


def _tools(crew: Crew) -> list[str]:
    """The options that give a session the tools of this fleet. What marks its tree and limits its share goes on to the
    server by name, since Codex keeps its environment from servers; so no value stands on a command line.
    """
    server: dict[str, object] = {
        "command": sys.executable,  # the installation that is known to have the library
        "args": ["-P", "-m", "agent_fleet", "mcp", "--provider", "codex"],
        "env_vars": sorted(name for name in crew.env if FORWARDED.fullmatch(name)),
        "enabled": True,
        "required": True,
        **SERVER_SECONDS,
    }
    return [word for key, value in server.items() for word in ("-c", f"mcp_servers.fleet.{key}={json.dumps(value)}")]


def _sessions(env: Mapping[str, str]) -> str:
    """Where Codex keeps its threads: below `CODEX_HOME`, else below `.codex` in the home; empty if neither is known."""
    home = env.get("CODEX_HOME") or (os.path.join(env["HOME"], ".codex") if env.get("HOME") else "")
    return os.path.join(home, "sessions") if home else ""


def _memo(job: Job) -> Mapping[str, Any]:
    try:
        with open(os.path.join(job.scratch, MEMO), encoding="utf-8") as file:
            return table(json.loads(file.read(1 << 16)))
    except (OSError, ValueError):
        return {}


def _bad(what: str, hint: str) -> FleetError:
    return FleetError("bad_config", f"provider.codex.args {what}", hint=hint)


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """Codex."""
    yield Codex(config)
