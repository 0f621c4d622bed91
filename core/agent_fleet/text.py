"""Text from outside, made safe to show: no control characters reach a terminal, no line runs away. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters (escape sequences, bidirectional overrides) shown as escapes; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or _is_safe(c) else c.encode("unicode_escape").decode() for c in text)


def line(text: str, width: int = 100) -> str:
    """The text as one printable line of at most `width` characters, marked where it was cut."""
    flat = " ".join(text.split())
    if len(flat) > width:
        flat = flat[: width - 1] + "…"
    return printable(flat)


def _is_safe(c: str) -> bool:
    return c.isprintable() and not "\ud800" <= c <= "\udfff"


def count(number: int, noun: str) -> str:
    """A number of things for people: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """A length of time for people: `0.4 s`, `40 s`, `3 min`, `2 h 5 min`, `3 d`."""
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(amount: float) -> str:
    """A number of bytes for people, in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
