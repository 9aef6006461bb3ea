"""A client of the HTTP API that costs little, so that it measures the API and not itself.

By http.client: on two shared cores it sends 5,000 to 10,000 requests a second where httpx sends 400
(asyncio) to 1,200 (threads).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from jobs.errors import ChronosError

PAGE: Final = 5000
# Servers close idle connections; a request that meets one which is just being closed fails.
_REUSE_SECONDS: Final = 2.0
_NEXT: Final = re.compile(r'<[^>?]*\?([^>]*)>; rel="next"')


class LoadError(ChronosError):
    """The load test cannot be made. The text says what to do."""

    code = "load"


class NoAnswer(LoadError):
    """The API did not answer one request. `reason` is the same for requests of the same fate."""

    code = "no_answer"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} does not answer ({reason}). Is the API running there?")
        self.reason = f"no answer ({reason})"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    status: int
    body: bytes
    link: str

    @property
    def problem(self) -> str:
        """The error sentence, or the status where there is none."""
        try:
            return f"{self.status} {json.loads(self.body)['error']}"
        except (ValueError, KeyError, TypeError):
            return str(self.status)


class Api:
    """Keep-alive connections to one API. Safe to share between threads.

    Args:
        url: such as `http://127.0.0.1:8080`.
        timeout: seconds that one answer may take.

    Raises:
        LoadError: the URL cannot be used.
    """

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        try:
            is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise LoadError(f"--url must be like http://127.0.0.1:8080, not {url!r}")
        self.url = url
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        # The one that was used last is taken first: the others may rest and be closed.
        self._idle: list[tuple[float, HTTPConnection]] = []

    def post(self, path: str, document: Any) -> Answer:
        """Send a JSON document.

        Raises:
            NoAnswer: whether it arrived is unknown.
        """
        return self._request("POST", path, json.dumps(document).encode())

    def jobs(self, tenant: str, **query: Any) -> list[dict[str, Any]]:
        """One page of a tenant's jobs.

        Raises:
            LoadError: the API did not answer, or refused.
        """
        jobs, _ = self._page(urlencode({"tenantId": tenant, **query}))
        return jobs

    def all_jobs(self, tenant: str) -> Iterator[dict[str, Any]]:
        """Every job of a tenant, page by page. Raises as `jobs` does."""
        query: str | None = urlencode({"tenantId": tenant, "limit": PAGE})
        while query is not None:
            page, query = self._page(query)
            yield from page

    def close(self) -> None:
        """Close the connections that rest."""
        for _, connection in self._idle:
            connection.close()

    def _page(self, query: str) -> tuple[list[dict[str, Any]], str | None]:
        answer = self._request("GET", f"/jobs?{query}", None)
        if answer.status != 200:
            raise LoadError(f"{self.url} refused to list the jobs: {answer.problem}")
        following = _NEXT.search(answer.link)
        return json.loads(answer.body), following and following[1]

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = self._connection()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.read(), response.getheader("Link", ""))
        except (OSError, HTTPException) as exc:
            connection.close()
            reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
            raise NoAnswer(self.url, reason) from exc
        self._idle.append((time.monotonic(), connection))
        return answer

    def _connection(self) -> HTTPConnection:
        try:
            used_at, connection = self._idle.pop()
        except IndexError:
            return self._kind(self._host, self._port, timeout=self._timeout)
        if time.monotonic() - used_at > _REUSE_SECONDS:
            # It opens again by itself.
            connection.close()
        return connection
