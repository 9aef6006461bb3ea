"""A key is used once, whoever asks for it and however many ask at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from bson import ObjectId

from jobs.errors import JobNotFound, KeyCollision
from jobs.lifecycle import job_id_for
from jobs.repository import Repository
from jobs.repository.documents import to_document
from tests.builders import a_job
from tests.store.conftest import Documents


def test_one_key_under_32_threads_gives_one_job(repo: Repository, documents: Documents) -> None:
    start = Barrier(32)

    def submit(number: int) -> bool:
        job = a_job(idempotency_key="wanted", tenant_id=f"tenant-{number}")
        start.wait()
        (stored,) = repo.jobs.insert([job])
        return stored

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(submit, range(32)))

    (document,) = documents.find()
    assert answers.count(True) == 1
    assert document["tenantId"] == f"tenant-{answers.index(True)}"


def test_a_bulk_says_of_each_job_whether_it_was_stored(repo: Repository) -> None:
    old, new, other = a_job(), a_job(), a_job()
    repo.jobs.insert([old])

    stored = repo.jobs.insert([new, old, new, other])

    assert stored == [True, False, False, True]
    assert [repo.jobs.get(job.id) for job in (old, new, other)] == [old, new, other]


def test_an_empty_bulk_is_no_error(repo: Repository) -> None:
    assert repo.jobs.insert([]) == []


def test_the_first_job_of_a_key_is_not_overwritten(repo: Repository) -> None:
    first = a_job(idempotency_key="k", priority=1)
    second = a_job(idempotency_key="k", priority=2)

    repo.jobs.insert([first])
    repo.jobs.insert([second])

    assert repo.jobs.get(first.id).priority == 1


def test_two_keys_with_one_id_are_told_apart(repo: Repository, documents: Documents) -> None:
    wanted, neighbour = a_job(), a_job()
    documents.insert_one(to_document(wanted) | {"idempotencyKey": "another"})

    with pytest.raises(KeyCollision, match=wanted.idempotency_key):
        repo.jobs.insert([neighbour, wanted])

    assert repo.jobs.find(neighbour.id) == neighbour


def test_a_collision_is_the_outcome_of_its_job_alone(
    repo: Repository, documents: Documents
) -> None:
    wanted, used, new = a_job(), a_job(), a_job()
    documents.insert_one(to_document(wanted) | {"idempotencyKey": "another"})
    repo.jobs.insert([used])

    collision, *others = repo.jobs.insert_each([wanted, used, new])

    assert isinstance(collision, KeyCollision)
    assert others == [False, True]


def test_every_field_is_read_back_as_it_was_stored(repo: Repository) -> None:
    job = a_job(payload='{"$set": {"a.b": "\\u0000"}, "": null}', tags=("a", "b"), priority=-7)

    repo.jobs.insert([job])

    assert repo.jobs.get(job.id) == job
    assert repo.jobs.find(job.id) == job


def test_an_unknown_id_is_found_by_nobody(repo: Repository) -> None:
    job_id = job_id_for("nobody's")

    assert repo.jobs.find(job_id) is None
    with pytest.raises(JobNotFound, match=str(job_id)):
        repo.jobs.get(job_id)
    with pytest.raises(JobNotFound):
        repo.jobs.read(ObjectId())
