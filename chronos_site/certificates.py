"""The dates of the certificates that this process shows and trusts.

A server that refuses one because of its dates says little: MongoDB hangs up, Kafka calls it
unknown, etcd bad. But who shows it can look.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509


def untimely(files: Iterable[str | None]) -> str:
    """What is wrong with the dates of certificates, by this machine's clock: sentences to append.

    Args:
        files: in PEM; None, and what cannot be read, is none of this function's business.
    """
    now = datetime.now(UTC)
    said = ""
    for file in files:
        for certificate in _certificates(file):
            begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if ends < now:
                said += (
                    f" The certificate in {file} has expired, on {ends:%Y-%m-%d %H:%M:%S} UTC:"
                    " renew it, then restart this process."
                )
            elif begins > now:
                said += (
                    f" The certificate in {file} is not valid before"
                    f" {begins:%Y-%m-%d %H:%M:%S} UTC: is this machine's clock right?"
                )
    return said


def _certificates(file: str | None) -> list[x509.Certificate]:
    if file is None:
        return []
    try:
        return x509.load_pem_x509_certificates(Path(file).read_bytes())
    except (OSError, ValueError):
        return []
