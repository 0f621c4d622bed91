"""Workers that are sessions of Acme Coder, which reads its prompt and prints JSON Lines, at the end its answer."""

import json
from collections.abc import Iterable
from shutil import which

from agent_fleet import api

ACCOUNTS = api.AccountSpec(
    binary="acme",
    homes=("ACME_HOME",),
    surroundings=api.Surroundings(scrub=("ACME_*",), secret=("ACME_TOKEN",)),
    owned=(
        api.OwnedKey(file="acme.toml", format="toml", path=("hooks", "turn_end"), value="{turn_end_words}"),
        api.OwnedKey(file="trust.json", path=("projects", "{root}"), value=True),
    ),
    credentials=(api.CredentialPlace(store="file", name="login.json", tokens=(("token",),), expires=("until",)),),
    controls=(".acme/*.toml",),
    grammar=api.Grammar(
        options=(api.Option(name="autonomy", words=("--yes",), required=True),),
        start=("run", "<autonomy>", "<prompt>"),
    ),
)


class AcmeReader:
    answer = ""

    def feed(self, line: str) -> Iterable[api.Event]:
        try:
            said = json.loads(line)
            kind, text = said["type"], said["text"].encode("utf-8", "replace").decode()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return []  # no line of Acme's: a warning of the system, a line that was cut off
        self.answer = text if kind == "answer" else self.answer
        return [api.Event(kind="text", text=text)]

    def outcome(self, exit: api.Exit) -> api.Outcome:
        if self.answer.strip() and (exit.cause, exit.code) == ("exited", 0):
            return api.Outcome(kind="done", result=self.answer)
        return api.Outcome(kind="failed", reason=f"ended without an answer ({exit.cause}, status {exit.code})")


class Acme:
    name = "acme"

    def account_spec(self) -> api.AccountSpec:
        return ACCOUNTS

    def usable(self) -> str | None:
        return None if which("acme") else "there is no program acme on the path"

    def launch(self, job: api.Job) -> api.Launch:
        argv, log = ("acme", "run", "--model", job.task.model or "small"), f"{job.scratch}/acme.log"
        text = job.prompt.encode("utf-8", "replace")
        return api.Launch(worker=job.worker, argv=argv, cwd=job.cwd, env=job.env, log=log, stdin=text)

    def reader(self, _job: api.Job) -> api.Reader:
        return AcmeReader()


@api.hookimpl
def fleet_providers() -> Iterable[api.Provider]:
    yield Acme()
