"""Workers that are sessions of Acme Coder, which reads its prompt and prints JSON Lines, at the end its answer."""

import json
from collections.abc import Iterable
from shutil import which

from agent_fleet.api import AccountSpec, CredentialPlace, Event, Exit, Grammar, Job, Launch, Option, Outcome, OwnedKey
from agent_fleet.api import Provider, Reader, Surroundings, hookimpl


class AcmeReader:
    answer = ""

    def feed(self, line: str) -> Iterable[Event]:
        try:
            said = json.loads(line)
            kind, text = said["type"], said["text"].encode("utf-8", "replace").decode()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return []  # no line of Acme's: a warning of the system, a line that was cut off
        self.answer = text if kind == "answer" else self.answer
        return [Event(kind="text", text=text)]

    def outcome(self, exit: Exit) -> Outcome:
        if self.answer.strip() and (exit.cause, exit.code) == ("exited", 0):
            return Outcome(kind="done", result=self.answer)
        return Outcome(kind="failed", reason=f"ended without an answer ({exit.cause}, status {exit.code})")


ACCOUNTS = AccountSpec(
    binary="acme",
    homes=("ACME_HOME",),
    surroundings=Surroundings(scrub=("ACME_*",), secret=("ACME_TOKEN",)),
    owned=(
        OwnedKey(file="acme.toml", format="toml", path=("hooks", "turn_end"), value="{turn_end_words}"),
        OwnedKey(file="trust.json", path=("projects", "{root}"), value=True),
    ),
    credentials=(CredentialPlace(store="file", name="login.json", tokens=(("token",),), expires=("until",)),),
    controls=(".acme/*.toml",),
    grammar=Grammar(
        options=(
            Option(name="autonomy", words=("--yes",), required=True),
            Option(name="model", words=("--model", "{}")),
        ),
        start=("run", "<autonomy>", "<model>", "<prompt>"),
    ),
)


class Acme:
    name = "acme"

    def usable(self) -> str | None:
        return None if which("acme") else "there is no program acme on the path"

    def launch(self, job: Job) -> Launch:
        argv, log = ("acme", "run", "--model", job.task.model or "small"), f"{job.scratch}/acme.log"
        text = job.prompt.encode("utf-8", "replace")
        return Launch(worker=job.worker, argv=argv, cwd=job.cwd, env=job.env, log=log, stdin=text)

    def reader(self, _job: Job) -> Reader:
        return AcmeReader()

    def account_spec(self) -> AccountSpec:
        return ACCOUNTS


@hookimpl
def fleet_providers() -> Iterable[Provider]:
    yield Acme()
