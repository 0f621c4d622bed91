"""Write the pages that are made from the code: `docs/hooks.md`, `docs/config.md`, `docs/cli.md`. With `--check`, only compare."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

import click

from agent_fleet import errors, hookspecs, protocols
from agent_fleet.clicked import fleet
from agent_fleet.commands.config import shown
from agent_fleet.commands.table import COMMANDS, GROUPS
from agent_fleet.config import KEYS, Key
from agent_fleet.plugins import FAMILIES, Family

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "tests" / "typing"
# What a thing of a family may have beside its own protocol: each is asked for by itself.
MORE: dict[str, tuple[type, ...]] = {
    "Provider": (
        protocols.Musters,
        protocols.Resumes,
        protocols.Accounts,
        protocols.Identified,
        protocols.Quotas,
        protocols.QuotaReader,
        protocols.Hooked,
    ),
    "Lane": (protocols.Seated, protocols.Visible),
    "Check": (protocols.Mender,),
}
SHIPPED = {"provider": ROOT / "examples" / "agent-fleet-acme" / "agent_fleet_acme.py"}

HOOKS_HEAD = """\
# Hooks

*Made by `scripts/docs.py` from `hookspecs.py` and `protocols.py`; change those.*

A plugin is a module with one or more of the functions below, marked by `hookimpl`. Its distribution names the module in the
entry-point group of the family, under the name that the plugin offers. It imports `agent_fleet.api` and nothing else of fleet.

```toml
[project]
name = "agent-fleet-acme"
dependencies = ["agent-fleet"]

[project.entry-points."agent_fleet.providers"]
acme = "agent_fleet_acme"
```

What holds for every hook:

- It returns things with names; the configuration chooses by name, never by order. A name that two distributions offer is nobody's.
  A built-in name cannot be taken.
- It may leave `config` out. `config.table("acme")` is the plugin's own `[plugin.acme]` table.
- It is called once, in a thread of its own, and has 10 seconds, its import included. So has each later question to a thing.
- If it raises, hangs, or offers something without the members below, only its own offers are lost; `fleet plugins` names it.
- The import names `agent_fleet_lanes`, `agent_fleet_capacity`, `agent_fleet_providers`, `agent_fleet_policies`,
  `agent_fleet_embedders`, `agent_fleet_decomposers` and `agent_fleet_checks` are ours; installers overwrite silently, and
  `fleet doctor` tells.
"""

CONFIG_HEAD = """\
# Configuration

*Made by `scripts/docs.py` from the table in `keys.py`; change that.*

Later wins: the defaults, the user's file `~/.config/agent-fleet/config.toml` (`$XDG_CONFIG_HOME` is followed), the project's
file `.agents/config.toml`, the file named by `--config`, the environment. `fleet config --all` shows every value and its source.

```toml
[run]
stagger = 5.0

[capacity]
probes = "auto"                    # every probe that can be used; the tightest reading counts

[host."build-*".capacity]          # on machines of that name only; lies over the rest of this file
probes = ["cgroup2", "slurm"]

[hosts."example.com"]              # how many tasks of this host may run at once; patterns work too
max = 2

[plugin.slurm]                     # a plugin's own table
file = "/run/job/memory_free"
```

- An environment variable is `FLEET_` and the key with underscores, in capitals; lists are separated by commas.
- A size is a number of bytes or a text such as `"2 GiB"`; `GB` is 10^9 bytes, `G` and `GiB` are 2^30.
- A key that does not exist is a warning. A value of the wrong type, or a file that is no TOML, is an error that names the file
  and the key.
- `[agents.NAME]` tables define providers from a command line.
- `[prices."MODEL"]` tables lie over the packaged prices, in US dollars per million tokens: see the guide to budgets.
- `[tiers.NAME]` tables say which provider and model tasks of one difficulty go to: `level` (a whole number, the lowest is the
  cheapest), `provider`, `model`, and `for`, what it is good for.

"""


CLI_HEAD = """\
# Command line

*Made by `scripts/docs.py` from the commands themselves; change those.*

`fleet [OPTIONS] COMMAND …`, also installed as `agent-fleet`. The global options `--format human|json|toon`, `--json`,
`--project DIR` and `--config FILE` are accepted before the command and after it; `$FLEET_FORMAT` sets the form for a whole shell.

With `--json` a command prints exactly one object on standard output and nothing else there: `{"ok": true, …}`, or a refusal
`{"ok": false, "code": "…", "error": "…", "details": […], "hint": "…"}`. Warnings and progress go to standard error.

