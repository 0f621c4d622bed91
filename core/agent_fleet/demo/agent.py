"""A stand-in for a coding agent: a real process that reads its prompt and does the few things that the demo asks for.

It knows no model. It finds its task between the prompt's marker lines, does it, and reports in the words that every agent
of a fleet is asked for.
"""

from __future__ import annotations

import os
import re
import sys
import time
import urllib.request

SECONDS = 0.4


def main() -> None:
    prompt = sys.stdin.read()
    verdict = re.search(r"^(FLEET-\w+) DONE$", prompt, re.M)
    mark = verdict.group(1) if verdict else "FLEET"
    time.sleep(SECONDS)
    for pattern, act in ACTIONS:
        found = re.search(pattern, prompt)
        if found:
            result, word = act(found, prompt)
            break
    else:
        result, word = "nothing in this text is known to me", "FAILED: not understood"
    sys.stdout.write(f"{result}\n{mark} {word}\n")


def read_page(found: re.Match[str], _prompt: str) -> tuple[str, str]:
    with urllib.request.urlopen(found.group(0), timeout=10) as answer:  # noqa: S310 -- the demo's own page on loopback
        page = answer.read().decode()
        title = re.search(r"<title>(.*?)</title>", page)
        return f"HTTP {answer.status}, title {title.group(1) if title else 'none'!r}, {len(page)} characters", "DONE"


def count_lines(found: re.Match[str], _prompt: str) -> tuple[str, str]:
    with open(found.group(1), encoding="utf-8") as file:
        return f"{found.group(1)} has {len(file.readlines())} lines", "DONE"


def summarise(found: re.Match[str], _prompt: str) -> tuple[str, str]:
    with open(found.group(1), encoding="utf-8") as file:
        first = file.readline().strip()
    with open("summary.txt", "w", encoding="utf-8") as file:
        file.write(f"It begins: {first}\n")
    return f"summary.txt written, {os.path.getsize('summary.txt')} bytes", "DONE"


def claim_only(_found: re.Match[str], _prompt: str) -> tuple[str, str]:
    return "The report is written and sent.", "DONE"


def order(_found: re.Match[str], prompt: str) -> tuple[str, str]:
    if "use the blue one" in prompt:
        return "ordered the blue one, as I was told", "DONE"
    return "The shop has a blue one and a red one.", "BLOCKED: needs answer: the blue one or the red one?"


ACTIONS = (
    (r"http://\S+/page/\w+", read_page),
    (r"Count the lines of (\S+)", count_lines),
    (r"Summarise (\S+)", summarise),
    (r"Write report\.txt", claim_only),
    (r"Order the cup", order),
)

if __name__ == "__main__":
    main()
