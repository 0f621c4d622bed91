"""The table of all settings: what each is called, what may stand there, its default and its meaning.

This module is on the hot path and imports nothing of its own.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal["text", "whole", "number", "bytes", "list", "names"]

MIB = 1 << 20

_WANTED = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "bytes": 'a size such as "2 GiB", or a number of bytes',
    "list": "a list of texts",
}


class Key(NamedTuple):
    """One setting. A text is one of `words`, if there are any; a list of names may be one of them instead."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    words: tuple[str, ...] = ()
    least: float = 0
    most: float = float("inf")

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "FLEET_" + self.name.replace(".", "_").upper()

    @property
    def wanted(self) -> str:
        """What may stand there, in words."""
        words = " or ".join(f'"{word}"' for word in self.words)
        if self.kind == "names":
            return f"{words} or a list of names"
        if words:
            return words
        wanted = _WANTED[self.kind]
        if self.most != float("inf"):
            return f"{wanted} from {self.least:g} to {self.most:g}"
        return f"{wanted}, at least {self.least:g}" if self.kind in ("whole", "number") else wanted


TOOLS = ("Bash", "Edit", "Glob", "Grep", "Read", "Write")

KEYS: tuple[Key, ...] = (
    Key("plugins", "names", "all", "Which third-party distributions may offer plugins.", ("all", "off")),
    Key(
        "lanes.browser",
        "text",
        "auto",
        "The lane of a task that needs a browser; auto is terminal where that can be used, else headless.",
    ),
    Key("lanes.agent", "text", "headless", "The lane of a task that needs an agent."),
    Key("lanes.serial", "text", "serial", "The lane of a task that must run alone in this session."),
    Key("lanes.command", "text", "headless", "The lane of a task that is a plain command."),
    Key(
        "terminal.form",
        "text",
        "auto",
        "What the terminal lane opens: terminals of the editor, windows of a terminal emulator, or tmux windows.",
        ("auto", "editor", "windows", "tmux"),
    ),
    Key("subagent.seats", "whole", 4, "How many subagents one session of the lane subagent has.", least=1, most=64),
    Key("api.seats", "whole", 50, "How many agents one process of the lane api has.", least=1, most=10000),
    Key("api.tokens", "whole", 128000, "Tokens of every class that one agent over an API may use; 0 sets no limit."),
    Key("api.max_output", "whole", 8192, "The most tokens of one answer.", least=16),
    Key("api.retries", "whole", 4, "How often one call of an agent over an API is tried again."),
    Key("api.backoff", "number", 1.0, "Seconds of the longest first wait before that; it doubles from then on."),
    Key("api.silence", "number", 300.0, "Seconds that an answer over an API may stand still.", least=1),
    Key("providers.default", "text", "claude", "The provider of a task that names none."),
    Key(
        "accounts.pool",
        "text",
        "",
        "The pool that agents take their accounts from; empty: they work under your own login.",
    ),
    Key(
        "accounts.rotation",
        "text",
        "off",
        "Whether a run may go from one subscription login to another; look whether your providers' terms allow that.",
        ("off", "on"),
    ),
    Key(
        "accounts.patience",
        "number",
        300.0,
        "Seconds that a task waits for the account of its conversation before it begins anew on another one, where rotation is on.",
    ),
    Key("queue.max_attempts", "whole", 3, "How many charged attempts a task gets before it has failed.", least=1),
    Key(
        "queue.lapse",
        "number",
        1800.0,
        "Seconds without a heartbeat after which an owner nobody can judge loses its tasks.",
    ),
    Key("queue.browser_kinds", "list", (), "Kinds of tasks that need a browser unless they say otherwise."),
    Key("queue.write_kinds", "list", (), "Kinds of tasks that write to the project unless they say otherwise."),
    Key(
        "queue.undeclared_writes",
        "text",
        "serial",
        "How tasks run that write but do not say what they touch.",
        ("serial", "parallel"),
    ),
    Key("checklist.file", "text", "", "The project's checklist; empty looks for TASKS.md, BACKLOG.md and TODO.md."),
    Key(
        "hosts.default_max", "whole", 1, "How many tasks of one host may run at once, where no table names it.", least=1
    ),
    Key("run.max_workers", "whole", 0, "The most workers of a run; 0 sets no cap of your own."),
    Key("run.stagger", "number", 2.0, "Seconds between the starts of two workers."),
    Key("run.worktree", "text", "off", "Whether each task gets a git worktree and branch of its own.", ("off", "on")),
    Key(
        "run.port_base",
        "whole",
        20000,
        "The first port that workers are told to use; each has ten, by its number.",
        least=1024,
        most=65000,
    ),
    Key("run.keep_scratch", "number", 604800.0, "Seconds that `fleet clean` leaves the scratch files of an ended run."),
    Key("run.grace", "number", 10.0, "Seconds a worker has to end by itself before it is killed."),
    Key("run.first_byte", "number", 120.0, "Seconds within which a worker must print something."),
    Key(
        "run.first_claim",
        "number",
        300.0,
        "Seconds that a session which claims for itself may hold nothing while tasks wait for it.",
    ),
    Key("run.idle", "number", 1800.0, "Seconds of silence after which a worker is stopped."),
    Key("run.timeout", "number", 14400.0, "Seconds after which a worker is stopped whatever it does."),
    Key("run.max_log", "bytes", 256 * MIB, "Output above which a worker is stopped; 0 sets no limit."),
    Key("run.max_wait", "number", 21600.0, "The most seconds to wait for one reset, whatever was announced."),
    Key(
        "run.keep_logs",
        "bytes",
        1024 * MIB,
        "Logs of settled attempts above this are removed, oldest first; 0 keeps all.",
    ),
    Key(
        "run.backoff",
        "number",
        30.0,
        "Seconds of the first wait after a limit that names no reset; it doubles from then on.",
    ),
    Key("run.attempts", "whole", 0, "The most attempts of a whole run; 0 is three times its tasks."),
    Key("capacity.probes", "names", "auto", "Which probes read this machine; auto is every usable one.", ("auto",)),
    Key("capacity.max_load_per_core", "number", 2.0, "The load average a core at which no more workers start."),
    Key("capacity.reserve_cores", "number", 0.0, "Cores kept free for the rest of the machine; 0 chooses."),
    Key("capacity.reserve_memory", "bytes", 0, "Memory kept free for the rest of the machine; 0 chooses."),
    Key("capacity.worker_memory", "bytes", 600 * MIB, "The memory one worker is taken to need until one was measured."),
    Key("capacity.worker_cores", "number", 1.0, "The cores one worker is taken to need until one was measured."),
    Key("capacity.unknown_workers", "whole", 4, "The most workers where what the machine can spare is unknown."),
    Key("capacity.reserve_disk", "bytes", 1024 * MIB, "Free disk below which no worktree is made."),
    Key(
        "capacity.pressure_full",
        "number",
        10.0,
        "Percent of time all tasks stall for memory at which no more workers start.",
        most=100,
    ),
    Key("capacity.max_mem_per_worker", "bytes", 0, "Memory above which one worker is stopped; 0 sets no limit."),
    Key(
        "capacity.max_processes_per_worker",
        "whole",
        1024,
        "Processes above which one worker is stopped; 0 sets no limit.",
    ),
    Key("budget.task_tokens", "whole", 0, "Tokens of every class that one task may use; 0 sets no limit."),
    Key("budget.task_turns", "whole", 0, "Turns that one task may take; 0 sets no limit."),
    Key("budget.task_money", "number", 0.0, "US dollars that one task may cost; 0 sets no limit."),
    Key("budget.run_money", "number", 0.0, "US dollars that one run may cost; 0 sets no limit."),
    Key("budget.day_money", "number", 0.0, "US dollars that one day may cost; 0 sets no limit."),
    Key(
        "budget.unknown_price",
        "text",
        "stop",
        "What a limit of money does where a price is unknown.",
        ("stop", "allow"),
    ),
    Key(
        "throttle.calls",
        "whole",
        50,
        "Calls that may be in flight for one account, address and model while all is well: the baseline of the adaptive limit.",
        least=1,
        most=100000,
    ),
    Key("throttle.errors", "number", 5.0, "Percent of failed calls above which the limit is cut.", most=100),
    Key("throttle.error_cut", "number", 20.0, "Percent by which failures cut the limit.", most=99),
    Key("throttle.latency", "number", 2.0, "Mean seconds to the first byte of an answer above which the limit is cut."),
    Key("throttle.latency_cut", "number", 10.0, "Percent by which slow answers cut the limit.", most=99),
    Key(
        "throttle.look",
        "number",
        30.0,
        "Seconds of calls that the limit is judged by, and after a cut until the next one.",
        least=1,
    ),
    Key("throttle.calm", "number", 60.0, "Seconds without failures or slow answers after which the limit rises."),
    Key("throttle.rise", "number", 10.0, "Percent by which the limit rises, up to the baseline."),
    Key("throttle.sample", "whole", 20, "Calls without which there is no rate and no mean to cut by.", least=1),
    Key("throttle.failures", "whole", 5, "Failures in a row after which all wait and one call probes.", least=1),
    Key("throttle.backoff", "number", 1.0, "The most seconds of the first wait after a failure; it doubles each time."),
    Key("throttle.longest", "number", 60.0, "The most seconds of such a wait where the server asked for none."),
    Key(
        "throttle.calls_per_minute",
        "number",
        0.0,
        "Calls a minute for one account, address and model; 0 sets no limit.",
    ),
    Key(
        "throttle.tokens_per_minute",
        "number",
        0.0,
        "Tokens a minute for one account, address and model; 0 sets no limit.",
    ),
    Key(
        "throttle.attempts",
        "whole",
        0,
        "The most calls of a whole run over an API, failed ones too; 0 is three for each task and for each answer.",
    ),
    Key(
        "health.failures",
        "whole",
        3,
        "Failures in a row, of different tasks, beyond which a worker slot or a machine gets no work for a while.",
        least=1,
    ),
    Key("health.rest", "number", 60.0, "Seconds that it rests then, before one attempt tries; doubled each time."),
    Key("health.longest", "number", 3600.0, "The most seconds of such a rest.", most=604800),
    Key("deploy.agents", "whole", 10, "How many agents a deployment has at work at once, unless it is told.", least=1),
    Key(
        "deploy.dedup",
        "text",
        "words",
        "Which answers of a deployment are linked as one: equal ones, those of the same words, those of the same meaning, or "
        "those of which a model says so.",
        ("exact", "words", "meaning", "loosely", "judged"),
    ),
    Key(
        "deploy.dedup_tier",
        "text",
        "",
        "The tier whose model is asked which answers say the same, where deploy.dedup is judged.",
    ),
    Key(
        "deploy.embedder",
        "text",
        "wordllama",
        "What turns answers into vectors to find those in other words, if it can be used.",
    ),
    Key(
        "deploy.keep",
        "number",
        0.0,
        "Seconds that `fleet clean` leaves a whole deployment and its report after its last task; 0 keeps them.",
    ),
    Key(
        "deploy.registry",
        "text",
        "",
        "The MCP registry that agents get their tools from: its address (https, …/v0/servers), or a file like it.",
    ),
    Key(
        "deploy.tokens",
        "whole",
        128_000,
        "Tokens of every class that one agent of a deployment may use; 0 sets no limit.",
    ),
    Key(
        "deploy.redispatch", "whole", 2, "How often what an agent of a deployment has left is given out again.", most=20
    ),
    Key(
        "deploy.coverage",
        "number",
        1.0,
        "The part of the items, from 0 to 1, that must be answered before a deployment counts as whole.",
        most=1,
    ),
    Key(
        "deploy.escalate",
        "whole",
        1,
        "How many tiers up goes what the agents of a tier were not able to answer; 0 keeps it where it is.",
        most=10,
    ),
    Key(
        "deploy.tier", "text", "", "The tier of parts that name none; empty: the provider and model of all other tasks."
    ),
    Key(
        "deploy.judge",
        "text",
        "",
        "The tier whose model says how difficult each part is that names no tier; empty: nobody.",
    ),
    Key("deploy.verify_provider", "text", "", "The kind of agent that checks a sample of the answers for `--verify`."),
    Key("deploy.verify_model", "text", "", "The model that does."),
    Key("deploy.verify_pool", "text", "", "The pool of accounts that those who check are from."),
    Key("notify.command", "list", (), "A program and its arguments that a run tells what needs a person."),
    Key("provider.claude.binary", "text", "claude", "The program that is Claude Code: a name on the path, or a path."),
    Key("provider.claude.permission_mode", "text", "dontAsk", "Claude Code's permission mode."),
    Key("provider.claude.allowed_tools", "list", TOOLS, "Tools that Claude Code may use without being asked."),
    Key("provider.claude.model", "text", "", "Claude Code's model; empty leaves the choice to it."),
    Key("provider.claude.args", "list", (), "More arguments for Claude Code, as they are."),
    Key("provider.codex.binary", "text", "codex", "The program that is Codex: a name on the path, or a path."),
    Key(
        "provider.codex.sandbox",
        "text",
        "workspace-write",
        "Codex's sandbox for the commands that its model runs.",
        ("read-only", "workspace-write", "danger-full-access"),
    ),
    Key("provider.codex.model", "text", "", "Codex's model; empty leaves the choice to it."),
    Key("provider.codex.args", "list", (), "More arguments for Codex, as they are."),
    Key("provider.anthropic.url", "text", "https://api.anthropic.com", "Where the Messages API is."),
    Key("provider.anthropic.model", "text", "", "The model of tasks that name none, for the provider anthropic."),
    Key("provider.openai.url", "text", "https://api.openai.com/v1", "Where a chat completions API is."),
    Key("provider.openai.model", "text", "", "The model of tasks that name none, for the provider openai."),
    Key("policy.battery.workers", "whole", 1, "The most workers while a laptop runs on battery."),
    Key("policy.battery.below", "number", 100.0, "Percent of charge below which that cap holds.", most=100),
)