| exit status | meaning |
|---|---|
| 0 | it was done |
| 1 | a fault of the environment, or something that was looked for and found to be wrong |
| 2 | the command line cannot be understood, or a rule forbids it; nothing was changed |
| 3 | there is nothing to claim now |
| 4 | there is no such task, run, plugin or file |
| 5 | busy or not to be had now; try again |
| 130 | interrupted |

"""


def hooks() -> str:
    """The page about hooks."""
    return HOOKS_HEAD + "".join(_hook(family) for family in FAMILIES)


def _hook(family: Family[Any]) -> str:
    spec = getattr(hookspecs.Offers, family.hook)
    parameters = list(inspect.signature(spec).parameters.values())[1:]
    signature = inspect.Signature(parameters, return_annotation=inspect.signature(spec).return_annotation)
    lines = [
        "",
        f"## `{family.hook}`",
        "",
        inspect.getdoc(spec) or "",
        "",
        f"Entry-point group: `{family.group}`. Built in: {_built_in(family)}.",
        "",
        "```python",
        f"def {family.hook}{_plain(str(signature))}",
        "```",
        "",
        f"A `{family.protocol.__name__}` has:",
        "",
        "```python",
        _members(family.protocol),
        "```",
        "",
        *_more(family.protocol.__name__),
        "A whole plugin:",
        "",
        "```python",
        example(family.protocol.__name__.lower()).read_text(encoding="utf-8").rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _more(kind: str) -> list[str]:
    """The small protocols that a thing of this kind may have too."""
    lines = [] if kind not in MORE else ["It may have more, each by itself:", ""]
    for protocol in MORE.get(kind, ()):
        lines += [
            f"**{protocol.__name__}.** {inspect.getdoc(protocol)}",
            "",
            "```python",
            _members(protocol),
            "```",
            "",
        ]
    return lines


def example(kind: str) -> Path:
    """The whole plugin that the page shows for one kind of thing: a distribution of ours if there is one, else a test's."""
    return SHIPPED.get(kind, EXAMPLES / f"{kind}.py")


def _plain(signature: str) -> str:
    return signature.replace("'", "")


def _built_in(family: Family[Any]) -> str:
    names = __import__(family.package).NAMES
    return ", ".join(f"`{name}`" for name in sorted(names))


def _members(protocol: type) -> str:
    """The protocol's own source without its docstring, so that the page says what the type checker says."""
    tree = ast.parse(inspect.getsource(protocol)).body[0]
    members = tree.body[1:] if isinstance(tree, ast.ClassDef) else []
    return "\n\n".join(ast.unparse(node) for node in members)


def config() -> str:
    """The page about configuration."""
    rows = ["| key | default | what may stand there | meaning |", "|---|---|---|---|"]
    rows += [f"| `{key.name}` | `{shown(key, key.default)}` | {_wanted(key)} | {key.meaning} |" for key in KEYS]
    return CONFIG_HEAD + "\n".join(rows) + "\n"


def _wanted(key: Key) -> str:
    return key.wanted.replace("|", "\\|")


def cli() -> str:
    """The page about the command line."""
    rows = [
        "## Codes of refusals",
        "",
        "The codes are stable.",
        "",
        "| code | exit status | meaning |",
        "|---|---|---|",
    ]
    rows += [f"| `{code}` | {status} | {meaning} |" for code, (status, meaning) in errors.CODES.items()]
    parent = click.Context(
        fleet, info_name="fleet", terminal_width=100, max_content_width=100, **fleet.context_settings
    )
    for group in GROUPS:
        rows += ["", f"## {group}"]
        for name in (name for name, (_, where, _) in COMMANDS.items() if where == group):
            rows += _help(fleet, name, parent)
    return CLI_HEAD + "\n".join(rows) + "\n"


def _help(group: click.Group, name: str, parent: click.Context) -> list[str]:
    """What a command says of itself, and after it each command below it."""
    command = group.get_command(parent, name)
    if command is None:
        return []
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100, max_content_width=100)
    rows = ["", f"### `{context.command_path}`", "", "```text", command.get_help(context), "```"]
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            rows += _help(command, below, context)
    return rows


def pages() -> dict[Path, str]:
    """Every made page and its text."""
    made = {"hooks.md": hooks(), "config.md": config(), "cli.md": cli()}
    return {ROOT / "docs" / name: text for name, text in made.items()}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them; the status is 1 if one differed."""
    stale = [
        (path, text) for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if "--check" in arguments:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what the code says; run scripts/docs.py\n")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
