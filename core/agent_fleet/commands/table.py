"""Every command: its module here, its group, and one line about it. Nothing is imported until it is typed."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module, group, one line)
    "init": ("init", "Every day", "Make the task queue of this project, hidden from git."),
    "add": ("add", "Every day", "Add a task: a sentence, an address, or `-` for standard input."),
    "plan": ("plan", "Every day", "Show what would run, where and why, before anything starts."),
    "run": ("run", "Every day", "Work the queue, at the parallelism that the machine can take."),
    "blocked": ("blocked", "Every day", "Show what waits for a person, grouped by reason."),
    "where": ("where", "Project", "Show which project and which files are used."),
    "machine": ("machine", "Project", "Show what this machine can spare, and how that is known."),
    "doctor": ("doctor", "Project", "Check the health of this installation and project."),
    "clean": ("clean", "Project", "Remove what fleet has made and nobody needs any more."),
    "plugins": ("plugins", "Project", "List the plugins, and what is broken."),
    "config": ("config", "Project", "Show every setting, its value and where it comes from."),
    "version": ("version", "Project", "Show the version."),
    "add-batch": ("add_batch", "Work in", "Add many tasks: one a line, or JSON Lines."),
    "from-note": ("from_note", "Work in", "Add what is new in a checklist."),
    "to-note": ("to_note", "Work in", "Tick in a checklist what is done, and log what was observed."),
    "why": ("why", "Run", "Say why a task waits, or what became of it."),
    "open": ("open", "Run", "Start a run in N terminals, and say where they are."),
    "probe-browser": ("probe_browser", "Run", "Say whether there is a browser that a task could use."),
    "stop": ("stop", "Run", "Stop the runs of this project and everything that they started."),
    "demo": ("demo", "Run", "Work a small queue of real processes in a throw-away project; no account is needed."),
    "status": ("status", "Watch", "Count the tasks by state and show who works on what."),
    "list": ("list", "Watch", "List tasks, of all states or one."),
    "show": ("show", "Watch", "Show one task and everything that happened to it."),
    "log": ("log", "Watch", "Show what a task's last attempt printed."),
    "watch": ("watch", "Watch", "Watch the project: what needs you, who works on what."),
    "cost": ("cost", "Watch", "Show what was used and what it cost, by task, run, provider, model or day."),
    "runs": ("runs", "Watch", "List the runs of this project."),
    "report": ("report", "Watch", "Show what one run came to: coverage, evidence, cost."),
    "unblock": ("unblock", "Watch", "Return blocked tasks to the queue, with an answer."),
    "reset": ("reset", "Watch", "Return active or failed tasks to the queue."),
    "verify": ("verify", "Watch", "Replay the journal against the directories and name every disagreement."),
    "claim": ("claim", "Agents", "Claim the next task that may start now."),
    "heartbeat": ("heartbeat", "Agents", "Show that the holder of a task lives."),
    "done": ("done", "Agents", "Report a task as done, with what was observed."),
    "block": ("block", "Agents", "Park a task that a person must unblock."),
    "fail": ("fail", "Agents", "Report that an attempt failed."),
    "mcp": ("mcp", "Agents", "Serve the queue to the agent session that starts this, as MCP tools."),
    "install-skill": ("install_skill", "Agents", "Teach Claude Code and Codex the worker protocol."),
}
# told as data (`commands/spec.py`), so that a plain line of them is read without click
HOT = ("claim", "heartbeat", "done", "block", "fail")
GROUPS = ("Every day", "Project", "Work in", "Run", "Watch", "Agents")
