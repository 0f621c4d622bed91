"""A worker that answers each item of its partition by one line, and writes down whom it has worked for.

`clerk.py LEDGER [SECONDS [able]]`, the prompt on standard input. What an item says decides what becomes of it: `skip`, `fail`,
`lose` (no line the first time it is asked for), `lie` (a number where a text is wanted, the first time), `wait` (only after some
item was worked on twice). An answer that is to be checked is right if it is the input turned round. One who is `able` does all
of it.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(ledger: str, seconds: float, able: bool) -> None:
    inside = False
    said = []
    for line in sys.stdin.read().splitlines():
        if line.startswith("-----BEGIN ITEMS "):
            inside = True
        elif line.startswith("-----END ITEMS "):
            inside = False
        elif inside:
            said.append(answer(json.loads(line), ledger, able))
    time.sleep(seconds)
    print("\n".join(["Some words before.", *filter(None, said)]), flush=True)


def answer(told: dict[str, object], ledger: str, able: bool) -> str:
    item, value = told["item"], str(told["value"])
    with open(ledger, "a+", encoding="utf-8") as file:
        file.seek(0)
        again = f"{item}\n" in file.readlines()
        os.write(file.fileno(), f"{item}\n".encode())
    if able:
        return json.dumps({"item": item, "value": value[::-1]})
    if "wait" in value:
        wait(ledger)
    if "lose" in value and not again:
        return ""
    if "skip" in value:
        return json.dumps({"item": item, "skipped": "it asks for nothing"})
    if "fail" in value:
        return json.dumps({"item": item, "failed": "unreachable", "why": "no answer"})
    if isinstance(told["value"], dict) and "answer" in told["value"]:
        right = told["value"]["answer"] == str(told["value"]["input"])[::-1]
        return json.dumps({"item": item, "value": {"verdict": "right" if right else "wrong", "why": "looked at"}})
    lie = "lie" in value and not again
    return json.dumps({"item": item, "value": 7 if lie else value[::-1], "confidence": 0.9})


def wait(ledger: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with open(ledger, encoding="utf-8") as file:
            items = file.read().split()
        if len(items) > len(set(items)):
            return
        time.sleep(0.05)
    sys.exit("nothing was worked on twice")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0, "able" in sys.argv)
