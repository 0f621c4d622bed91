"""The registry over HTTP: all its pages, no address that may not be asked, and its last copy where it does not answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agent_fleet.deploy import registry
from agent_fleet.errors import FleetError
from support.runs import Site


class Pages(BaseHTTPRequestHandler):
    """Three servers, one a page; `/round` never ends, `/away` leads elsewhere, `/large` is too large, `/bad` no registry."""

    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        parts = urlsplit(self.path)
        page = int(parse_qs(parts.query).get("cursor", ["0"])[0])
        if parts.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://192.0.2.1/v0/servers")
            self.end_headers()
            return
        server = {"name": f"a/s{page}", "remotes": [{"type": "streamable-http", "url": f"https://s{page}.example/mcp"}]}
        told: object = {"servers": [{"server": server}], "metadata": {"nextCursor": str(page + 1)} if page < 2 else {}}
        told = {"servers": [], "metadata": {"nextCursor": "7"}} if parts.path == "/round" else told
        told = ["no registry"] if parts.path == "/bad" else told
        data = b" " * (registry.MOST_BYTES + 1) if parts.path == "/large" else json.dumps(told).encode()
        self.send_response(200)
        self.end_headers()
        try:
            self.wfile.write(data)
        except ConnectionError:
            pass

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    Pages.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with serving() as found:
        yield found


def test_all_pages_are_read_and_kept_for_a_day_and_used_for_longer_where_nothing_answers(tmp_path: Path) -> None:
    now = [1e9]

    def mirror() -> registry.Mirror:
        return registry.mirror(address, str(tmp_path), clock=lambda: now[0])

    with serving() as server:
        address = f"http://127.0.0.1:{server.server_port}/v0/servers?version=latest"
        found = mirror()
        assert [each["server"]["name"] for each in found.servers] == ["a/s0", "a/s1", "a/s2"]
        assert Pages.asked == [f"/v0/servers?version=latest{more}" for more in ("", "&cursor=1", "&cursor=2")]
        assert mirror() == found and len(Pages.asked) == 3
        now[0] += registry.FRESH + 1
        assert mirror() == found and len(Pages.asked) == 6
    now[0] += 3 * 86400
    (note,) = mirror().notes
    assert mirror().servers == found.servers
    assert "cannot be read" in note and note.endswith("its copy of 3 d 0 h ago is used")


@pytest.mark.parametrize(
    ("path", "why"),
    [("/round", "circles"), ("/away", "neither https"), ("/large", "larger than"), ("/bad", "no list of servers")],
)
def test_what_is_no_registry_is_refused_with_the_reason(
    server: ThreadingHTTPServer, tmp_path: Path, path: str, why: str
) -> None:
    with pytest.raises(FleetError, match=why) as caught:
        registry.mirror(f"http://127.0.0.1:{server.server_port}{path}", str(tmp_path))
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize(
    "address", ["http://registry.example/v0/servers", "file:///etc/passwd", "ftp://x/y", "https://"]
)
def test_only_https_and_this_machine_are_asked(tmp_path: Path, address: str) -> None:
    with pytest.raises(FleetError) as caught:
        registry.mirror(address, str(tmp_path))
    assert caught.value.code == "bad_input"


def test_a_deployment_takes_its_tools_from_there(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    site = Site(tmp_path)
    address = f"http://127.0.0.1:{server.server_port}/v0/servers"
    site.configure(f'[deploy]\nregistry = "{address}"\n[providers]\ndefault = "nobody"\n')
    words = ("deploy", "--task", "x", "--inputs", "-", "--force", "--stagger", "0")
    site.json(*words, "--tools", "s2", stdin=b"a\n", status=1)
    (order,) = (site.dir / "deployments" / "d1" / "orders").iterdir()
    assert json.loads(order.read_text())["servers"] == {"s2": {"type": "http", "url": "https://s2.example/mcp"}}
    assert "no tool server" in site.json(*words, "--tools", "s9", stdin=b"a\n", status=2)["error"]
