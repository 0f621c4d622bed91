"""A command-line agent described by a table: which program, how the prompt reaches it, what its output means.

    [agents.aider]
    argv = ["aider", "--yes", "--model", "{model}", "--message-file", "{prompt_file}"]
    model = "sonnet"

The prompt goes to standard input or into a file. It is never an argument: arguments have a length limit, other users
can read them, and a text that begins with a dash would be an option.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fleet.api import Event, Exit, FleetError, Job, Launch, Outcome, Task
from agent_fleet_providers._answers import answered, last_words
from agent_fleet_providers._endings import by_cause, by_signal, status
from agent_fleet_providers._models import model_name
from agent_fleet_providers._output import Tail, one_line
from agent_fleet_providers._scratch import write_private
from agent_fleet_providers._verdict import verdict

KEYS = ("argv", "prompt", "env", "done", "model")
FIELDS = ("prompt_file", "cwd", "model", "task")
FIELD = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


class Recipe(NamedTuple):
    """A table that was found to be sound."""

    argv: tuple[str, ...]
    prompt: str
    env: Mapping[str, str]
    model: str


class Template:
    """One `[agents.NAME]` table. A table that cannot be used says why; it does not spoil the others."""

    def __init__(self, name: str, table: Mapping[str, Any]) -> None:
        self.name = name
        self._fault: FleetError | None = None
        self._recipe: Recipe | None = None
        try:
            self._recipe = read_recipe(name, table)
        except FleetError as error:
            self._fault = error

    def usable(self) -> str | None:
        if self._recipe is None:
            return str(self._fault.message) if self._fault else None
        program = self._recipe.argv[0]
        if FIELD.search(program) or shutil.which(program):
            return None
        return f"the program {program} of [agents.{self.name}] is not on the path"

    def launch(self, job: Job) -> Launch:
        """The program with its fields filled in. Raises `bad_config` for a table that cannot be used."""
        if self._recipe is None:
            raise self._fault or FleetError("bad_config", f"[agents.{self.name}] cannot be used")
        recipe = self._recipe
        fields = {"cwd": job.cwd, "task": job.task.id, "model": model_name(job.task.model or recipe.model)}
        if not fields["model"] and _uses(recipe, "model"):
            raise FleetError(
                "bad_config",
                f"[agents.{self.name}] uses {{model}}, and neither the task nor the table names a model",
                hint=f'add model = "…" to [agents.{self.name}], or --model to the task',
            )
        if recipe.prompt == "file":
            fields["prompt_file"] = write_private(os.path.join(job.scratch, "prompt.txt"), job.prompt)
        return Launch(
            worker=job.worker,
            argv=tuple(_fill(word, fields) for word in recipe.argv),
            cwd=job.cwd,
            env={**job.env, **{name: _fill(value, fields) for name, value in recipe.env.items()}},
            log=os.path.join(job.scratch, "output.log"),
            speaks=False,
            stdin=job.prompt.encode("utf-8", "replace") if recipe.prompt == "stdin" else b"",
        )

    def reader(self, job: Job) -> TemplateReader:
        return TemplateReader(job.task, job.nonce)


class TemplateReader:
    """Takes the whole output as the agent's answer, and its exit status as whether it ended well."""

    def __init__(self, task: Task, nonce: str, clock: Callable[[], float] = time.time) -> None:
        self._task = task
        self._nonce = nonce
        self._clock = clock
        self._tail = Tail(lines=2000, characters=65536)

    def feed(self, line: str) -> Iterable[Event]:
        text = self._tail.add(line)
        return (Event(kind="text", text=one_line(text)),) if text.strip() else ()

    def outcome(self, ended: Exit) -> Outcome:
        answer = self._tail.text.strip()
        said = verdict(answer, self._nonce)
        if said or (ended.cause == "exited" and ended.code == 0):
            return answered(answer, self._nonce, host=self._task.host, now=self._clock())
        if cut_short := by_cause(ended):
            return replace(cut_short, result=answer[-2000:])
        if wall_met := last_words(self._tail.lines, self._clock()):
            return wall_met
        if crashed := by_signal(ended):
            return replace(crashed, result=answer[-2000:])
        last = one_line(answer.rpartition("\n")[2], 160)
        return Outcome(
            kind="failed", reason=f"{status(ended)}: {last}" if last else status(ended), result=answer[-2000:]
        )


def read_recipe(name: str, table: Mapping[str, Any]) -> Recipe:
    """Check a table. Raises `bad_config` with the first thing that is wrong with it."""
    where = f"[agents.{name}]"
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise _bad(f"{where} has the unknown key {unknown[0]}", f"the keys are {', '.join(KEYS)}")
    argv = table.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and word for word in argv):
        raise _bad(f"{where} needs argv, a list of texts", 'write argv = ["program", "--option"]')
    env = table.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise _bad(f"{where} env must be a table of texts", 'write env = { NAME = "value" }')
    if marked := sorted(key for key in env if key.startswith("FLEET_")):
        raise _bad(f"{where} may not set {marked[0]}: fleet finds its workers by such variables", "leave it out")
    if table.get("done", "exit0") != "exit0":
        raise _bad(f'{where} done must be "exit0"', 'write done = "exit0", or leave it out')
    model = table.get("model", "")
    if not isinstance(model, str):
        raise _bad(f"{where} model must be a text", 'write model = "name"')
    _check_fields(where, [*argv, *env.values()])
    recipe = Recipe(tuple(argv), table.get("prompt", ""), dict(env), model_name(model))
    return recipe._replace(prompt=_prompt(where, recipe))


def _prompt(where: str, recipe: Recipe) -> str:
    in_file = _uses(recipe, "prompt_file")
    prompt = recipe.prompt or ("file" if in_file else "stdin")
    if prompt not in ("stdin", "file"):
        raise _bad(f'{where} prompt must be "stdin" or "file"', 'write prompt = "stdin" or prompt = "file"')
    if prompt == "file" and not in_file:
        raise _bad(f"{where} never names the prompt's file", "put {prompt_file} where the program expects it")
    if prompt == "stdin" and in_file:
        raise _bad(f'{where} names {{prompt_file}} and has prompt = "stdin"', 'write prompt = "file"')
    return prompt


def _check_fields(where: str, words: Iterable[str]) -> None:
    for word in words:
        if "\0" in word:
            raise _bad(f"{where} holds a NUL", "take it out")
        for found in FIELD.finditer(word):
            if found[2] == "prompt":
                raise _bad(f"{where} puts the prompt into an argument", 'use {prompt_file}, or prompt = "stdin"')
            if found[2] and found[2] not in FIELDS:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                raise _bad(
                    f"{where} has the unknown field {{{found[2]}}}",
                    f"the fields are {known}; write {{{{{found[2]}}}}} for the word in braces itself",
                )


def _uses(recipe: Recipe, field: str) -> bool:
    return any(found[2] == field for word in (*recipe.argv, *recipe.env.values()) for found in FIELD.finditer(word))


def _fill(word: str, fields: Mapping[str, str]) -> str:
    return FIELD.sub(lambda found: f"{{{found[1]}}}" if found[1] else fields[found[2]], word)


def _bad(message: str, hint: str) -> FleetError:
    return FleetError("bad_config", message, hint=hint)
