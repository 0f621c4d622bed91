"""What is known of a login without any value of it: whether it is there, of which kind, and when it ends."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from typing import Any

from agent_fleet.accounts.environment import Person
from agent_fleet.accounts.keychain import Keychain, service_of
from agent_fleet.accounts.spec import AccountSpec, Credential, CredentialPlace, LoginState
from agent_fleet.accounts.windows import finite
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_bytes

MOST_BYTES = 1 << 20
_UNTIL = 32503680000.0  # the year 3000: a later end is none


def credential(
    spec: AccountSpec,
    home: str,
    who: Person,
    *,
    options: Mapping[str, Any] | None = None,
    ambient: Mapping[str, str] | None = None,
    keychain: Keychain | None = None,
) -> Credential:
    """The login of a home, looked for in each place of the spec in turn; the first that is not absent.

    A keychain is looked into only where one is given. No value leaves this function.
    """
    found = Credential(state="absent")
    for place in spec.credentials:
        if place.store == "file":
            found = _in_file(place, home)
        elif place.store == "named":
            found = _named(place, options or {}, ambient or {})
        elif keychain is not None:
            state = keychain.state(service_of(place.name, home), who.name)
            found = Credential(state=state, store="keychain", kind=place.kind, renewable=bool(place.refresh))
        if found.state != "absent":
            return found
    return found


def handed_over(spec: AccountSpec, options: Mapping[str, Any], ambient: Mapping[str, str]) -> dict[str, str]:
    """The keys that a profile names, by the variable in which the process gets them. For a launch, and nothing else.

    Raises `not_found` if a key that is named is not there, `refused` for a file that others may read.
    """
    found: dict[str, str] = {}
    for place in spec.credentials:
        if place.store == "named":
            found[place.name] = _value(options, ambient)
    return found


def _value(options: Mapping[str, Any], ambient: Mapping[str, str]) -> str:
    variable, file = options.get("key_env"), options.get("key_file")
    if bool(variable) == bool(file):
        raise FleetError("bad_config", "the profile names no key, or two", hint="give it either key_env or key_file")
    if variable:
        text = ambient.get(str(variable), "")
        if not text.strip():
            raise FleetError("not_found", f"the variable {variable} is not set", hint="set it, or name another")
    else:
        path = os.path.expanduser(str(file))
        try:
            text = read_bytes(path, MOST_BYTES, private=True).decode("utf-8")
        except (BadFileError, UnicodeDecodeError) as error:
            what = str(error) if isinstance(error, BadFileError) else "it is not UTF-8"
            raise FleetError("refused", f"{path} cannot be used: {what}", hint=f"chmod 600 {path}") from None
        except OSError as error:
            raise FleetError("not_found", f"{path}: {error.strerror}", hint="write the key there") from None
    key = text.strip()
    if not key or not key.isprintable() or not key.isascii() or " " in key:
        raise FleetError("refused", "the key is empty, or no single word", hint="write the key there and nothing else")
    return key


def _named(place: CredentialPlace, options: Mapping[str, Any], ambient: Mapping[str, str]) -> Credential:
    try:
        _value(options, ambient)
    except FleetError as error:
        state: LoginState = "absent" if error.code == "not_found" else "invalid"
        return Credential(state=state, store="named", kind=place.kind, note=error.message)
    return Credential(state="present", store="named", kind=place.kind)


def _in_file(place: CredentialPlace, home: str) -> Credential:
    def told(state: Any, note: str = "", **more: Any) -> Credential:
        return Credential(state=state, store="file", kind=place.kind, note=note, **more)

    if not home:
        return told("absent")
    try:
        data = read_bytes(os.path.join(home, place.name), MOST_BYTES, private=True)
    except (FileNotFoundError, NotADirectoryError):
        return told("absent")
    except BadFileError as error:
        return told("invalid", f"{place.name}: {error}")
    except OSError as error:
        return told("unknown", f"{place.name}: {error.strerror}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return told("invalid", f"{place.name}: it is not JSON, or cut short")
    if not any(_is_token(_at(document, path)) for path in place.tokens):
        return told("invalid", f"{place.name}: it holds no login")
    return told(
        "present",
        expires=_moment(_at(document, place.expires), place.clock) if place.expires else None,
        renewable=bool(place.refresh) and _is_token(_at(document, place.refresh)),
    )


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _moment(value: Any, clock: str) -> float | None:
    if clock == "jwt":
        value = jwt_claims(value).get("exp")
    figure = finite(value)
    if figure is None:
        return None
    moment = figure / 1000 if clock == "milliseconds" else figure
    return moment if 0 < moment < _UNTIL else None


def jwt_claims(token: Any) -> dict[str, Any]:
    """The claims of a token, unproved; empty if it is none. They say what a login is called, never that it is good."""
    parts = token.split(".") if isinstance(token, str) and len(token) < MOST_BYTES else []
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
