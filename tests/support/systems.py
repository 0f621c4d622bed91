"""The systems that the scenarios are put to: this one, and with `FLEET_PEER` (the words of its command line) the older program.

Both are driven by their commands alone. What differs is how a machine with accounts is built, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support.estate import Estate
from support.project import Answer

PEER = shlex.split(os.environ.get("FLEET_PEER", ""))


class Said(NamedTuple):
    """What a command came to, as a caller sees it: whether it was done, and the one object that it answered."""

    status: int
    data: dict[str, Any]
    text: str

    @property
    def is_refusal(self) -> bool:
        """The shape of every handled refusal."""
        return self.status != 0 and self.data.get("ok") is False and bool(self.data.get("error"))


class Ours(Estate):
    """This system, with a file of the person's for what each account has left."""

    name = "ours"

    def say(self, *words: str, **settings: Any) -> Said:
        return _said(self.fleet("--format", "json", *words, **settings))

    def must(self, *words: str, **settings: Any) -> dict[str, Any]:
        found = self.say(*words, **settings)
        assert found.status == 0, (words, found)
        return found.data

    def refused(self, *words: str, phrase: str = "", **settings: Any) -> Said:
        found = self.say(*words, **settings)
        assert found.is_refusal, (words, found)
        assert re.search(phrase, found.data["error"] + json.dumps(found.data.get("details", ""))), (phrase, found)
        return found

    def choose(self, task: str, *more: str, pool: str = "claude-crew") -> Said:
        where = ("--task", task, "--pool", pool, "--workspace", str(self.root))
        return self.say("lease", "choose", *where, *more)

    def set(self, heading: str, key: str, value: str) -> None:
        """Change one line of the registry, or add it below the heading."""
        before, name, rest = self.file.read_text().partition(heading)
        if not name:
            before, name, rest = before.partition(heading.replace('"', ""))
        own, more, others = rest.partition("\n[")
        line = f"{key} = {value}"
        found = re.subn(rf"(?m)^{key} = .*$", line, own)
        own = found[0] if found[1] else f"\n{line}{own}"
        self.file.write_text(f"{before}{name}{own}{more}{others}")

    def lease_file(self, task: str) -> Path:
        import hashlib

        return self.kept / "leases" / f"{hashlib.sha256(task.encode()).hexdigest()}.json"


# Answers as the quota tool does: what is written in the file of the profile, else that four fifths are left.
QUOTA = r"""
import json, os, sys, time
home = os.environ.get("CLAUDE_CONFIG_DIR") or os.environ.get("CODEX_HOME") or ""
profile, provider = os.environ.get("AGENT_FLEET_PROFILE", ""), sys.argv[sys.argv.index("--provider") + 1]
files = {"claude": ".credentials.json", "codex": "auth.json"}
login = os.path.join(home, files[provider])
there = os.path.exists(login)
if "auth" in sys.argv:
    import pwd
    second = {
        "claude": {"source": "keychain", "status": "missing", "account": pwd.getpwuid(os.getuid()).pw_name},
        "codex": {"source": "cli-rpc", "status": "available", "path": os.environ.get("QUOTA_AXI_CODEX_BINARY")},
    }[provider]
    first = {"claude": "oauth-file", "codex": "auth-json"}[provider]
    rows = [{"source": first, "status": "available" if there else "missing", "path": login}, second]
    print(json.dumps({"auth": [{"provider": provider, "sources": rows}]}))
    sys.exit(0)
told = {"left": 80.0, "who": profile}
try:
    with open(os.path.join("TOLD", profile + ".json")) as file:
        told |= json.load(file)
except FileNotFoundError:
    pass
if "print" in told:
    print(told["print"])
    sys.exit(told.get("exit", 0))
now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
state = {"status": told.get("status", "fresh"), "error": told.get("error"), "refreshedAt": now}
account = {"email": told["who"] + "@example.invalid", "accountId": told["who"] + "-account"}
windows = [{"id": "five_hour", "kind": "session", "percentRemaining": told["left"]}]
attempts = [{"source": "oauth-file", "status": "ok", "credentialPresent": there}]
row = {"provider": provider, "account": account, "state": state, "windows": windows, "attempts": attempts}
print(json.dumps({"providers": [row]}))
"""


class Peer(Ours):
    """The older program. Its accounts cannot be enabled by its own command, so that is done in its file."""

    name = "peer"

    def __init__(self, root: Path, *, claude: int = 0, codex: int = 0) -> None:
        self.told = root / "told"
        self.told.mkdir(parents=True)
        release = root / "release"
        script = release / "node_modules" / "quota-axi" / "dist" / "bin" / "quota-axi.js"
        for path, text, mode in (
            (script, QUOTA.replace("TOLD", str(self.told)), 0o444),
            (release / "bin" / "quota-axi", f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n', 0o755),
            (release / "runtime" / "node", f'#!/bin/sh\nexec {sys.executable} "$@"\n', 0o755),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
        self.release = release
        super().__init__(root, claude=claude, codex=codex)

    def environment(self, **more: str) -> dict[str, str]:
        tools = {
            "AGENT_FLEET_QUOTA_BIN": str(self.release / "bin" / "quota-axi"),
            "AGENT_FLEET_QUOTA_NODE_BIN": str(self.release / "runtime" / "node"),
        }
        return super().environment(**{**tools, **more})

    def fleet(self, *arguments: str, env: Mapping[str, str] | None = None, **settings: Any) -> Answer:
        words = [word for word in arguments if word != "--json"]
        if words == list(arguments) and "--format" not in words:
            words = ["--format", "human", *words]
        elif "--format" not in words:
            words = ["--format", "json", *words]
        done = subprocess.run(
            [*PEER, *words],
            cwd=settings.get("cwd") or self.root,
            env=self.environment(**(env or {})),
            input=settings.get("stdin", b""),
            capture_output=True,
            timeout=180,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str, env: Mapping[str, str] | None = None, **settings: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*PEER, *arguments],
            cwd=self.root,
            env=self.environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **settings,
        )

    def json(self, *arguments: str, status: int = 0, **settings: Any) -> dict[str, Any]:
        found = self.say(*arguments, **settings)
        assert found.status == status, (arguments, found)
        return found.data

    def ready(self, *, left: Mapping[str, float] | None = None) -> Peer:
        kinds = sorted({label.partition("-")[0] for label in self.labels})
        for kind in kinds:
            self.must("project", "register", str(self.root), "--provider", kind)
        self.must("profile", "provision", "--all")
        for label in self.labels:
            self.login(label)
            self.tell(label, (left or {}).get(label, 60.0))
        for kind in kinds:
            self.must("profile", "identity", "adopt", f"{kind}-1")
        self.file.write_text(self.file.read_text().replace("enabled = false", "enabled = true"))
        return self

    def tell(self, label: str, left: float, **more: Any) -> None:
        (self.told / f"{label}.json").write_text(json.dumps({"left": left, **more}))

    def login(self, label: str, who: str = "") -> None:
        super().login(label, who)
        self.tell(label, 60.0, who=who or label)


def _said(answer: Answer) -> Said:
    try:
        data = json.loads(answer.out) if answer.out.strip() else {}
    except ValueError:
        data = {}
    return Said(answer.status, data if isinstance(data, dict) else {}, answer.out + answer.err)


def systems() -> Iterable[type[Ours]]:
    return [Ours, *([Peer] if PEER else [])]
