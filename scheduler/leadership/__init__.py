"""Which of several schedulers leads."""

from __future__ import annotations

from chronos_site.env import ElectionConfig
from jobs.errors import ConfigError
from scheduler.leadership.elector import Elector, Term
from scheduler.leadership.etcd import EtcdElector

__all__ = ["Elector", "Term", "elector_for"]


def elector_for(config: ElectionConfig, owner: str) -> Elector:
    """The elector for LEADER_BACKEND.

    Args:
        config: backend, its addresses and the TTL.
        owner: name of this process, unique among the candidates.

    Raises:
        ConfigError: no such backend.
    """
    if config.backend == "etcd":
        return EtcdElector(config, owner)
    raise ConfigError(f"LEADER_BACKEND={config.backend!r} is not known; it must be etcd.")
