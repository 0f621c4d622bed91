"""The registry as a file: read only if nobody else can have written it, changed under the lock, people's words kept."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent_fleet.accounts import registry as checked
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, make_directory, read_bytes, write_whole

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

STATE_LOCK = "state"


class Registrar:
    """The registry at one path, as it is now at every `load`."""

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        self.path = path
        self.environ = environ

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    def load(self) -> Registry:
        """Raises FleetError: `registry_missing`, `registry_unsafe` or `bad_config`."""
        return checked.parse(_parsed(self.path, self._text()), self.path, self.environ)

    def change(
        self,
        vault: Vault,
        edit: Callable[[TOMLDocument, Registry], None],
        then: Callable[[], None] = lambda: None,
    ) -> Registry:
        """Edit the document under the lock of the state, check what comes of it, and save that or nothing.

        `edit` gets the document with its comments and the registry as it is now; what it raises passes. `then` is called under
        the same lock once that is saved: it puts on record what has happened.
        """
        import tomlkit

        with vault.lock(STATE_LOCK, "the registry"):
            text = self._text()
            found = checked.parse(_parsed(self.path, text), self.path, self.environ)
            document = tomlkit.parse(text)
            edit(document, found)
            saved = self._save(document.as_string())
            then()
            return saved

    def create(self, text: str) -> Registry:
        """Write the first registry. Raises FleetError (`refused`) if there is one: it is never written over."""
        if self.is_there:
            raise FleetError(
                "refused",
                f"there is a registry already: {self.path}",
                hint="`fleet profile add` adds an account to it",
            )
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            make_directory(os.path.dirname(parent))
            os.mkdir(parent, 0o700)
        return self._save(text)

    def _save(self, text: str) -> Registry:
        found = checked.parse(_parsed(self.path, text), self.path, self.environ)
        _check_parents(self.path)
        write_whole(self.path, text.encode(), mode=0o600)
        return found

    def _text(self) -> str:
        try:
            text = read_bytes(self.path, 4 * 1024 * 1024, private=True)
        except FileNotFoundError:
            raise FleetError(
                "registry_missing",
                f"registry not found: {self.path}",
                hint="`fleet init --claude 1 --codex 1` makes one; $AGENT_FLEET_CONFIG names another place",
            ) from None
        except BadFileError as error:
            raise FleetError(
                "registry_unsafe",
                f"{self.path} must be a current-user 0600 single-link regular file: {error}",
                hint=f"look at who wrote it, then `chmod 600 {self.path}`",
            ) from None
        _check_parents(self.path)
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise FleetError("bad_config", f"{self.path} is not UTF-8", hint="convert it") from None


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise FleetError("bad_config", f"{path} is not TOML: {error}", hint="mend the file first") from None


def _check_parents(path: str) -> None:
    """Nobody else may be able to put another file in its place; that others may look at the directory is no harm."""
    directory = os.path.dirname(path)
    while True:
        found = os.stat(directory)
        mode = stat.S_IMODE(found.st_mode)
        writable = mode & 0o022 and not mode & stat.S_ISVTX
        if found.st_uid not in (0, os.getuid()) or writable:
            raise FleetError(
                "registry_unsafe",
                f"others may put another file in the place of {path}: {directory} has mode {mode:04o}",
                hint=f"look at who owns it, then `chmod go-w {directory}`",
            )
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent
