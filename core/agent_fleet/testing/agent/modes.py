"""Every mode by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agent_fleet.testing.agent import processes, words
from agent_fleet.testing.agent.script import Script

MODES: Final[Mapping[str, Callable[[Script], int]]] = {
    "ok": words.ok,
    "ok-empty": words.ok_empty,
    "exit0-limit": words.exit0_limit,
    "exit1-limit": words.exit1_limit,
    "429-burst-then-ok": words.burst_then_ok,
    "429-forever": words.burst_forever,
    "auth-401": words.auth_401,
    "overload": words.overload,
    "silent-before-first-byte": processes.silent,
    "stall": processes.stall,
    "reads-stdin": words.reads_stdin,
    "ignores-sigterm": processes.ignores_sigterm,
    "double-forks": processes.double_forks,
    "own-session-child": processes.own_session_child,
    "own-tmux-server": processes.own_tmux_server,
    "leaks-memory": processes.leaks_memory,
    "fork-burst": processes.fork_burst,
    "writes-result-late": processes.writes_result_late,
    "partial-json": words.partial_json,
    "lone-surrogate": words.lone_surrogate,
    "50-MB-line": words.long_line,
    "changes-cwd": processes.changes_cwd,
    "dirty-worktree-exit": processes.dirty_worktree,
    "wrong-identity": words.wrong_identity,
    "usage-over-budget": words.over_budget,
    "onboarding-screen": words.onboarding,
    "blocked": words.blocked,
    "failed": words.failed,
    "crash": processes.crash,
    "unknown-exit": words.unknown_exit,
    "false-done": words.false_done,
}
