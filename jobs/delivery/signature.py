"""Signatures by which a target knows that a request is ours, as Standard Webhooks has them.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Final

_PREFIX: Final = "whsec_"


def signature_headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers that sign one request.

    Args:
        secret: `whsec_` and the key in base64.
        message_id: the same in all attempts.
        at: when it is sent, aware; targets refuse what is some minutes old.
        body: exactly as it is sent.

    Raises:
        ValueError: the secret has another form. The text does not show it.
    """
    encoded = secret.removeprefix(_PREFIX)
    try:
        key = b64decode(encoded, validate=True)
    except ValueError:
        raise ValueError("the signing secret is not base64") from None
    timestamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
