"""A machine with accounts of Claude Code and Codex, made by commands alone: the programs are stand-ins, or the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support import account_homes
from support.accounts import work_tree
from support.fleet_server import FleetServer
from support.project import BOOT, Answer, Project
from support.stand_in import StandIn

ELSEWHERE = """
import pwd
real = pwd.getpwuid
pwd.getpwuid = lambda user: pwd.struct_passwd((*real(user)[:5], {home!r}, real(user)[6]))
"""
CLAUDE = "--dangerously-skip-permissions"
CODEX = "--dangerously-bypass-approvals-and-sandbox"


class Estate(Project):
    """`claude` and `codex` accounts, each with a login of its own and a file that says what it has left."""

    server: FleetServer | None = None

    def __init__(
        self, root: Path, *, claude: int = 0, codex: int = 0, binaries: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(work_tree(root / "work"), home=root / "home")
        self.top = root
        self.file = root / "accounts.toml"
        self.kept = root / "state"
        self.turns = root / "turns"
        self.turns.mkdir(mode=0o700)
        self.stand_in = StandIn(root / "programs")
        self.binaries = {name: str(self.stand_in.place / name) for name in ("claude", "codex")} | dict(binaries or {})
        self.more: dict[str, str] = {}
        self.json("init", "--claude", str(claude), "--codex", str(codex))
        self.labels = [f"claude-{n + 1}" for n in range(claude)] + [f"codex-{n + 1}" for n in range(codex)]

    def environment(self, **more: str) -> dict[str, str]:
        accounts = {
            "AGENT_FLEET_CONFIG": str(self.file),
            "AGENT_FLEET_STATE_DIR": str(self.kept),
            "AGENT_FLEET_SHARE_DIR": str(self.top / "share"),
            **{f"AGENT_FLEET_{name.upper()}_BIN": path for name, path in self.binaries.items()},
        }
        return super().environment(**{**accounts, **self.more, **more})

    def fleet(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"", **settings: Any
    ) -> Answer:
        if self.server is None or settings or arguments[0] == "run":
            return super().fleet(*arguments, env=env, stdin=stdin, **settings)
        given = self.environment(**(env or {}))
        return self.server.run(arguments, cwd=self.root, env=given, home=self.home, stdin=stdin)

    def start(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **settings: Any
    ) -> Any:
        """Start a command whose system says that the person's home is the one of the test."""
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        return subprocess.Popen(
            [sys.executable, "-c", ELSEWHERE.format(home=str(self.home)) + BOOT, *arguments],
            cwd=cwd or self.root,
            env=self.environment(**(env or {})),
            **settings,
        )

    def ready(self, *, left: Mapping[str, float] | None = None) -> Estate:
        """Registered, provisioned, logged in, adopted and enabled."""
        for provider in sorted({label.partition("-")[0] for label in self.labels}):
            self.json("project", "register", str(self.root), "--provider", provider)
        self.json("profile", "provision", "--all")
        for label in self.labels:
            self.login(label)
            self.tell(label, (left or {}).get(label, 60.0))
        self.edit({f'[profiles."{label}"]': f'quota_file = "{self.left_of(label)}"' for label in self.labels})
        for provider in sorted({label.partition("-")[0] for label in self.labels}):
            self.json("profile", "identity", "adopt", f"{provider}-1")
        for label in self.labels:
            self.json("profile", "enable", label)
        return self

    def edit(self, lines: Mapping[str, str]) -> None:
        """Put a line below each of these headings of the registry."""
        text = self.file.read_text()
        for heading, line in lines.items():
            found = next((h for h in (heading, heading.replace('"', "")) if h in text), None)
            assert found, (heading, text)
            text = text.replace(found, f"{found}\n{line}", 1)
        self.file.write_text(text)

    def home_of(self, label: str) -> Path:
        provider, _, number = label.partition("-")
        return self.top / "share" / "accounts" / provider / number

    def left_of(self, label: str) -> Path:
        return self.top / f"left-{label}.json"

    def login(self, label: str, who: str = "") -> None:
        if label.startswith("claude"):
            account_homes.claude_login(self.home_of(label), who=who or label)
        else:
            account_homes.codex_login(self.home_of(label), account=who or label)

    def tell(self, label: str, left: float, **more: Any) -> None:
        """What the person wrote down of an account."""
        rows = [{"id": "five_hour", "kind": "session", "remaining_percent": left, **more}]
        self.left_of(label).write_text(json.dumps({"windows": rows}))
        (self.kept / "quota" / f"{label}.json").unlink(missing_ok=True)

    def turn_end(self, task: str) -> Path:
        return self.turns / f"{task}.turn-ended"

    def words(
        self, verb: str, task: str, *options: str, argv: Iterable[str], workspace: Path | None = None
    ) -> list[str]:
        place = str(workspace or self.root)
        given = ["--task", task, "--workspace", place, "--turn-end", str(self.turn_end(task)), *options]
        return [verb, *given, "--", *argv]

    def launch(self, task: str, *options: str, argv: Iterable[str], verb: str = "exec", **settings: Any) -> Answer:
        workspace = settings.pop("workspace", None)
        return self.fleet(*self.words(verb, task, *options, argv=argv, workspace=workspace), **settings)

    def leases(self) -> dict[str, dict[str, Any]]:
        return {lease["task"]: lease for lease in self.json("lease", "list")["leases"]}
