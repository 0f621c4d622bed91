"""A process that spends money under the ceilings of a project, as a host of agents does: `spender.py QUEUE BILL RUN CEILING SEED`.

What is really spent is a line of the file BILL, written when a call begins: a killed process has spent it too.
"""

from __future__ import annotations

import os
import random
import sys

from agent_fleet import identity
from agent_fleet.budget import Limits
from agent_fleet.prices import packaged
from agent_fleet.queue.store import Queue
from agent_fleet.run.holdings import Holding
from agent_fleet.run.stakes import Ask, Stakes


def spend(directory: str, bill: str, run: str, ceiling: float, seed: int) -> None:
    queue, draw, me = Queue(directory), random.Random(seed), identity.identity_of()
    stakes = Stakes(queue, packaged(), Limits(run_money=ceiling, day_money=ceiling), run)
    file = os.open(bill, os.O_WRONLY | os.O_APPEND)
    spent, task = 0.0, 1000 * (seed + 1)

    def exchange(staked: float, *wants: float) -> tuple[float, ...] | None:
        holding = Holding(kind="calls", owner=me, run=run, staked=staked, spent=spent)
        (reply,) = stakes.exchange([Ask(me, holding, wants)])
        return reply.granted if reply.granted or reply.waits or not reply.why else None

    while True:
        amount = draw.uniform(0.005, 0.02)
        granted = exchange(0.0, amount)
        if granted is None:
            break
        if not granted:
            continue
        cost = amount * draw.random()
        os.write(file, f"{cost!r}\n".encode())
        spent += cost
        exchange(0.0)
        if draw.random() < 0.3:
            task += 1
            usage = {"input": 1, "money": spent}
            queue.tell("finished", task=f"t{task}", gen=1, to="done", run=run, outcome="done", usage=usage)
            spent = 0.0
            exchange(0.0)
    queue.tell(
        "finished", task=f"t{task + 1}", gen=1, to="done", run=run, outcome="done", usage={"input": 1, "money": spent}
    )
    spent = 0.0
    exchange(0.0)


if __name__ == "__main__":
    spend(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
