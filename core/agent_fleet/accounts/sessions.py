"""Which conversation a task has with which account: one file a task, told anew at every start of the session.

What is newer is decided by `session_event_seq` alone, which only grows; the time in the file is for people.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_fleet.accounts.registry import LABEL
from agent_fleet.accounts.stored import check_schema, iso, key_of, seconds, texts
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

DIRECTORY = "sessions"
_TEXTS = ("task", "profile", "provider", "pool", "workspace", "turn_end", "session_id", "updated_at")
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A task's conversation. `sequence` 0 is one of the older format, which did not count."""

    task: str
    profile: str
    provider: str
    pool: str
    workspace: str
    turn_end: str
    session_id: str
    updated: float
    sequence: int

    @property
    def binding(self) -> tuple[str, ...]:
        """All that must stay as it was when the conversation goes on."""
        return (
            self.task,
            self.profile,
            self.provider,
            self.pool,
            self.workspace,
            self.turn_end,
            self.session_id,
        )


def record(session: Session) -> dict[str, Any]:
    """The mapping as an answer: one of the older format is shown as such, with sequence 0."""
    return {
        "schema": 2 if session.sequence else 1,
        "task": session.task,
        "profile": session.profile,
        "provider": session.provider,
        "pool": session.pool,
        "workspace": session.workspace,
        "turn_end": session.turn_end,
        "session_id": session.session_id,
        "session_event_seq": session.sequence,
        "updated_at": iso(session.updated),
    }


def parse(found: Mapping[str, Any], stem: str) -> Session:
    """A stored mapping of either format. Raises BadFileError."""
    schema = check_schema(found, 1, 2)
    if set(found) != {"schema", *_TEXTS, *(("session_event_seq",) if schema == 2 else ())}:
        raise BadFileError("its fields are not those of a session")
    words = texts(found, *_TEXTS)
    updated = seconds(words.pop("updated_at"), "updated_at")
    if key_of(words["task"]) != stem:
        raise BadFileError("it is the session of another task than its name says")
    for name in ("workspace", "turn_end"):
        if words[name] != os.path.normpath(words[name]) or not os.path.isabs(words[name]):
            raise BadFileError(f"{name} is no plain absolute path")
    if not os.path.basename(words["turn_end"]).endswith(".turn-ended"):
        raise BadFileError("turn_end does not end in .turn-ended")
    if not LABEL.fullmatch(words["pool"]) or not LABEL.fullmatch(words["session_id"]):
        raise BadFileError("pool or session_id is no label")
    return Session(**words, updated=updated, sequence=_sequence(found) if schema == 2 else 0)


def _sequence(found: Mapping[str, Any]) -> int:
    sequence = found["session_event_seq"]
    if isinstance(sequence, bool) or not isinstance(sequence, int) or not 1 <= sequence <= _MOST:
        raise BadFileError("session_event_seq is no number that counts")
    return sequence


class Sessions:
    """All mappings of one vault. Whoever writes holds the state lock."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def of(self, task: str) -> Session | None:
        """The task's conversation, None if none is on record. Raises FleetError (`corrupt`): a wrong one is never resumed."""
        stem = key_of(task)
        try:
            found = self.vault.read(DIRECTORY, f"{stem}.json")
            return None if found is None else parse(found, stem)
        except BadFileError as error:
            raise FleetError(
                "corrupt",
                f"the session of task {task} cannot be read: {error}",
                hint="`fleet session remove` sets the file aside; the task then begins a new conversation",
            ) from None

    def must(self, task: str) -> Session:
        """The task's conversation. Raises FleetError: `session_missing`, `corrupt`."""
        found = self.of(task)
        if found is None:
            raise FleetError(
                "session_missing",
                f"no recorded provider session for task: {task}",
                hint="a session is recorded when the provider's own start hook runs; begin the task with `fleet exec`",
            )
        return found

    def all(self) -> list[Session]:
        """Every mapping that can be read; the others are named."""
        kept = []
        for stem in self.vault.names(DIRECTORY):
            try:
                found = self.vault.read(DIRECTORY, f"{stem}.json")
                kept += [] if found is None else [parse(found, stem)]
            except BadFileError as error:
                self.vault.note((DIRECTORY, f"{stem}.json"), str(error))
        return kept

    def started(self, session: Session) -> Session:
        """Put on record that the conversation began or went on; what is stored, its sequence one higher than before.

        Raises FleetError (`session_conflict`) if the task is bound to another conversation: nothing is written then.
        """
        known = self.of(session.task)
        if known is not None and known.binding != session.binding:
            raise FleetError(
                "session_conflict",
                f"task {session.task} is already bound to another identity: session {known.session_id} on {known.profile}",
                hint="`fleet session remove` forgets the conversation on record",
            )
        stored = replace(session, sequence=(known.sequence if known else 0) + 1, updated=time.time())
        self.vault.write((DIRECTORY, f"{key_of(session.task)}.json"), record(stored))
        return stored

    def remove(self, task: str) -> Session | None:
        """Forget a task's conversation: what it was, None if its file could not be read and was set aside.

        Raises FleetError (`session_missing`).
        """
        try:
            found = self.must(task)
        except FleetError as error:
            if error.code != "corrupt":
                raise
            self.vault.set_aside((DIRECTORY, f"{key_of(task)}.json"), error.message)
            return None
        self.vault.remove(DIRECTORY, f"{key_of(task)}.json")
        return found
