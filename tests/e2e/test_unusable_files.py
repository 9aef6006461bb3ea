"""What a process does with a certificate that is none; more of it in tests/unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jobs.repository import Repository
from tests.processes import RoleProcess


def test_whoever_needs_kafka_ends_with_a_sentence_and_changes_nothing(
    start_role: Callable[..., RoleProcess], repo: Repository, tmp_path: Path
) -> None:
    junk = tmp_path / "ca.pem"
    junk.write_text("not a certificate")
    variables = {"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CA": str(junk)}

    ended = [start_role(name, **variables) for name in ("migrate", "doctor", "runreaper")]

    for role in ended:
        assert role.wait() == 1, role.output
        assert f"KAFKA_SSL_CA names '{junk}', which cannot be used" in role.output
        assert "Traceback" not in role.output, role.output
    assert "Applying" not in ended[0].output
