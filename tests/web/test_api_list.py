"""GET /jobs: filters, limit and the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import NOW, a_job
from tests.web.client import Api, body_of, error_of, recurring


def pages(api: Api, path: str) -> Iterator[list[dict[str, Any]]]:
    """The pages that the Link headers lead to."""
    answer = api.client.get(path)
    while True:
        assert answer.status_code == 200, answer.content
        yield body_of(answer)
        if "Link" not in answer:
            return
        match = re.fullmatch(r'<([^>]+)>; rel="next"', answer["Link"])
        assert match is not None
        answer = api.client.get(match[1])


def ids(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["id"] for job in jobs]


def test_the_list_is_a_bare_array_newest_first(api: Api) -> None:
    older, newer = api.submit(), api.submit()
    api.submit(tenantId="another")

    answer = api.get("/jobs", tenantId="t")

    listed = body_of(answer)
    assert sorted(ids(listed)) == sorted([older["id"], newer["id"]])
    assert [job["createdAt"] for job in listed] == sorted(
        (job["createdAt"] for job in (older, newer)), reverse=True
    )
    assert "Link" not in answer


def test_a_listed_job_is_the_job(api: Api) -> None:
    job = api.submit(payload={"a": 1}, tags=["x"])

    assert body_of(api.get("/jobs", tenantId="t")) == [job]


def test_nothing_is_an_empty_array(api: Api) -> None:
    assert body_of(api.get("/jobs", tenantId="nobody")) == []


@pytest.mark.parametrize("query", ["", "?tenantId=", "?status=pending"])
def test_the_tenant_is_required(api: Api, query: str) -> None:
    assert error_of(api.client.get(f"/jobs{query}"), 400) == "tenantId is required"


def test_filters_narrow_the_list(api: Api, use_cases: Services) -> None:
    tagged = api.submit(tags=["a", "b"])
    slow = api.submit(jobType="slow")
    cancelled = api.submit()
    api.post(f"/jobs/{cancelled['id']}/cancel")
    template = body_of(api.post("/jobs", recurring()))
    run = body_of(api.post(f"/jobs/{template['id']}/run"))

    def found(**filters: str) -> set[str]:
        return set(ids(body_of(api.get("/jobs", tenantId="t", **filters))))

    assert found(tag="a") == found(tag="b") == {tagged["id"]}
    assert found(tag="ab") == set()
    assert found(jobType="slow") == {slow["id"]}
    assert found(jobType="gone") == set()
    assert found(status="cancelled") == {cancelled["id"]}
    assert found(status="dlq") == set()
    assert found(templateId=template["id"]) == {run["id"]}
    assert found(templateId=template["id"].upper()) == {run["id"]}
    assert found(status="pending", tag="a") == {tagged["id"]}
    assert len(found(status="", jobType="", tag="", templateId="", limit="", cursor="")) == 5


def test_an_unknown_status_lists_the_known_ones(api: Api) -> None:
    error = error_of(api.get("/jobs", tenantId="t", status="failed"), 400)

    assert all(status in error for status in Status)


@pytest.mark.parametrize("text", ["x", "1" * 23, "1" * 25, "g" * 24])
def test_a_malformed_template_id_is_400(api: Api, text: str) -> None:
    assert error_of(api.get("/jobs", tenantId="t", templateId=text), 400).startswith("templateId")


def test_an_unknown_parameter_is_400_with_a_hint(api: Api) -> None:
    error = error_of(api.get("/jobs", tenantId="t", statsu="dlq"), 400)

    assert error == '"statsu" is not a parameter here; did you mean "status"?'


@pytest.mark.parametrize("cursor", ["x", "A" * 26, "A" * 28, "ü" * 27, "_" * 27, "=" * 27, "\0"])
def test_an_invented_cursor_is_400(api: Api, cursor: str) -> None:
    assert error_of(api.get("/jobs", tenantId="t", cursor=cursor), 400).startswith("cursor")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("1", 1),
        ("007", 7),
        ("100", 100),
        ("5000", 5000),
        ("5001", 5000),
        ("9" * 5000, 5000),
        *((bad, 100) for bad in ("0", "000", "-1", "+5", "1.5", "ten", " 7", "1_0", "٣", "0x10")),
    ],
)
def test_the_limit_falls_back_and_is_capped(
    api: Api, use_cases: Services, limit: str, expected: int
) -> None:
    use_cases.repository.jobs.insert(
        [a_job(tenant_id="t", idempotency_key=f"{number}") for number in range(expected + 1)]
    )

    answer = api.get("/jobs", tenantId="t", limit=limit)

    assert len(body_of(answer)) == expected
    assert "Link" in answer


def test_a_full_last_page_has_no_link(api: Api) -> None:
    jobs = [api.submit() for _ in range(4)]

    first, second = pages(api, "/jobs?tenantId=t&limit=2")

    assert len(first) == len(second) == 2
    assert sorted(ids(first + second)) == sorted(ids(jobs))


def test_the_cursor_visits_each_job_once_at_one_instant_and_while_jobs_come(
    api: Api, use_cases: Services
) -> None:
    jobs = [a_job(tenant_id="t", created_at=NOW) for _ in range(50)]
    use_cases.repository.jobs.insert(jobs)

    visited: list[str] = []
    for page in pages(api, "/jobs?tenantId=t&limit=7"):
        visited += ids(page)
        # At the same instant, before and behind the cursor, and at the present one.
        use_cases.repository.jobs.insert([a_job(tenant_id="t", created_at=NOW) for _ in range(2)])
        api.submit()
        assert len(visited) <= 150

    assert len(visited) == len(set(visited))
    assert {str(job.id) for job in jobs} <= set(visited)


def test_a_page_of_large_payloads_ends_sooner(api: Api, use_cases: Services) -> None:
    jobs = [a_job(tenant_id="t", payload=f'{{"a":"{"x" * 900_000}"}}') for _ in range(40)]
    use_cases.repository.jobs.insert(jobs)

    sizes, visited = [], []
    for page in pages(api, "/jobs?tenantId=t&limit=5000"):
        sizes.append(len(page))
        visited += ids(page)

    assert max(sizes) < 25
    assert sorted(visited) == sorted(str(job.id) for job in jobs)


def test_the_link_keeps_the_filters(api: Api) -> None:
    wanted = [api.submit(tenantId="ü&=/ ", tags=["<a>"])["id"] for _ in range(3)]
    api.submit(tenantId="ü&=/ ")

    query = "tenantId=%C3%BC%26%3D%2F%20&tag=%3Ca%3E&status=pending&limit=1"
    visited = [job for page in pages(api, f"/jobs?{query}") for job in ids(page)]

    assert sorted(visited) == sorted(wanted)


@settings(max_examples=20)
@given(offsets=st.lists(st.integers(0, 3), max_size=20), limit=st.integers(1, 7), data=st.data())
def test_pages_of_any_size_partition_any_list(
    api: Api, use_cases: Services, offsets: list[int], limit: int, data: st.DataObject
) -> None:
    tenant = str(ObjectId())
    jobs = [
        a_job(tenant_id=tenant, created_at=NOW.replace(second=offset), tags=("x",) * (offset % 2))
        for offset in offsets
    ]
    use_cases.repository.jobs.insert(jobs)
    tag = data.draw(st.sampled_from(["", "x"]))

    visited = [
        job
        for page in pages(api, f"/jobs?tenantId={tenant}&limit={limit}&tag={tag}")
        for job in ids(page)
    ]

    newest_first = sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True)
    assert visited == [str(job.id) for job in newest_first if not tag or job.tags]
