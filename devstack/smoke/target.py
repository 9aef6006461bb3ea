"""An HTTP server for the smoke test to deliver to: it answers as each path asks."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

FAILURES: Final = 2
"""Requests of each job to `/flaky` that are answered with 503 first."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


class Target:
    """A server on loopback, on a port of its own.

    `/ok` answers 200, `/gone` 410, and `/flaky` two times 503 before it answers 200.
    """

    def __init__(self) -> None:
        self.received: dict[str, list[Received]] = defaultdict(list)
        """By the job's id (`Idempotency-Key`)."""
        self._lock = threading.Lock()
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = target._receive(Received(self.path, dict(self.headers.items()), body))
                answer = f'{{"answered": {code}}}'.encode()
                self.send_response(code)
                if code == 503:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            # A bulk connects all at once.
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _receive(self, request: Received) -> int:
        with self._lock:
            earlier = self.received[request.headers.get("Idempotency-Key", "")]
            earlier.append(request)
            match request.path:
                case "/ok":
                    return 200
                case "/flaky":
                    return 503 if len(earlier) <= FAILURES else 200
                case "/gone":
                    return 410
                case _:
                    return 404

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
