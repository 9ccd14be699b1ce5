"""A web page of the tests' own, on a local server, to which it reports whatever changes in it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("page.html")
TITLE = "Page under test"


class WebPage:
    """The page's address, and what it has reported: the latest value by the name of a control."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.state: dict[str, Any] = {}

    def shows(self, **wanted: Any) -> Callable[[], bool]:
        """A check that the page has reported these values last."""
        return lambda: all(self.state.get(key.replace("_", " ")) == value for key, value in wanted.items())


@contextmanager
def web_page() -> Iterator[WebPage]:
    """Serve the page on a free port of this machine."""
    content = PAGE.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.startswith("/page")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if found:
                self.wfile.write(content)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            page.state |= json.loads(body)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page = WebPage(f"http://127.0.0.1:{server.server_port}/page")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()
