"""Why there was no answer, in words for an operator, and whether another attempt may help."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

import httpcore

from executor.calls import AttemptError
from executor.delivery.network import AddressRefused

FAILURES: Final = (
    AddressRefused,
    OSError,
    UnicodeError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
)
"""What may come instead of an answer; TimeoutError is an OSError."""


class InvalidHeader(AttemptError):
    """HTTP does not allow one of the headers."""

    def __init__(self) -> None:
        super().__init__(
            "the request cannot be sent: a header has a name or value that HTTP does not allow",
            error_class="InvalidRequest",
            is_final=True,
        )


def failure_of(error: Exception, *, host: str, seconds: float) -> AttemptError:
    """What one of `FAILURES` means.

    Args:
        error: the failure.
        host: the target's, with its port where it needs to be told.
        seconds: what the answer was waited for.
    """
    match error:
        case AddressRefused():
            return AttemptError(
                f"{host}: {error} is not a public address, and DELIVERY_ALLOWED_NETWORKS does not"
                " allow it",
                error_class="AddressRefused",
                is_final=True,
            )
        case httpcore.ConnectTimeout():
            return AttemptError(
                f"{host} did not accept a connection in time", error_class="Timeout"
            )
        case TimeoutError() | httpcore.TimeoutException():
            return AttemptError(
                f"{host} did not answer within {seconds:g} s", error_class="Timeout"
            )
        case socket.gaierror():
            return AttemptError(
                f"the name of {host} cannot be resolved: {error.strerror}",
                error_class="NameNotResolved",
            )
        case UnicodeError():
            return AttemptError(
                f"{host} cannot be the name of a host",
                error_class="NameNotResolved",
                is_final=True,
            )
        case httpcore.LocalProtocolError():
            # Its text may show the value of a secret header.
            return InvalidHeader()
        case httpcore.RemoteProtocolError():
            # Behind the colon it shows what came, which may be an echo of a secret header.
            reason = str(error).partition(":")[0]
            return AttemptError(
                f"{host} did not send a complete answer in HTTP: {reason}",
                error_class="InvalidAnswer",
            )
    return _not_connected(_cause(error), host)


def _not_connected(cause: BaseException, host: str) -> AttemptError:
    match cause:
        case ssl.SSLCertVerificationError():
            reason = f"the certificate of {host} is not accepted: {cause.verify_message}"
            return AttemptError(reason, error_class="TlsError")
        case ssl.SSLError():
            reason = f"{host} does not speak TLS as it should: {cause.reason}"
            return AttemptError(reason, error_class="TlsError")
        case OSError() if cause.errno is not None:
            reason = os.strerror(cause.errno)
        case _:
            reason = "it broke off"
    return AttemptError(f"no connection to {host}: {reason}", error_class="ConnectionError")


def _cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
