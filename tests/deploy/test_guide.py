"""The guide to deployments: its commands are run as they stand there, on a local site, by a worker that reads the pages."""

from __future__ import annotations

import json
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.project import git, repository
from support.runs import Site

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
READER = """
import json, sys, urllib.request
for line in sys.stdin.read().splitlines():
    if not line.startswith('{"item": "i'):
        continue
    told = json.loads(line)
    if "://" not in told["value"]:
        print(json.dumps({"item": told["item"], "value": "a file"}))
        continue
    try:
        with urllib.request.urlopen(told["value"]) as page:
            print(json.dumps({"item": told["item"], "value": {"summary": page.read().decode(), "topic": "news"}}))
    except OSError as error:
        print(json.dumps({"item": told["item"], "failed": "unreachable", "why": str(error)}))
"""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        missing = self.path.endswith("/9")
        self.send_response(404 if missing else 200)
        self.end_headers()
        self.wfile.write(b"" if missing else f"page {self.path}".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    argv = json.dumps([sys.executable, "-I", "-S", "-c", READER])
    site.configure(f'[providers]\ndefault = "reader"\n[agents.reader]\nargv = {argv}\n')
    return site


def commands(heading: str) -> list[list[str]]:
    """The commands of fleet below a heading of the guide, but for those that need something installed or set."""
    part = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [shlex.split(line)[1:] for line in re.findall(r"^\$ (fleet .*)$", part, flags=re.MULTILINE)]


def test_a_list_of_addresses_becomes_a_report(site: Site, address: str) -> None:
    (site.root / "urls.txt").write_text("".join(f"{address}/{n}\n" for n in range(20)))
    (site.root / "page.json").write_text(GUIDE.split("```json\n")[1].split("```")[0])
    estimate, start, *rest = commands("A thousand addresses to a report")
    assert site.fleet(*estimate).out.endswith("nothing was started\n")
    assert not (site.dir / "deployments").exists()

    report = site.json(*start, "--parts", "4", "--force", "--stagger", "0", status=1)
    assert report["coverage"] | {"open": {}} == {
        "asked": 20,
        "answered": 19,
        "failed": {"unreachable": 1},
        "skipped": 0,
        "open": {},
        "whole": False,
    }
    assert report["items"][3]["value"] == {"summary": "page /3", "topic": "news"}
    *after, show, clean = rest
    assert [site.fleet(*words).status for words in after] == [1, 1, 0, 0, 1]
    assert "failed (unreachable)" in site.fleet("report", "d1").out
    assert "would be removed: deployment" in site.fleet(*show).out
    assert "removed: deployment" in site.fleet(*clean).out
    assert site.fleet("report", "d1").status == 4


def test_a_codebase_is_read_file_by_file(site: Site) -> None:
    repository(site.root)
    (site.root / "src").mkdir()
    (site.root / "src" / "a.py").write_text("x = 1\n")
    git(site.root, "add", "src")
    (command,) = commands("A codebase")
    report = site.json(*command, "--force", "--stagger", "0")
    assert [item["input"] for item in report["items"]] == ["README", "src/a.py"]
