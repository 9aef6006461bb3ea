"""The register of live processes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.repository import Repository
from jobs.repository.nodes import Node
from tests.builders import NOW
from tests.store.conftest import Documents

EXECUTOR = Node("e1", "executor", NOW, ("noop", "slow"), 16)


def test_a_process_is_alive_as_long_as_it_reports(repo: Repository) -> None:
    repo.nodes.report(EXECUTOR, now=NOW)

    assert repo.nodes.live(role="executor", seen_since=NOW) == [EXECUTOR]
    assert repo.nodes.live(role="executor", seen_since=NOW + timedelta(seconds=1)) == []
    assert repo.nodes.live(role="reaper", seen_since=NOW) == []


def test_the_newest_report_counts(repo: Repository) -> None:
    later = NOW + timedelta(seconds=2)
    repo.nodes.report(EXECUTOR, now=NOW)
    repo.nodes.report(replace(EXECUTOR, capacity=0), now=later)

    assert repo.nodes.live(role="executor", seen_since=later) == [replace(EXECUTOR, capacity=0)]


def test_a_process_that_leaves_is_forgotten(repo: Repository) -> None:
    repo.nodes.report(EXECUTOR, now=NOW)

    repo.nodes.remove("e1")
    repo.nodes.remove("never-there")

    assert repo.nodes.live(role="executor", seen_since=NOW) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity": "16"},
        {"capacity": [16]},
        {"jobTypes": "noop"},
        {"jobTypes": [["noop"]]},
        {"startedAt": None},
        {"_id": 1},
    ],
    ids=str,
)
def test_a_report_edited_by_hand_hides_no_other(
    repo: Repository, documents: Documents, changes: dict[str, Any]
) -> None:
    repo.nodes.report(EXECUTOR, now=NOW)
    nodes = documents.database["nodes"]
    (report,) = nodes.find()
    nodes.insert_one(report | {"_id": "e2"} | changes)

    assert repo.nodes.live(role="executor", seen_since=NOW) == [EXECUTOR]
