"""Which task works on which profile: one file a task. A lease ends when it is released or its process is gone.

A reservation lasts as long as the registry says since it was last asked for, by a clock that nobody sets; one of an earlier
boot of this machine is over. A running lease counts until its process is provably gone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent_fleet import identity
from agent_fleet.accounts import vault as vaults
from agent_fleet.accounts.stored import check_schema, iso, key_of, moment, number, seconds, texts
from agent_fleet.accounts.values import Lease
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError

DIRECTORY = "leases"
_TEXTS = ("task", "profile", "provider", "pool", "workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What time it is for a reservation: `now` can be set by anybody, `uptime` of this `boot` of the machine `host` cannot."""

    now: float
    uptime: float
    boot: str
    host: str = ""

    @classmethod
    def read(cls) -> Clock:
        return cls(now=time.time(), uptime=vaults.uptime(), boot=vaults.boot(), host=socket.gethostname())


def reserve(like: Lease, clock: Clock) -> Lease:
    """The same lease as a reservation that begins its time now."""
    return replace(
        like,
        state="reserved",
        renewed=clock.now,
        renewed_uptime=clock.uptime,
        boot=clock.boot,
        pid=None,
        process_start="",
        identity="",
        bound=None,
        hostname=socket.gethostname(),
    )


def bind(lease: Lease, clock: Clock, pid: int) -> Lease:
    """The lease of exactly this process from now on. Raises FleetError if the process is not there."""
    who = identity.identity_of(pid)
    start, boot = who.split(":")[1:3]
    return replace(
        lease,
        state="running",
        pid=pid,
        process_start=f"{start}@{boot}",
        identity=who,
        bound=clock.now,
        hostname=socket.gethostname(),
    )


def is_active(lease: Lease, clock: Clock, grace: float) -> bool:
    """Whether the lease counts: a reservation within its time, or a process that is not provably gone."""
    if lease.state == "running":
        return is_running(lease)
    if lease.boot and lease.boot == clock.boot:
        return 0 <= clock.uptime - lease.renewed_uptime <= grace
    if lease.boot and clock.boot and lease.hostname == clock.host:
        return False
    # another machine with this state directory, or a program that knows the wall clock alone: a time that has not come yet was
    # set by a clock gone wrong
    return -grace <= clock.now - lease.renewed <= grace


def is_running(lease: Lease) -> bool:
    """Whether its process may still run; what cannot be told counts as running."""
    if lease.state != "running" or lease.pid is None:
        return False
    if lease.identity:
        return identity.is_alive(lease.identity) is not False
    return not _is_gone(lease.pid)


def _is_gone(pid: int) -> bool:
    """Whether no process has this number. Who it is cannot be told from another program's words for a start time."""
    if identity.LINUX and (found := identity.read_stat(pid)) is not None:
        return found.gone
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


def record(lease: Lease) -> dict[str, Any]:
    """The lease as a file and as an answer."""
    return {
        "schema": 2,
        "task": lease.task,
        "profile": lease.profile,
        "provider": lease.provider,
        "pool": lease.pool,
        "workspace": lease.workspace,
        "state": lease.state,
        "pid": lease.pid,
        "process_start": lease.process_start or None,
        "hostname": lease.hostname,
        "created_at": iso(lease.created),
        "created_unix": lease.created,
        "bound_at": None if lease.bound is None else iso(lease.bound),
        "renewed_unix": lease.renewed,
        "renewed_uptime": lease.renewed_uptime,
        "boot": lease.boot,
        "identity": lease.identity or None,
    }


def parse(found: Mapping[str, Any], stem: str) -> Lease:
    """A stored lease; `stem` is the name of its file. Raises BadFileError."""
    check_schema(found, 2)
    words = texts(found, *_TEXTS)
    if key_of(words["task"]) != stem:
        raise BadFileError("it is the lease of another task than its name says")
    if words["workspace"] != os.path.normpath(words["workspace"]) or not os.path.isabs(words["workspace"]):
        raise BadFileError("workspace is no plain absolute path")
    seconds(found.get("created_at"), "created_at")
    created = moment(found.get("created_unix"), "created_unix")
    state = _state(found)
    is_bound = state == "running"
    return Lease(
        **words,
        state=state,
        created=created,
        renewed=moment(found.get("renewed_unix", created), "renewed_unix"),
        renewed_uptime=number(found.get("renewed_uptime", 0.0), "renewed_uptime"),
        boot=_text(found, "boot"),
        pid=found["pid"] if is_bound else None,
        process_start=found["process_start"] if is_bound else "",
        bound=seconds(found.get("bound_at"), "bound_at") if is_bound else None,
        hostname=_text(found, "hostname"),
        identity=_text(found, "identity"),
    )


def _state(found: Mapping[str, Any]) -> Literal["reserved", "running"]:
    state, pid, start = found.get("state"), found.get("pid"), found.get("process_start")
    if state == "reserved":
        if pid is not None or start is not None or found.get("bound_at") is not None:
            raise BadFileError("it is a reservation and names a process")
        return "reserved"
    if state != "running":
        raise BadFileError("its state is neither reserved nor running")
    if isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid < 2**31:
        raise BadFileError("pid is no process number")
    if not isinstance(start, str) or not start:
        raise BadFileError("process_start is no text")
    return "running"


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadFileError(f"{name} is no text")
    return value


class Leases:
    """All leases of one vault. Whoever writes holds the state lock."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def of(self, task: str) -> Lease | None:
        """The task's lease, whether it counts or not; None if there is none that can be read."""
        return self._one(key_of(task))

    def active(self, clock: Clock, grace: float, *, sweep: bool = False) -> list[Lease]:
        """Those that count, in the order of their files; `sweep` takes the others away and sets bad files aside."""
        kept = []
        if sweep:
            self.vault.sweep(DIRECTORY)
        for stem in self.vault.names(DIRECTORY):
            lease = self._one(stem, set_aside=sweep)
            if lease is None:
                continue
            if is_active(lease, clock, grace):
                kept.append(lease)
            elif sweep:
                self.vault.remove(DIRECTORY, f"{stem}.json", durable=False)
        return kept

    def write(self, lease: Lease) -> None:
        """Whole or not at all, and not synced: no lease outlives its boot, and a sync takes longer than all else."""
        self.vault.write((DIRECTORY, f"{key_of(lease.task)}.json"), record(lease), durable=False)

    def remove(self, task: str) -> bool:
        return self.vault.remove(DIRECTORY, f"{key_of(task)}.json", durable=False)

    def repair(self, task: str) -> bool:
        """Set the task's file aside if it cannot be read; whether there was such a file."""
        before = len(self.vault.notices)
        self._one(key_of(task), set_aside=True)
        return len(self.vault.notices) > before

    def _one(self, stem: str, *, set_aside: bool = False) -> Lease | None:
        place = (DIRECTORY, f"{stem}.json")
        try:
            found = self.vault.read(*place)
            return None if found is None else parse(found, stem)
        except BadFileError as error:
            (self.vault.set_aside if set_aside else self.vault.note)(place, str(error))
            return None
