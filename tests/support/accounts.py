"""A registry of accounts in a temporary directory, with a provider whose logins and numbers are small files in each home."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_fleet.accounts.leases import Clock
from agent_fleet.accounts.pins import Pin, Pins, fingerprint, salt_of
from agent_fleet.accounts.ports import Seen
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.registrar import Registrar
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.selection import Readiness, Request
from agent_fleet.accounts.values import Profile, Proof, QuotaReading, Window
from agent_fleet.accounts.vault import Vault
from support.distributions import install
from support.fleet_server import FleetServer
from support.project import Answer, Project, git

TOY = """
import json, os, time
from agent_fleet.api import *

class Numbers:
    name = "toy-file"
    def read(self, account, deadline):
        with open(account.home + "/looks", "a") as file:
            file.write("a person is there\\n" if account.may_ask else "x\\n")
        with open(account.home + "/quota.json") as file:
            told = json.load(file)
        if "sleep" in told:
            time.sleep(told["sleep"])
        if "fails" in told:
            raise RuntimeError(told["fails"])
        rows = tuple(
            Window(id=name, kind="session" if name == "five_hour" else "weekly", remaining=left, resets_at=told.get("resets_at"))
            for name, left in told.get("windows", {}).items()
        )
        status = told.get("status", "fresh")
        named = told.get("account", "")
        return QuotaReading(
            status=status, windows=rows, observed_at=time.time(), reason=told.get("reason", ""), account=named
        )

class Toy:
    name = "toy"
    def usable(self):
        return None
    def launch(self, job):
        raise NotImplementedError
    def reader(self, job):
        raise NotImplementedError
    def account_spec(self):
        return AccountSpec(
            binary="true",
            homes=("TOY_HOME",),
            credentials=(CredentialPlace(store="file", name="login.json", tokens=(("token",),)),),
        )
    def identity(self, account, deadline):
        with open(account.home + "/login.json") as file:
            return json.load(file).get("account")
    def own_accounts(self, base_home, desktop_file):
        with open(base_home + "/own.json") as file:
            return [json.load(file)["account"]]
    def quota_readers(self, account):
        return [Numbers()]

@hookimpl
def fleet_providers():
    yield Toy()
"""


def registry_text(root: Path, profiles: Mapping[str, Mapping[str, Any]], **settings: Any) -> str:
    """A registry of the provider `toy`, all homes below `root`."""
    lines = ["version = 1", "[settings]", f'state_dir = "{root}/state"', f'share_dir = "{root}/share"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["[providers.toy]", f'trusted_projects = ["{root}/work"]']
    for label, fields in profiles.items():
        told = {"provider": "toy", "pools": ["toy-crew"], "enabled": True, **fields}
        lines += [f'[profiles."{label}"]', *(f"{key} = {json.dumps(value)}" for key, value in told.items())]
    return "\n".join(lines) + "\n"


class FakePort:
    """Accounts that are what a test says; `looks` counts how often each was looked at."""

    def __init__(self, **left: float) -> None:
        self.left: dict[str, Any] = dict(left)
        self.accounts: dict[str, str] = {}
        self.stamps: dict[str, str] = {}
        self.looks: list[str] = []
        self.delay = 0.0
        self.own_logins: tuple[str, ...] = ()

    def readiness(self, profile: Profile) -> Readiness:
        return Readiness(provisioned=True, stamp=self.stamps.get(profile.id, "s"))

    def own(self, provider: str) -> tuple[str, ...]:
        del provider
        return self.own_logins

    def look(self, profile: Profile, deadline: float) -> Seen:
        del deadline
        self.looks.append(profile.id)
        time.sleep(self.delay)
        left = self.left[profile.id]
        if isinstance(left, BaseException):
            raise left
        reading = left if isinstance(left, QuotaReading) else fresh(left)
        return Seen(reading=reading, account=self.accounts.get(profile.id, profile.id), credential="present")


def fresh(left: float, **more: Any) -> QuotaReading:
    windows = (Window(id="five_hour", kind="session", remaining=left, **more),)
    return QuotaReading(status="fresh", windows=windows, observed_at=time.time(), source="fake")


class Desk:
    """The core of accounts in this process, with a fake port and every profile's identity adopted."""

    def __init__(self, root: Path, port: FakePort, profiles: Mapping[str, Mapping[str, Any]], **settings: Any) -> None:
        self.root = root
        self.work = work_tree(root / "work")
        self.file = root / "accounts.toml"
        self.file.write_text(registry_text(root, profiles, **settings), encoding="utf-8")
        self.file.chmod(0o600)
        self.port = port
        self.registrar = Registrar(str(self.file), {"HOME": str(root)})
        self.vault = Vault(str(root / "state"))
        self.router = Router(self.registrar, self.vault, port)
        salt = salt_of(self.vault)
        for profile in self.registrar.load().workers():
            account = port.accounts.get(profile.id, profile.id)
            Pins(self.vault).adopt(profile, fingerprint(salt, profile.provider, account))

    def request(self, task: str = "t", **more: Any) -> Request:
        return Request(**{"task": task, "pool": "toy-crew", "workspace": str(self.work), **more})

    def prove(self, *labels: str, left: float = 50.0, age: float = 0.0) -> None:
        """Keep a proof of each profile as if it had been looked at `age` seconds ago."""
        salt = salt_of(self.vault)
        at = time.time() - age
        for label in labels:
            Proofs(self.vault).write(
                Proof(
                    profile=label,
                    provider="toy",
                    status="fresh",
                    made_at=at,
                    observed_at=at,
                    windows=(Window(id="five_hour", kind="session", remaining=left),),
                    fingerprint=fingerprint(salt, "toy", label),
                    stamp="s",
                    credential="present",
                )
            )


