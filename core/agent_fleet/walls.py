"""What only a person can pass: the kinds of walls that workers meet, read from their own words. Pure.

A reason is `kind: what`. What a login, a captcha or a one-time code stands before is a host; the rest is text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

OF_A_HOST: Final = ("login required", "captcha", "2fa")
OF_TEXT: Final = ("needs answer", "needs human", "suspicious content")
OTHER: Final = "other"

_SYNONYMS: Final = (
    (r"(?:log[- _]?in|sign[- _]?in)(?:[- _](?:required|needed))?(?=\s*(?::|\.?$))", "login required"),
    (r"(?:re|h)captcha(?=\s*(?::|\.?$))", "captcha"),
    (r"(?:two|2|multi)[- _]?(?:factor|step)(?:[- _](?:authentication|verification|code))?(?=\s*(?::|\.?$))", "2fa"),
    (r"mfa(?=\s*(?::|\.?$))", "2fa"),
    (r"needs[-_](answer|human)(?=\s*:)", r"needs \1"),
    (r"suspicious[-_]content(?=\s*:)", "suspicious content"),
)
_BARE: Final = rf"({'|'.join(OF_A_HOST)})\s*\.?"
_NAMED: Final = rf"({'|'.join(OF_A_HOST)})\s*:\s*(\S+)"
_TEXT: Final = rf"({'|'.join(OF_TEXT)})\s*:\s*(.+)"
_HOST: Final = (
    r"(?:([a-z][a-z0-9+.-]*)://)?(?:[^/@\s]*@)?(\w(?:[\w.-]*\w)?)\.?(?::(\d{1,5}))?(?:[/?#]\S*)?[.,;]?"  # RFC 3986
)
_USUAL: Final = {"http": "80", "https": "443"}


class Wall(NamedTuple):
    """One wall: its kind (`other` if its words fit none), and the host or the text that it is about."""

    kind: str
    what: str

    def __str__(self) -> str:
        return self.what if self.kind == OTHER else f"{self.kind}: {self.what}"

    @property
    def key(self) -> str:
        """What is the same for all tasks behind this wall: two questions are one if only case and spaces differ."""
        return f"{self.kind}: {' '.join(self.what.split()).casefold()}"


def parse(reason: str, host: str = "") -> Wall:
    """The wall that a reason names. One of a host that is not named is taken to be of the task's own `host`."""
    text = reason.strip()
    for pattern, name in _SYNONYMS:
        text = re.sub(pattern, name, text, count=1, flags=re.I) if re.match(pattern, text, re.I) else text
    if bare := re.fullmatch(_BARE, text, re.I):
        return Wall(bare[1].lower(), host_of(host) or host.lower()) if host else Wall(OTHER, text)
    if named := re.match(_NAMED, text, re.I):
        found = host_of(named[2])
        return Wall(named[1].lower(), found) if found else Wall(OTHER, text)
    if told := re.fullmatch(_TEXT, text, re.I | re.S):
        return Wall(told[1].lower(), told[2].strip())
    return Wall(OTHER, text)


def host_of(text: str) -> str:
    """The host in an address, in lower case and ASCII, with its port unless that is the usual one; empty if it is none."""
    found = re.fullmatch(_HOST, text, re.I)
    if not found:
        return ""
    scheme, name, port = (found[1] or "").lower(), found[2].lower(), found[3]
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return ""
    if "_" in name or ".." in name:
        return ""
    return f"{name}:{port}" if port and port != _USUAL.get(scheme) else name
