"""Ask the role of this container how it is: `python -m chronos_site.healthcheck [/readyz]`."""

from __future__ import annotations

import http.client
import sys
from typing import Final

from chronos_site import env
from chronos_site.values import asked_at

# Readiness asks two servers and gives each 2 s.
_TIMEOUT_SECONDS: Final = 5.0


def ask(path: str) -> str | None:
    """What is wrong with the role whose METRICS_HOST and METRICS_PORT these are; None: nothing.

    Args:
        path: `/healthz` or `/readyz`.

    Raises:
        ConfigError: a variable has a value that cannot be used.
    """
    values = env.read()
    role = http.client.HTTPConnection(
        asked_at(values["METRICS_HOST"]).strip("[]"),
        values["METRICS_PORT"],
        timeout=_TIMEOUT_SECONDS,
    )
    try:
        role.request("GET", path)
        answer = role.getresponse()
        text = answer.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as exc:
        return f"{path} on port {values['METRICS_PORT']}: {exc!r}"
    finally:
        role.close()
    return None if answer.status == http.client.OK else f"{path} says {answer.status}: {text}"


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1] if len(sys.argv) > 1 else "/healthz"))
