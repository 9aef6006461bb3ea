"""What development gets without asking: loopback as a target, and a key for secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronos_site import env
from devstack.settings import LOOPBACK, development_settings


def test_a_key_is_made_once_and_kept_to_oneself(tmp_path: Path) -> None:
    first = development_settings(tmp_path / "data")
    again = development_settings(tmp_path / "data")

    assert first == again
    assert env.VARIABLES["ENCRYPTION_KEYS"].parse(first["ENCRYPTION_KEYS"])
    assert (tmp_path / "data" / "encryption.key").stat().st_mode & 0o777 == 0o600


def test_loopback_may_be_delivered_to(tmp_path: Path) -> None:
    networks = env.VARIABLES["DELIVERY_ALLOWED_NETWORKS"].parse(
        development_settings(tmp_path)["DELIVERY_ALLOWED_NETWORKS"]
    )

    assert [str(network) for network in networks] == LOOPBACK.split(",")


def test_what_is_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELIVERY_ALLOWED_NETWORKS", "10.0.0.0/8")
    monkeypatch.setenv("ENCRYPTION_KEYS", "mine")
    monkeypatch.setenv("SECRET_KEY", "mine too")
    monkeypatch.setenv("LOG_FORMAT", "json")

    assert development_settings(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
