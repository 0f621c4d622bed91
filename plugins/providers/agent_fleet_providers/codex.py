"""Codex as a dispatched worker: one `codex exec --json` a task, the prompt on its stdin, events on its stdout.

As a crew it is one session that claims for itself: `codex exec --json` again, or `codex` on a terminal.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
THREAD = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Codex:
    """Starts Codex and reads its stream of events."""

    name = "codex"

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def most_seats(self) -> int | None:
        """One, or none at all in a sandbox: Codex keeps `.agents` read-only there.

        To open the queue to what runs in a sandbox would be a way out of it, since `fleet run` runs commands from there.
        """
        return 1 if self._config.get("provider.codex.sandbox") == "danger-full-access" else 0

    def usable(self) -> str | None:
        return missing(self._config, BINARY, "Codex")

    def launch(self, job: Job) -> Launch:
        """The process.

        Raises `bad_config` for settings that would change its output, `bad_input` for a bad session or model, `io_error`
        if the scratch directory cannot be written.
        """
        words = self._arguments(job)
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

    def quota_readers(self, account: Account) -> Iterable[QuotaReader]:  # noqa: ARG002 - they are the same for all
        return (QuotaAxi(self.name), Server(), Rollout())

    def hook_event(self, event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
        return said(event, arguments, payload)

    def crew(self, crew: Crew) -> Launch:
        """The process of a session that works the queue by itself. Raises as `launch`.

        On a terminal the brief is an argument: it is a fixed text of fleet's own.
        """
        if not crew.interactive:
            return self.launch(as_job(crew))
        words = [*self._extra(), *self._rights(crew.model), "-c", f"notify={json.dumps(notifier())}", crew.brief]
        return Launch(
            worker=crew.worker,
            argv=(found(self._config, BINARY, crew), *words),
            cwd=crew.cwd,
            env=scrub(crew.env),
            log=os.path.join(crew.scratch, "output.log"),
        )

    def crew_reader(self, crew: Crew) -> Reader:
        return Unread() if crew.interactive else self.reader(as_job(crew))

    def _arguments(self, job: Job) -> list[str]:
        """The user's own come first: they are options of `exec`, and `exec resume` does not know all of those."""
        words = ["exec", *self._extra(), *self._rights(job.task.model)]
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


def scrub(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the marks of a Codex session that fleet itself may run in."""
    return {name: value for name, value in env.items() if name not in MARKERS}


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
