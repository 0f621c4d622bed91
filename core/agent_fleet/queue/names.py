"""The grammar of names in the queue directory. Pure; a name outside it is a stranger and is quarantined."""

from __future__ import annotations

BUCKET = 256
STATES = ("inbox", "active", "done", "blocked", "failed")
SETTLED = ("done", "blocked", "failed")
NEEDS = ("browser", "agent", "serial", "command")
FREE = "_"
ENOUGH = "enough"  # a file in the directory of a worker that may claim no more


def number_of(task: str) -> int:
    """The number in a task id such as `t17`. Raises ValueError for anything else."""
    digits = task[1:]
    if task[:1] != "t" or not is_number(digits):
        raise ValueError(f"not a task id: {task!r}")
    return int(digits)


def is_id(task: str) -> bool:
    return task[:1] == "t" and is_number(task[1:])


def bucket_of(task: str) -> str:
    """The directory that holds this task's number and its 255 neighbours."""
    return f"{number_of(task) // BUCKET:07d}"


def is_bucket(name: str) -> bool:
    return len(name) >= 7 and name.isascii() and name.isdigit()


def entry_name(task: str, generation: int) -> str:
    return f"{task}.g{generation}.json"


def parse_entry(name: str) -> tuple[str, int] | None:
    """(task, generation) of `t17.g3.json`, or None."""
    if not name.endswith(".json"):
        return None
    task, separator, generation = name[:-5].partition(".g")
    if not separator or not is_id(task) or not is_number(generation, zero=True):
        return None
    return task, int(generation)


def active_name(task: str, generation: int, owner: str, gate: str) -> str:
    return f"{task}.g{generation}+{owner}+{gate}.json"


def parse_active(name: str) -> tuple[str, int, str, str] | None:
    """(task, generation, owner, gate) of `t17.g3+owner+gate.json`, or None."""
    if not name.endswith(".json"):
        return None
    parts = name[:-5].split("+")
    if len(parts) != 3 or not parts[1] or not parts[2]:
        return None
    entry = parse_entry(parts[0] + ".json")
    return (*entry, parts[1], parts[2]) if entry else None


def track_name(priority: int, need: str, lane: str = "", provider: str = "") -> str:
    return f"{priority}.{need}{'@' + lane if lane else ''}{'%' + provider if provider else ''}"


def parse_track(name: str) -> tuple[int, str, str, str] | None:
    """(priority, need, lane, provider) of `5.agent@serial%codex`, or None."""
    priority, _, rest = name.partition(".")
    rest, percent, provider = rest.partition("%")
    need, at, lane = rest.partition("@")
    if len(priority) != 1 or priority not in "123456789" or need not in NEEDS:
        return None
    if (percent and not is_label(provider)) or (at and not is_label(lane)):
        return None
    return int(priority), need, lane, provider


def is_label(text: str) -> bool:
    """Whether this can name a lane, a provider or a pool: lower-case letters, digits, `-` and `_`, at most 40."""
    return (
        0 < len(text) <= 40 and text.isascii() and all(c.isalnum() or c in "-_" for c in text) and text == text.lower()
    )


def parse_mark(mark: str) -> tuple[str, str] | None:
    """(run, worker) of the mark of a worker's tree: `r1-5f0c…-w2` is ("r1", "r1-w2"); None for any other text."""
    run, _, rest = mark.partition("-")
    secret, _, worker = rest.partition("-")
    if not (run[:1] == "r" and is_number(run[1:]) and worker[:1] == "w" and is_number(worker[1:])):
        return None
    return (run, f"{run}-{worker}") if secret and secret.isascii() and secret.isalnum() else None


def waits_for(task: str) -> str:
    """The gate of tasks whose first unmet need is `task`."""
    return "need=" + task


def awaited(gate: str) -> str:
    """The task that this gate waits for, or an empty string."""
    return gate[5:] if gate.startswith("need=") and is_id(gate[5:]) else ""


def is_gate(gate: object) -> bool:
    """Whether this is the gate of a task's own body: free, a host, a digest of touched paths, or both."""
    if not isinstance(gate, str) or len(gate) > 120 or not gate.isascii():
        return False
    host, tilde, digest = gate.partition("~")
    if not host and not digest:
        return False
    if tilde and not (len(digest) == 12 and all(c in "0123456789abcdef" for c in digest)):
        return False
    return all(c.isalnum() or c in ".-_" for c in host) and host not in (".", "..")


def host_of_gate(gate: str) -> str:
    """The host whose limit this gate is under, or an empty string."""
    return "" if gate == FREE or gate.startswith("need=") else gate.partition("~")[0]


def touches_of_gate(gate: str) -> str:
    """The digest of touched paths in this gate, or an empty string."""
    return "" if gate.startswith("need=") else gate.partition("~")[2]


def is_number(text: str, *, zero: bool = False) -> bool:
    """Whether this is a number as names hold it: decimal digits without a leading zero, at most 15."""
    if not (0 < len(text) <= 15 and text.isascii() and text.isdigit()):
        return False
    return text[0] != "0" or (zero and text == "0")
