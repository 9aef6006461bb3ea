"""Which of several schedulers leads."""

from __future__ import annotations

from chronos_site.config import ElectionConfig
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
        ConfigError: no such backend, or its address cannot be used.
    """
    match config.backend:
        case "etcd":
            return EtcdElector(config, owner)
        case "redis":
            # Only here: its client imports OpenTelemetry's SDK where that is installed.
            from scheduler.leadership.redis import RedisElector

            return RedisElector(config, owner)
    raise ConfigError(f"LEADER_BACKEND={config.backend!r} must be etcd or redis.")
