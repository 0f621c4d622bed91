"""How long a choice of an account takes inside the process, with five accounts whose numbers are fresh.

    .venv/bin/python benchmarks/accounts.py [ROUNDS]

The choice is the whole of it: the registry and all files read, five homes looked at, the best account judged, the lease written
and put on record. No process is started.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.accounts import Desk, FakePort

LABELS = "abcde"


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        desk = Desk(Path(place), FakePort(), {label: {"max_concurrent": 10**6} for label in LABELS})
        desk.prove(*LABELS)
        numbers = iter(range(10**9))
        told = [
            ("choose and lease", lambda: desk.router.choose(desk.request(f"t{next(numbers)}"))),
            ("renew a lease", lambda: desk.router.choose(desk.request("t0"))),
            ("dry run", lambda: desk.router.would_choose(desk.request("other"))),
        ]
        for name, work in told:
            times = sorted(step(desk, work, name) for _ in range(rounds))
            print(f"{name:18} median {statistics.median(times):6.2f} ms   p95 {times[int(rounds * 0.95)]:6.2f} ms")


def step(desk: Desk, work: Callable[[], object], name: str) -> float:
    """One round; what it leased is given back outside the time that counts."""
    began = time.perf_counter()
    work()
    spent = time.perf_counter() - began
    if name == "choose and lease":
        for lease in desk.router.leases.vault.names("leases")[1:]:
            desk.vault.remove("leases", f"{lease}.json", durable=False)
    return spent * 1000


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
