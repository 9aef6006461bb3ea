"""An executor's share of a job type's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Message as Received

from jobs.broker.membership import Membership
from jobs.messages import consumer_group, dispatch_topic

if TYPE_CHECKING:
    from chronos_site.env import BrokerConfig

__all__ = ["Received", "Subscription"]


class Subscription(Membership):
    """One member of the group `executor-<jobType>`.

    What it received is `done` when its claim is durable.
    """

    def __init__(self, config: BrokerConfig, job_type: str, client_id: str) -> None:
        super().__init__(
            config,
            topic=dispatch_topic(job_type),
            group=consumer_group(job_type),
            client_id=client_id,
        )