def work_tree(directory: Path) -> Path:
    """A git work tree with one commit, so that others can be linked to it."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q")
    git(directory, "commit", "-q", "--allow-empty", "-m", "first")
    return directory


class Machine(Project):
    """A person's machine whose `fleet` has the provider `toy`, driven by the real command line."""

    server: FleetServer | None = None

    def __init__(self, root: Path, profiles: Mapping[str, Mapping[str, Any]], **settings: Any) -> None:
        super().__init__(work_tree(root / "work"), home=root / "home")
        self.site = root / "site"
        install(self.site, "toy", modules={"toy.py": TOY}, entry_points={"agent_fleet.providers": {"toy": "toy"}})
        self.top = root
        self.file = root / "accounts.toml"
        self.file.write_text(registry_text(root, profiles, **settings), encoding="utf-8")
        self.file.chmod(0o600)
        self.kept = root / "state"

    def environment(self, **more: str) -> dict[str, str]:
        found = super().environment()
        path = f"{self.site}{os.pathsep}{found['PYTHONPATH']}"
        return {**found, "PYTHONPATH": path, "AGENT_FLEET_CONFIG": str(self.file), **more}

    def fleet(self, *arguments: str, env: Mapping[str, str] | None = None, **settings: Any) -> Answer:
        if self.server is None or settings:
            return super().fleet(*arguments, env=env, **settings)
        return self.server.run(arguments, cwd=self.root, env=self.environment(**(env or {})))

    def home_of(self, label: str) -> Path:
        return self.top / "share" / "accounts" / "toy" / label

    def login(self, label: str, account: str, *, left: float = 50.0, **told: Any) -> None:
        """Log an account in, with so much left of its five hours."""
        login = self.home_of(label) / "login.json"
        if not login.exists() or json.loads(login.read_text())["account"] != account:
            login.write_text(json.dumps({"token": "planted-login", "account": account}))
            login.chmod(0o600)
        self.tell(label, left=left, **told)

    def tell(self, label: str, *, left: float = 50.0, **told: Any) -> None:
        """What the provider says is left."""
        text = json.dumps({"windows": {"five_hour": left}, **told})
        (self.home_of(label) / "quota.json").write_text(text)

    def looks(self, label: str) -> int:
        """How often the provider was asked."""
        path = self.home_of(label) / "looks"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def forget(self, *labels: str) -> None:
        """Lose what was seen of these accounts."""
        for label in labels:
            (self.kept / "quota" / f"{label}.json").unlink(missing_ok=True)

    def choose(self, task: str, *more: str, status: int = 0) -> dict[str, Any]:
        arguments = ("--task", task, "--pool", "toy-crew", "--workspace", str(self.root), *more)
        return self.json("lease", "choose", *arguments, status=status)

    def told(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        return self.json(*arguments, status=status)

    def tree(self) -> dict[str, bytes]:
        """Every file of state and homes, but for locks and what was seen of the accounts."""
        found = {}
        for top in (self.kept, self.top / "share", self.file):
            for path in [top] if top.is_file() else sorted(top.rglob("*")):
                name = str(path.relative_to(self.top))
                if path.is_file() and not name.startswith(("state/locks", "state/quota")) and path.name != "looks":
                    found[name] = path.read_bytes()
        return found


def ready(machine: Machine, **left: float) -> Machine:
    """Homes made, somebody else logged in to each, adopted: all of them can work."""
    machine.json("profile", "provision", "--all")
    for label, each in left.items():
        machine.login(label, f"{label}@example.com", left=each)
    enabled = machine.file.read_text()
    machine.file.write_text(enabled.replace("enabled = true", "enabled = false"))
    machine.json("profile", "identity", "adopt", next(iter(left)))
    machine.file.write_text(enabled)
    return machine


def clock(**more: Any) -> Clock:
    """The clock as it is, with parts of it set."""
    now = Clock.read()
    return Clock(**{"now": now.now, "uptime": now.uptime, "boot": now.boot, "host": now.host, **more})


def pin_of(profile: Profile, digits: str) -> Pin:
    return Pin(profile=profile.id, provider=profile.provider, home=profile.home, fingerprint=digits, adopted=0.0)


def eligible(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [row["profile"] for row in rows if row["eligible"]]


__all__ = ["Answer", "Desk", "FakePort", "Machine", "clock", "eligible", "fresh", "pin_of", "ready", "registry_text"]
