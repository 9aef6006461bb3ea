"""Deliveries as they are stored, merged and shown."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from jobs.delivery.config import (
    HttpDelivery,
    KafkaDelivery,
    delivery_from,
    delivery_of,
    delivery_text,
    merged,
    resealed,
    without_secrets,
)
from jobs.delivery.fields import DELIVERY_FIELDS
from jobs.delivery.secrets import Secrets
from jobs.errors import InvalidJob, SecretUnreadable
from jobs.messages import DLQ_TOPIC, TRIGGERS_TOPIC, dispatch_topic

SECRETS = Secrets([Fernet.generate_key().decode()])
EXAMPLES = {
    job_type: {
        name: field.schema["examples"][0] for name, field in fields.items() if name != "body"
    }
    for job_type, fields in DELIVERY_FIELDS.items()
}
headers = st.dictionaries(st.sampled_from(["X-A", "x-a", "X-B", "X-C"]), st.just("1"))


@pytest.mark.parametrize("job_type", EXAMPLES)
def test_what_is_stored_reads_back(job_type: str) -> None:
    given = delivery_from(job_type, EXAMPLES[job_type], SECRETS)

    delivery = delivery_of(job_type, delivery_text(given))

    for name, field in DELIVERY_FIELDS[job_type].items():
        if name in EXAMPLES[job_type] and name not in ("secret", "secretHeaders"):
            stored = getattr(delivery, field.attribute)
            expected = EXAMPLES[job_type][name]
            assert stored == (tuple(expected) if isinstance(expected, list) else expected)


def test_defaults_are_those_that_are_documented() -> None:
    delivery = delivery_of("http", '{"url":"https://example.com"}')

    assert isinstance(delivery, HttpDelivery)
    for name, field in DELIVERY_FIELDS["http"].items():
        if "default" in field.schema and name != "expectedStatuses":
            assert getattr(delivery, field.attribute) == field.schema["default"]


def test_secrets_are_sealed_and_opened() -> None:
    stored = delivery_text(delivery_from("http", EXAMPLES["http"], SECRETS))

    delivery = delivery_of("http", stored)

    assert isinstance(delivery, HttpDelivery)
    assert "t0ken" not in stored + repr(delivery)
    assert delivery.open_headers(SECRETS) == {"X-Team": "billing", "Authorization": "Bearer t0ken"}
    assert without_secrets(stored).keys() & {"secret", "secretHeaders"} == set()


def test_a_secret_moves_to_another_key_and_no_further() -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    stored = delivery_text(delivery_from("http", EXAMPLES["http"], Secrets([old])))

    moved = resealed(stored, Secrets([new, old]))

    delivery = delivery_of("http", moved)
    assert isinstance(delivery, HttpDelivery)
    assert delivery.open_headers(Secrets([new]))["Authorization"] == "Bearer t0ken"
    with pytest.raises(SecretUnreadable):
        delivery.open_headers(Secrets([old]))
    with pytest.raises(SecretUnreadable):
        resealed(moved, Secrets([old]))


@given(headers, headers)
def test_headers_are_replaced_by_name(base: dict[str, str], over: dict[str, str]) -> None:
    result = merged({"headers": base}, {"headers": over})["headers"]

    lower = {name.lower() for name in over}
    assert result.items() >= over.items()
    assert result.keys() == over.keys() | {name for name in base if name.lower() not in lower}


def test_other_fields_are_replaced_whole() -> None:
    base = {"url": "https://a.example", "method": "PUT", "headers": {"A": "1"}}

    assert merged(base, {"url": "https://b.example"}) == {**base, "url": "https://b.example"}
    assert merged({}, base) == base
    assert merged(base, {}) == base


@pytest.mark.parametrize("topic", [DLQ_TOPIC, TRIGGERS_TOPIC, dispatch_topic("noop")])
def test_no_message_may_pass_for_one_of_ours(topic: str) -> None:
    with pytest.raises(InvalidJob, match="a topic of Chronos itself"):
        delivery_from("kafka", {"topic": topic}, SECRETS)


def test_a_topic_of_another_may_begin_as_ours() -> None:
    delivery = delivery_of("kafka", delivery_text({"topic": "jobs.dlq.mine"}))

    assert isinstance(delivery, KafkaDelivery)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "delivery is missing"),
        ("{", "delivery is not JSON"),
        ("[]", "delivery must be an object"),
        ("{}", "delivery.url is required"),
        ('{"url":5}', "delivery.url must be a string"),
        ('{"url":"https://example.com","nope":1}', "delivery has no field"),
        ('{"url":"https://example.com","secret":1}', "delivery.secret must be a string"),
        ('{"url":"https://example.com","secretHeaders":"x"}', "delivery.secretHeaders must be an"),
        ('{"url":"https://example.com","headers":{"a":5}}', "delivery.headers must be an object"),
    ],
)
def test_what_was_edited_by_hand_is_told(text: str | None, problem: str) -> None:
    with pytest.raises(InvalidJob, match=problem):
        delivery_of("http", text)
