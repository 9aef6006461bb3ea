"""What people do to single jobs: the moved job comes back, or None when its status forbids it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from jobs.lifecycle import Attempt, Outcome, Status, job_id_for
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

LATER: Final = NOW + timedelta(minutes=1)


def test_cancelling_a_running_job_ends_its_claim(repo: Repository) -> None:
    job = a_job(status=Status.RUNNING, claim_id="c1", claimed_by="e1", lease_until=LATER)
    repo.jobs.insert([job])

    cancelled = repo.interventions.cancel(job.id, now=LATER)

    assert cancelled == repo.jobs.get(job.id)
    assert cancelled == replace(
        job,
        status=Status.CANCELLED,
        claim_id=None,
        lease_until=None,
        finished_at=LATER,
        updated_at=LATER,
    )
    assert repo.claims.extend([(job.id, "c1")], until=LATER) == {(job.id, "c1")}


def test_redriving_gives_all_attempts_again_and_keeps_the_history(repo: Repository) -> None:
    job = a_job(
        status=Status.DLQ,
        attempts=3,
        claimed_by="e1",
        started_at=NOW,
        finished_at=NOW,
        last_error="why",
        result="1",
        history=(Attempt(3, "e1", NOW, NOW, Outcome.FAILED, "why"),),
    )
    repo.jobs.insert([job])

    redriven = repo.interventions.redrive(job.id, due_at=LATER, now=NOW)

    assert redriven == replace(
        job,
        status=Status.PENDING,
        attempts=0,
        scheduled_at=LATER,
        started_at=None,
        finished_at=None,
        result=None,
    )


def test_a_template_pauses_and_resumes_at_the_given_occurrence(repo: Repository) -> None:
    template = a_template()
    repo.jobs.insert([template])

    paused = repo.interventions.pause(template.id, now=NOW)
    assert paused == replace(template, status=Status.PAUSED, paused_by="API client", paused_at=NOW)
    resumed = repo.interventions.resume(template.id, next_at=LATER, now=LATER)

    assert resumed == replace(template, scheduled_at=LATER, updated_at=LATER)


def test_a_forbidden_move_and_an_unknown_id_answer_none(repo: Repository) -> None:
    done = a_job(status=Status.COMPLETED)
    repo.jobs.insert([done])

    for job_id in (done.id, job_id_for("nobody's")):
        assert repo.interventions.cancel(job_id, now=NOW) is None
        assert repo.interventions.redrive(job_id, due_at=NOW, now=NOW) is None
        assert repo.interventions.discard(job_id, now=NOW) is None
        assert repo.interventions.pause(job_id, now=NOW) is None
        assert repo.interventions.resume(job_id, next_at=NOW, now=NOW) is None
    assert repo.jobs.get(done.id) == done


def test_what_cannot_be_read_can_be_cancelled(repo: Repository, documents: Documents) -> None:
    job = a_job()
    repo.jobs.insert([job])
    documents.update_one({"_id": job.id}, {"$set": {"attempts": "three"}})

    cancelled = repo.interventions.cancel(job.id, now=NOW)

    assert isinstance(cancelled, BrokenJob)
    assert cancelled.document["status"] == "cancelled"
