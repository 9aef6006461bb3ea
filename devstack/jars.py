"""Apache Kafka's jars: fetched once into the home directory. `make setup` runs this module."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import jgo
from jgo.constants import default_maven_repo
from jgo.maven import PythonResolver

from devstack.process import DevstackError

JARS: Final = "org.apache.kafka:kafka_2.13:4.3.1+org.slf4j:slf4j-simple:1.7.36"
COUNT: Final = 46
MEGABYTES: Final = 44


def kafka_jars(say: Callable[[str], None]) -> list[Path]:
    """Every jar that Kafka's class path needs, downloaded when they are not there yet.

    Args:
        say: called with a line for the person who waits for the download.

    Raises:
        DevstackError: they cannot be fetched or kept. The text names the variables that help.
    """
    try:
        jars = _build(say, update=False)
        # An interrupted download leaves a part of a jar behind that is never fetched again.
        if damaged := [jar for jar in jars if not zipfile.is_zipfile(jar)]:
            for jar in damaged:
                for copy in default_maven_repo().rglob(jar.name):
                    copy.unlink()
            jars = _build(say, update=True)
    except (OSError, RuntimeError) as exc:
        reason = str(exc).partition(" (Caused by")[0]
        raise DevstackError(
            f"Kafka's jars cannot be fetched into {default_maven_repo()} ({reason}). Set "
            "KAFKA_HOME to a Kafka installation, or KAFKA_BROKERS to a running Kafka."
        ) from exc
    return jars


def _build(say: Callable[[str], None], *, update: bool) -> list[Path]:
    fetched = 0

    @contextmanager
    def progress(name: str, size: int) -> Iterator[Callable[[int], None]]:
        nonlocal fetched
        yield lambda count: None
        if name.endswith(".jar"):
            fetched += 1
            say(f"Apache Kafka: jar {fetched} of {COUNT}, {name}, {size >> 10} KiB")
        elif name.startswith("kafka_"):
            say(f"Apache Kafka: looking up {COUNT} jars, {MEGABYTES} MB, to be fetched once")

    environment = jgo.build(
        JARS, update=update, resolver=PythonResolver(progress_callback=progress)
    )
    return sorted(environment.path.rglob("*.jar"))


if __name__ == "__main__":
    try:
        kafka_jars(lambda line: print(line, flush=True))  # noqa: T201
    except DevstackError as problem:
        sys.exit(str(problem))
