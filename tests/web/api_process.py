"""The API as a process of its own, on the tests' store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chronos_site import env
from chronos_site.config import StoreConfig
from tests.processes import RoleProcess


@contextmanager
def api_process(store: StoreConfig, port: int) -> Iterator[RoleProcess]:
    """`manage.py runapi`, ready to answer; killed at the end, however that comes."""
    role = RoleProcess(
        "runapi",
        environment=env.for_child(
            DJANGO_SETTINGS_MODULE="chronos_site.settings",
            MONGO_URI=store.uri,
            MONGO_DB=store.database,
            API_PORT=str(port),
            LOG_FORMAT="text",
        ),
    )
    try:
        role.wait_ready()
        yield role
    finally:
        role.kill()
