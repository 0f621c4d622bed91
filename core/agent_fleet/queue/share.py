"""The share of the queue that one worker may claim: which needs, with which wishes. The driver makes it, `fleet claim` keeps to it.

A share is a set of tracks without their priority, written as `need/lane/provider` with `-` for no wish and `*` for any lane:
`agent/-/claude agent/subagent/-`. With `run=d2` it is only what belongs to that deployment, with `pool=-` and `pool=work` only what
wishes for no pool of accounts or for that one.
"""

from __future__ import annotations

from typing import NamedTuple

from agent_fleet.queue import names

NONE = "-"
ANY = "*"
RUN = "run="
POOL = "pool="


class Share(NamedTuple):
    """The tracks as (need, lane wish, provider wish); no wish is an empty text, `*` any lane. `run` is the one deployment that
    it is for, if it is. `pools` are the wishes for accounts that its worker can meet, None where nobody said.
    """

    tracks: frozenset[tuple[str, str, str]]
    run: str = ""
    pools: frozenset[str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether a task's track alone does not tell that it is in the share."""
        return bool(self.run) or self.pools is not None

    def wanted(self, _priority: int, need: str, lane: str, provider: str) -> bool:
        """Whether a worker with this share may claim from this track."""
        return (need, lane, provider) in self.tracks or (need, ANY, provider) in self.tracks

    def __str__(self) -> str:
        words = ["/".join(part or NONE for part in track) for track in sorted(self.tracks)]
        words += [RUN + self.run] if self.run else []
        return " ".join([*words, *(POOL + (pool or NONE) for pool in sorted(self.pools or ()))])


def parse(text: str) -> Share:
    """The share in a text; words that mean nothing give no right to anything."""
    found = set()
    run = ""
    pools: set[str] = set()
    for word in text.split():
        if word.startswith(POOL):
            pool = word.removeprefix(POOL)
            pools.add("" if pool == NONE else pool)
            continue
        if word.startswith(RUN):
            run = word.removeprefix(RUN)
            continue
        need, _, rest = word.partition("/")
        lane, _, provider = rest.partition("/")
        if need in names.NEEDS and lane and provider:
            found.add((need, "" if lane == NONE else lane, "" if provider == NONE else provider))
    return Share(frozenset(found), run, frozenset(pools) or None)
