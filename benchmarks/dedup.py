"""Finding what is said twice among many answers, beside semhash and datasketch, in one run.

    python benchmarks/dedup.py [--size 10000] [--write benchmarks/README.md]

Times are of the processor, of all threads, and told as ratios to semhash: the machine may be busy.

It makes an environment of its own below `benchmarks/.envs` with this checkout and both libraries. semhash is given our vectors, so
that it needs no network and the two differ by what they do with them. The answers are made from a seed: six sentence patterns
about different files, lines and numbers, and for four in ten of them a second form by other formatting. Two that differ in a
fact are never the same, so a pair that is put together wrongly is known.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENV = ROOT / "benchmarks" / ".envs" / "dedup"
PATTERNS = (
    "The function {name} in {path} leaks {number} bytes on every call because the buffer is never freed.",
    "Line {number} of {path} reads past the end of the array when {name} is empty.",
    "All {number} tests of {path} pass after the change to {name}.",
    "{path} imports {name} but never uses it, see line {number}.",
    "The option {name} in {path} is ignored for values above {number}.",
    "Reading {path} takes {number} ms, most of it in {name}.",
)
MARKS = ("<!-- dedup figures -->", "<!-- end of dedup figures -->")


def answers(size: int) -> list[tuple[str, int]]:
    """Texts, each with the number of what it says."""
    chance = random.Random(7)
    made: list[tuple[str, int]] = []
    while len(made) < size:
        fact = len(made)
        values = {"name": f"load_{fact}", "path": f"src/part{fact % 97}/file{fact}.py", "number": str(1000 + fact)}
        text = chance.choice(PATTERNS).format(**values)
        made.append((text, fact))
        if chance.random() < 0.4:
            made.append((f"- **Finding:** {text.rstrip('.')}", fact))
    chance.shuffle(made)
    return made[:size]


def ours(texts: Sequence[str], vectors: bool, meaning: bool = False) -> list[int]:
    from agent_fleet.aggregate.duplicates import Sample, group
    from agent_fleet.aggregate.likeness import BY_MEANING, Bounds
    from agent_fleet_embedders.wordllama import WordLlama

    samples = [Sample(f"{place:06}", text) for place, text in enumerate(texts)]
    return list(group(samples, BY_MEANING if meaning else Bounds(), WordLlama() if vectors else None).first)


def semhash(texts: Sequence[str]) -> list[int]:
    from semhash import SemHash  # type: ignore[import-not-found]  # only in the environment of this benchmark

    from agent_fleet_embedders.wordllama import WordLlama

    class Encoder:
        def encode(self, inputs: Sequence[str], **_: Any) -> Any:
            return embedder.embed(inputs)

    embedder = WordLlama()
    records = [{"text": text, "id": str(place)} for place, text in enumerate(texts)]
    found = SemHash.from_records(records, model=Encoder(), columns=["text"]).self_deduplicate(threshold=0.95)
    first = list(range(len(texts)))
    for each in found.filtered:
        if each.duplicate_of is not None:
            first[int(each.record["id"])] = int(each.duplicate_of["id"])
    return first


def datasketch(texts: Sequence[str]) -> list[int]:
    from datasketch import MinHash, MinHashLSH  # type: ignore[import-not-found]  # only in the environment of this benchmark

    index = MinHashLSH(threshold=0.8, num_perm=128)
    first = []
    for place, text in enumerate(texts):
        sketch = MinHash(num_perm=128)
        low = re.sub(r"\W+", " ", text.lower())
        sketch.update_batch([low[start : start + 5].encode() for start in range(max(1, len(low) - 4))])
        near = index.query(sketch)
        first.append(min(near) if near else place)
        index.insert(place, sketch)
    return first


def figures(first: Sequence[int], facts: Sequence[int]) -> tuple[float, float]:
    """The share of links that are right, and the share of what could be linked that was."""
    links = [(place, other) for place, other in enumerate(first) if place != other]
    right = sum(facts[place] == facts[other] for place, other in links)
    possible = sum(count - 1 for count in Counter(facts).values())
    return (right / len(links) if links else 1.0), right / possible


def measured(size: int) -> str:
    made = answers(size)
    texts, facts = [text for text, _ in made], [fact for _, fact in made]
    tools: list[tuple[str, Callable[[], list[int]]]] = [
        ("semhash, with wordllama at 0.95", lambda: semhash(texts)),
        ("ours, by words", lambda: ours(texts, False)),
        ("ours, by words, with wordllama", lambda: ours(texts, True)),
        ("ours, by meaning, with wordllama", lambda: ours(texts, True, True)),
        ("datasketch MinHash LSH at 0.8", lambda: datasketch(texts)),
    ]
    day = datetime.datetime.now(datetime.UTC).date()
    head = f"{day}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}; {size:,} answers."
    rows = [head, "", "| what | time / semhash | seconds | links that are right | found |", "|---|---:|---:|---:|---:|"]
    peer = 0.0
    for name, run in tools:
        start = time.process_time()
        first = run()
        seconds = time.process_time() - start
        peer = peer or seconds
        precision, recall = figures(first, facts)
        rows.append(f"| {name} | {seconds / peer:.2f} | {seconds:.1f} | {precision:.3f} | {recall:.3f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        python = ENV / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(ENV)], check=True)
            wanted = ["semhash", "datasketch", "-e", f"{ROOT}[dedup]"]
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        sys.exit(subprocess.run([str(python), __file__, "--inside", *sys.argv[1:]], check=False).returncode)
    text = measured(options.size)
    print(text)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        options.write.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
