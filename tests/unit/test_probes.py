"""Where a role cannot listen, the sentence names the variable to change."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from jobs.api.server import listen
from jobs.errors import ConfigError
from jobs.probes import Probes


def probes(host: str, port: int) -> None:
    Probes(host, port, lambda: (True, "ready"))


def api(host: str, port: int) -> None:
    listen(host, port, "API")


@pytest.mark.parametrize(("start", "name"), [(probes, "METRICS"), (api, "API")])
# TEST-NET-1 is no address of any machine; the last one is no name at all.
@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b"])
def test_an_unusable_host_is_named(start: Callable[[str, int], None], name: str, host: str) -> None:
    with pytest.raises(ConfigError, match=rf"listen on {host}:\d+ \(.+\)\. Set {name}_HOST to"):
        start(host, 18_080)


@pytest.mark.parametrize(("start", "name"), [(probes, "METRICS"), (api, "API")])
def test_a_taken_port_is_named(start: Callable[[str, int], None], name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"in use\)\. Set {name}_PORT to a free port"):
            start("127.0.0.1", port)
