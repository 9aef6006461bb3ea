"""Lists of definitions over several tenants, and of what was made from one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from jobs.definitions import Definition
from jobs.repository import Repository
from jobs.repository.documents import BrokenJob
from tests.builders import NOW, a_job, a_template
from tests.store.conftest import Documents

MINUTE: Final = timedelta(minutes=1)


def stored(repo: Repository, number: int, tenant_id: str = "a") -> Definition:
    at = NOW + number * MINUTE
    made = repo.definitions.create(
        Definition(
            tenant_id=tenant_id,
            name=f"n{number}",
            version=1,
            job_type="noop",
            created_at=at,
            updated_at=at,
        )
    )
    assert made is not None
    return made


def made_from(**fields: Any) -> dict[str, Any]:
    return {"tenant_id": "a", "definition": "hook", "definition_version": 1, **fields}


def test_definitions_of_several_tenants_come_newest_first(repo: Repository) -> None:
    made = [stored(repo, number, tenant) for number, tenant in enumerate("abcab")]

    assert repo.definitions.listed(None, limit=9) == (made[::-1], None)
    assert repo.definitions.listed({"a", "c"}, limit=9)[0] == [made[3], made[2], made[0]]
    assert repo.definitions.listed(set(), limit=9) == ([], None)


def test_a_list_goes_on_where_its_page_ended(repo: Repository) -> None:
    made = [stored(repo, number) for number in range(5)]

    for tenants in (None, {"a", "b"}):
        first, place = repo.definitions.listed(tenants, limit=3)
        rest, end = repo.definitions.listed(tenants, limit=3, before=place)
        assert first + rest == made[::-1]
        assert end is None


def test_deleted_definitions_are_not_listed(repo: Repository) -> None:
    stored(repo, 1)
    assert repo.uses.delete_definition("a", "n1", version=1, now=NOW) is True

    assert repo.definitions.listed(None, limit=9) == ([], None)


def test_what_was_made_from_a_definition_is_found_the_latest_due_first(
    repo: Repository, documents: Documents
) -> None:
    template = a_template(**made_from())
    soon = a_job(**made_from(scheduled_at=NOW))
    later = a_job(**made_from(scheduled_at=NOW + MINUTE, template_id=template.id))
    repo.jobs.insert(
        [template, soon, later, a_job(**made_from(tenant_id="b")), a_job(tenant_id="a")]
    )

    assert repo.uses.jobs("a", "hook", limit=9) == [later, soon]
    assert repo.uses.jobs("a", "hook", limit=1) == [later]
    assert repo.uses.templates("a", "hook", limit=9) == [template]
    documents.update_one({"_id": template.id}, {"$set": {"attempts": "three"}})
    assert isinstance(repo.uses.templates("a", "hook", limit=9)[0], BrokenJob)
