"""How MongoDB carries out the very commands that the store sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymongo import MongoClient
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

# What a command carries besides its question, and what `explain` refuses in it.
_ENVELOPE: Final = frozenset(
    {"lsid", "txnNumber", "startTransaction", "autocommit", "writeConcern", "ordered"}
)
_NO_QUESTIONS: Final = frozenset({"commitTransaction", "abortTransaction"})


class Recorder(CommandListener):
    """Remembers the commands of a client."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


@dataclass(frozen=True)
class Plan:
    """The winning plan of one command, and what carrying it out took."""

    stages: frozenset[str]
    indexes: frozenset[str]
    keys: int
    documents: int
    returned: int


class Explainer:
    """Explains what a call sends.

    Args:
        client: one whose commands `recorder` sees.
        recorder: its listener.
        database: where the store is.
    """

    def __init__(
        self, client: MongoClient[dict[str, Any]], recorder: Recorder, database: str
    ) -> None:
        self._database = client[database]
        self._recorder = recorder

    def plans(self, call: Callable[[], object]) -> list[Plan]:
        """The plans of all commands that a call sends, each as if it came again.

        A command that changes something is only explained, not repeated.
        """
        self._recorder.commands.clear()
        call()
        return [
            self._explain(question)
            for command in list(self._recorder.commands)
            if _NO_QUESTIONS.isdisjoint(command)
            for question in _questions(command)
        ]

    def _explain(self, question: Mapping[str, Any]) -> Plan:
        answer = self._database.command("explain", question, verbosity="executionStats")
        winners = list(_find(answer, "winningPlan"))
        (stats,) = _find(answer, "executionStats")
        return Plan(
            stages=frozenset(stage for plan in winners for stage in _find(plan, "stage")),
            indexes=frozenset(name for plan in winners for name in _find(plan, "indexName")),
            keys=stats["totalKeysExamined"],
            documents=stats["totalDocsExamined"],
            returned=stats["nReturned"],
        )


def _questions(command: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    bare = {
        name: value
        for name, value in command.items()
        if name not in _ENVELOPE and not name.startswith("$")
    }
    # Of a bulk, one statement at a time can be explained.
    for update in bare.pop("updates", [None]):
        yield bare if update is None else {**bare, "updates": [update]}


def _find(document: object, name: str) -> Iterator[Any]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key == name:
                yield value
            if key != "rejectedPlans":
                yield from _find(value, name)
    elif isinstance(document, list):
        for item in document:
            yield from _find(item, name)
