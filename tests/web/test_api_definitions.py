"""/v1/definitions: what to call, said once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jobs.lifecycle import Job
from jobs.services import Services
from tests.web.client import Api, body_of, error_of, one_off, recurring
from tests.web.definitions import HTTP, ONE, PATH, create, definition, put


def test_a_definition_is_stored_and_shown(api: Api) -> None:
    document = definition(
        description="Calls the hook.",
        payload={"a": 1},
        priority=3,
        maxAttempts=7,
        tags=["billing"],
        retry={"strategy": "fixed", "base": 2, "terminalStatuses": [501, "3xx"]},
        timeoutSeconds=60,
    )

    answer = api.post(PATH, document)

    body = body_of(answer)
    assert answer.status_code == 201
    assert (answer["ETag"], answer["Location"]) == ('"1"', ONE)
    assert body.pop("createdAt") == body.pop("updatedAt")
    assert body == {**document, "version": 1}
    shown = api.get(PATH + "/hook", tenantId="t")
    assert shown["ETag"] == '"1"'
    assert body_of(shown).items() >= body.items()


def test_names_are_of_a_tenant(api: Api) -> None:
    create(api)
    create(api, tenantId="u")

    assert "already" in error_of(api.post(PATH, definition()), 409)
    assert error_of(api.get(PATH + "/hook", tenantId="v"), 404)
    assert error_of(api.get(PATH + "/hook"), 400) == "tenantId is required"


def test_a_list_has_current_versions_newest_first(api: Api) -> None:
    for name in ("a", "b", "c"):
        create(api, name=name, tags=[name])
    create(api, name="noop", jobType="noop", delivery=None)
    create(api, name="d", tenantId="u")

    first = api.get(PATH, tenantId="t", limit=3)
    rest = api.get(first["Link"][1:].split(">")[0])

    assert [each["name"] for each in body_of(first)] == ["noop", "c", "b"]
    assert [each["name"] for each in body_of(rest)] == ["a"]
    assert not rest.has_header("Link")
    assert [each["name"] for each in body_of(api.get(PATH, tenantId="t", tag="b"))] == ["b"]
    assert [each["name"] for each in body_of(api.get(PATH, tenantId="t", jobType="noop"))] == [
        "noop"
    ]


def test_putting_stores_the_next_version(api: Api) -> None:
    first = put(api)
    second = put(api, priority=9)

    assert (first.status_code, first["ETag"], first["Location"]) == (201, '"1"', ONE)
    assert (second.status_code, second["ETag"]) == (200, '"2"')
    assert body_of(second)["priority"] == 9
    assert body_of(second)["createdAt"] == body_of(first)["createdAt"]


def test_only_the_version_that_was_meant_is_changed(api: Api) -> None:
    create(api)
    assert put(api, {"If-Match": '"1"'}).status_code == 200

    assert "has version 2, not 1" in error_of(put(api, {"If-Match": '"1"'}), 412)
    assert error_of(api.call("DELETE", ONE, headers={"If-Match": '"1"'}), 412)
    assert error_of(put(api, {"If-Match": "W/x"}), 400).startswith("If-Match")
    assert api.call("DELETE", ONE, headers={"If-Match": '"2"'}).status_code == 200
    assert "does not exist" in error_of(put(api, {"If-Match": '"2"'}), 412)


def test_a_name_may_be_taken_only_if_it_is_free(api: Api) -> None:
    assert put(api, {"If-None-Match": "*"}).status_code == 201
    assert "exists, in version 1" in error_of(put(api, {"If-None-Match": "*"}), 412)


def test_a_version_never_comes_twice(api: Api) -> None:
    create(api)
    put(api)

    assert body_of(api.call("DELETE", ONE))["version"] == 2
    assert error_of(api.get(ONE), 404)
    assert body_of(api.get(PATH, tenantId="t")) == []
    assert error_of(api.call("DELETE", ONE), 404)
    assert create(api)["version"] == 3


def test_putting_at_once_loses_no_version(api: Api, use_cases: Services) -> None:
    create(api)

    with ThreadPoolExecutor(8) as pool:
        stored = list(
            pool.map(
                lambda n: use_cases.definitions.put("t", "hook", definition(priority=n)), range(8)
            )
        )

    assert sorted(each.version for each, _ in stored) == list(range(2, 10))


def test_a_name_is_created_once_by_many_at_once(api: Api, use_cases: Services) -> None:
    with ThreadPoolExecutor(8) as pool:
        stored = list(
            pool.map(lambda n: use_cases.definitions.put("t", "hook", definition()), range(8))
        )

    assert [is_new for _, is_new in stored].count(True) == 1
    assert sorted(each.version for each, _ in stored) == list(range(1, 9))


def test_the_job_type_cannot_change(api: Api) -> None:
    create(api)

    refused = put(api, jobType="kafka", delivery={"topic": "orders"})

    assert "cannot change" in error_of(refused, 400)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": None}, "name is required"),
        ({"name": "a/b"}, "name must be of"),
        ({"name": ".."}, "name must be of"),
        ({"tenantId": None}, "tenantId is required"),
        ({"jobType": None}, "jobType is required"),
        ({"jobType": "nope"}, "jobType must be one of"),
        ({"delivery": None}, "delivery is required for jobType http"),
        ({"delivery": {}}, "delivery.url is required"),
        ({"delivery": []}, "delivery must be an object"),
        ({"jobType": "noop"}, "delivery is only for jobType http and kafka"),
        ({"delivery": {"url": "ftp://x"}}, "delivery.url must be an address"),
        ({"delivery": {"url": "http://"}}, "delivery.url must be an address"),
        ({"delivery": {"url": "https://u:p@x.org"}}, "delivery.url must not hold a user"),
        ({"delivery": {"url": "https://x.org/#a"}}, "delivery.url must not hold a fragment"),
        ({"delivery": {"url": "https://x.org:99999"}}, "delivery.url must be an address"),
        ({"delivery": {**HTTP, "method": "TRACE"}}, "delivery.method must be one of"),
        ({"delivery": {**HTTP, "metod": "GET"}}, 'did you mean "method"?'),
        ({"delivery": {**HTTP, "headers": {"A b": "x"}}}, "it is no name of a header"),
        ({"delivery": {**HTTP, "headers": {"A": "x\r\nB: y"}}}, "visible ASCII"),
        ({"delivery": {**HTTP, "headers": {"A": 1}}}, "must be a string"),
        ({"delivery": {**HTTP, "headers": {"A": " x"}}}, "without blanks at its beginning"),
        ({"delivery": {**HTTP, "secretHeaders": {"A": "x\t"}}}, "without blanks at its beginning"),
        ({"delivery": {"url": "http://xn--/"}}, "delivery.url cannot be used"),
        ({"delivery": {**HTTP, "headers": {"a": "1", "A": "2"}}}, "must not name a header twice"),
        ({"delivery": {**HTTP, "headers": {"Host": "x"}}}, "which is set with each request"),
        ({"delivery": {**HTTP, "headers": {"Authorization": "x"}}}, "secretHeaders"),
        ({"delivery": {**HTTP, "secretHeaders": {"Content-Length": "1"}}}, "set with each request"),
        ({"delivery": {**HTTP, "secret": "whsec_abc"}}, "delivery.secret must be whsec_"),
        ({"delivery": {**HTTP, "secret": "x" * 40}}, "delivery.secret must be whsec_"),
        ({"delivery": {**HTTP, "secret": None}}, "delivery.secret must be a string"),
        ({"delivery": {**HTTP, "timeoutSeconds": 0}}, "delivery.timeoutSeconds must be"),
        ({"delivery": {**HTTP, "timeoutSeconds": True}}, "delivery.timeoutSeconds must be"),
        ({"delivery": {**HTTP, "expectedStatuses": [99]}}, "delivery.expectedStatuses"),
        ({"delivery": {**HTTP, "body": "{{ payload"}}, "delivery.body"),
        ({"delivery": {**HTTP, "body": "{{ secret }}"}}, "delivery.body"),
        ({"retry": {"terminalStatuses": ["x"]}}, "retry.terminalStatuses"),
        ({"retry": {"maxAttempts": 2}, "maxAttempts": 3}, "contradicts maxAttempts"),
        (
            {"jobType": "noop", "delivery": None, "retry": {"terminalStatuses": [404]}},
            "can name statuses only for jobType http",
        ),
        ({"jobType": "kafka", "delivery": {}}, "delivery.topic is required"),
        ({"jobType": "kafka", "delivery": {"topic": "a b"}}, "delivery.topic must be a topic"),
        ({"jobType": "kafka", "delivery": {"topic": "jobs.dlq"}}, "a topic of Chronos itself"),
        ({"jobType": "kafka", "delivery": {"topic": "jobs.dispatch.noop"}}, "of Chronos itself"),
        ({"jobType": "kafka", "delivery": {"topic": "bucket-triggers"}}, "of Chronos itself"),
        ({"jobType": "kafka", "delivery": {"topic": "a", "url": "x"}}, "has no field"),
        ({"idempotencyKey": "x"}, '"idempotencyKey" is not a field of a definition'),
        ({"scheduledAt": "2026-09-29T18:00:00Z"}, "is not a field of a definition"),
    ],
)
def test_what_cannot_be_used_is_refused(
    api: Api, use_cases: Services, changes: dict[str, Any], problem: str
) -> None:
    refused = api.post(PATH, definition(**changes))

    assert problem in error_of(refused, 400)
    assert list(use_cases.repository.definitions._definitions.find()) == []


SURROGATE = "\ud800"


@pytest.mark.parametrize(
    "changes",
    [
        {"description": SURROGATE},
        {"name": SURROGATE},
        {"tenantId": SURROGATE},
        {"tags": [SURROGATE]},
        {"payload": {"a": SURROGATE}},
        {"delivery": {**HTTP, "body": SURROGATE}},
        {"delivery": {**HTTP, "secretHeaders": {"A": SURROGATE}}},
        {"jobType": "kafka", "delivery": {"topic": "a", "key": SURROGATE}},
        {"jobType": "kafka", "delivery": {"topic": "a", "headers": {"a": SURROGATE}}},
    ],
)
def test_what_has_no_form_in_utf_8_is_refused(api: Api, changes: dict[str, Any]) -> None:
    assert error_of(api.post(PATH, definition(**changes)), 400)


@pytest.mark.parametrize("name", ["definition", "tenantId", "idempotencyKey"])
@pytest.mark.parametrize("text", [SURROGATE, "\0", "", " ", "x" * 300])
def test_an_unfit_name_spoils_no_bulk(api: Api, name: str, text: str) -> None:
    create(api)
    good, bad = (one_off(jobType=None, definition="hook") for _ in range(2))

    for path in ("/jobs/bulk", "/v1/schedules/bulk"):
        good["idempotencyKey"] += path
        answer = api.post(path, [{**bad, name: text}, good])
        assert [each["status"] for each in body_of(answer)] == [400, 201]


def test_a_retry_policy_may_say_the_attempts(api: Api) -> None:
    made = create(api, retry={"strategy": "fixed", "base": 1, "maxAttempts": 6})

    assert made["maxAttempts"] == 6
    assert made["retry"] == {"strategy": "fixed", "base": 1}


def test_a_job_takes_what_it_does_not_say_from_its_definition(api: Api) -> None:
    create(
        api,
        delivery={**HTTP, "headers": {"X-A": "1", "X-B": "2"}},
        payload={"a": 1},
        priority=3,
        maxAttempts=7,
        tags=["x", "y"],
        retry={"strategy": "fixed", "base": 2},
        timeoutSeconds=60,
    )

    plain = api.submit(jobType=None, definition="hook")
    other = api.submit(
        jobType="http",
        definition="hook",
        payload={"b": 2},
        priority=0,
        maxAttempts=1,
        tags=["y", "z"],
        retry={"strategy": "linear"},
        timeoutSeconds=5,
        delivery={"method": "PUT", "headers": {"x-b": "3"}},
    )

    assert plain["definition"] == "hook"
    assert (plain["definitionVersion"], plain["jobType"]) == (1, "http")
    assert (plain["payload"], plain["priority"], plain["maxAttempts"]) == ({"a": 1}, 3, 7)
    assert (plain["tags"], plain["timeoutSeconds"]) == (["x", "y"], 60)
    assert plain["retry"] == {"strategy": "fixed", "base": 2}
    assert (other["payload"], other["priority"], other["maxAttempts"]) == ({"b": 2}, 0, 1)
    assert (other["tags"], other["timeoutSeconds"]) == (["x", "y", "z"], 5)
    assert other["retry"] == {"strategy": "linear"}
    assert other["delivery"] == {**HTTP, "method": "PUT", "headers": {"X-A": "1", "x-b": "3"}}


def test_a_job_keeps_what_it_was_made_with(api: Api) -> None:
    create(api)
    job = api.submit(jobType=None, definition="hook")

    put(api, delivery={"url": "https://example.com/new"})
    api.call("DELETE", ONE)

    assert body_of(api.get(f"/jobs/{job['id']}"))["delivery"] == HTTP


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"definition": "nope"}, 'definition names none of this tenant: "nope"'),
        ({"definition": "hook", "tenantId": "u"}, "definition names none of this tenant"),
        ({"definition": 5}, "definition must be a string"),
        ({"definition": "hook", "jobType": "noop"}, "jobType must be http, as in the definition"),
        ({"definition": "hook", "delivery": {"url": "x"}}, "delivery.url"),
        (
            {"definition": "hook", "tags": [str(n) for n in range(20)]},
            "with those of the definition",
        ),
        ({}, "jobType is required unless definition is given"),
        ({"jobType": "http"}, "delivery is required for jobType http"),
        ({"jobType": "kafka", "delivery": {"key": "a"}}, "delivery.topic is required"),
        ({"jobType": "noop", "delivery": HTTP}, "delivery is only for jobType http and kafka"),
    ],
)
def test_a_job_that_does_not_go_with_its_definition_is_refused(
    api: Api, changes: dict[str, Any], problem: str
) -> None:
    create(api, tags=["one-more"])

    refused = api.post("/jobs", one_off(**{"jobType": None, **changes}))

    assert problem in error_of(refused, 400)


def test_a_delivery_needs_no_definition(api: Api) -> None:
    job = api.submit(jobType="http", delivery=HTTP)

    assert job["delivery"] == HTTP
    assert "definition" not in job


def test_a_definition_that_a_template_uses_stays(api: Api) -> None:
    create(api)
    template = body_of(api.post("/jobs", recurring(jobType=None, definition="hook")))

    assert template["id"] in error_of(api.call("DELETE", ONE), 409)
    assert api.post(f"/jobs/{template['id']}/pause").status_code == 200
    assert error_of(api.call("DELETE", ONE), 409)
    assert api.post(f"/jobs/{template['id']}/cancel").status_code == 200
    assert api.call("DELETE", ONE).status_code == 200


def test_deleting_while_a_template_is_submitted_leaves_none_without_its_definition(
    api: Api, use_cases: Services
) -> None:
    outcomes = set()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(40):
            put(api)
            document = recurring(jobType=None, definition="hook")
            submitted = pool.submit(use_cases.submit_many, [document])
            deleted = pool.submit(api.call, "DELETE", ONE)
            (result,) = submitted.result()
            outcomes.add((isinstance(result, Job), deleted.result().status_code))
            if isinstance(result, Job):
                use_cases.cancel(result.id)

    # Either both happen in some order that allows it, or one is refused.
    assert outcomes <= {(True, 409), (False, 200)}


def test_running_a_template_now_takes_its_definition_as_it_is_now(api: Api) -> None:
    create(api, payload={"a": 1})
    template = body_of(api.post("/jobs", recurring(jobType=None, definition="hook", priority=4)))
    put(api, payload={"a": 2}, priority=9, tags=["new"])

    run = body_of(api.post(f"/jobs/{template['id']}/run"))

    assert (run["definitionVersion"], run["payload"], run["priority"]) == (2, {"a": 2}, 4)
    assert run["tags"] == ["new"]


def test_a_definition_that_was_edited_by_hand_is_told(api: Api, use_cases: Services) -> None:
    create(api)
    use_cases.repository.definitions._definitions.update_one({}, {"$set": {"priority": "high"}})

    assert "priority cannot be" in error_of(api.get(ONE), 409)
    assert "priority cannot be" in error_of(
        api.post("/jobs", one_off(jobType=None, definition="hook")), 400
    )
    assert body_of(api.get(PATH, tenantId="t")) == []
