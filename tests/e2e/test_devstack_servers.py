"""The real servers: they come back with their data after a stop, a crash and a change of port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymongo import MongoClient

from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.mongo import Mongod
from devstack.process import free_port
from tests.waiting import ANSWER_SECONDS, wait_for

KEY, VALUE = "a2V5", "dmFsdWU="


def stored(mongod: Mongod) -> int:
    client: MongoClient[dict[str, Any]] = MongoClient(mongod.location)
    with client:
        return client.db.things.count_documents({})


def store(mongod: Mongod) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(mongod.location, w="majority", journal=True)
    with client:
        client.db.things.insert_one({})


def test_mongod_comes_back_with_its_data(private_mongod: Callable[[], Mongod]) -> None:
    mongod = private_mongod()
    store(mongod)

    mongod.restart()
    assert stored(mongod) == 1

    mongod.kill()
    assert not mongod.is_alive
    mongod.restart()
    assert stored(mongod) == 1


def test_mongod_comes_back_on_another_port_and_takes_writes(
    private_mongod: Callable[[], Mongod],
) -> None:
    mongod = private_mongod()
    store(mongod)
    mongod.kill()

    moved = Mongod(mongod.directory, free_port(), cache_gb=0.25)
    try:
        moved.start()
        moved.wait_ready()
        store(moved)
        assert stored(moved) == 2
    finally:
        moved.stop()


def test_etcd_comes_back_with_its_data(private_etcd: Callable[[], Etcd]) -> None:
    etcd = private_etcd()

    def ask(what: str, **body: str) -> dict[str, Any]:
        url = f"http://{etcd.address}/v3/kv/{what}"
        answer = httpx.post(url, json=body, trust_env=False, timeout=ANSWER_SECONDS)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    ask("put", key=KEY, value=VALUE)
    etcd.restart()
    assert ask("range", key=KEY)["kvs"][0]["value"] == VALUE

    etcd.kill()
    etcd.restart()
    assert ask("range", key=KEY)["kvs"][0]["value"] == VALUE


def test_kafka_comes_back_with_its_messages(private_kafka: Callable[[], Kafka]) -> None:
    kafka = private_kafka()
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce("t", b"before the crash")
    assert producer.flush(ANSWER_SECONDS) == 0

    kafka.kill()
    kafka.restart()
    producer.produce("t", b"after it")
    assert producer.flush(ANSWER_SECONDS) == 0

    kafka.restart()
    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    arrived: list[bytes | None] = []

    def has_all() -> bool:
        message = consumer.poll(1)
        # Until Kafka has its wits together it may also say that there is no such topic.
        if message is not None and message.error() is None:
            arrived.append(message.value())
        return len(arrived) == 2

    wait_for(has_all)
    consumer.close()
    assert arrived == [b"before the crash", b"after it"]


def test_topics_are_never_made_by_accident(kafka_server: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_server.address})

    admin.list_topics("never.created", timeout=ANSWER_SECONDS)

    assert "never.created" not in admin.list_topics(timeout=ANSWER_SECONDS).topics
