"""The login form, which lets nobody guess passwords for long."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from jobs.dashboard.page import use_cases
from jobs.logs import events

logger = logging.getLogger(__name__)

ALLOWED: Final = 10
"""Attempts for one user name from one address in a window. UK Cyber Essentials v3.1 (password-based
authentication) asks for no more than 10 guesses in 5 minutes."""
ALLOWED_TO_ADDRESS: Final = 10 * ALLOWED
"""The same with all user names together: one password is not tried on everybody, while a whole
office behind one address may mistype. The number is ours."""
WINDOW: Final = timedelta(minutes=15)
_MINUTE: Final = timedelta(minutes=1)


class LoginForm(AuthenticationForm):
    """Django's; after too many attempts it does not even look at the password."""

    is_refused = False
    """Too many attempts were made."""

    def clean(self) -> dict[str, Any]:
        name = self.cleaned_data.get("username")
        if name is None or self.request is None:
            return super().clean()
        address = address_of(self.request)
        # In this order: what is refused for its name uses up nothing of its address.
        self._count(name, address, ALLOWED, " with this user name")
        self._count(None, address, ALLOWED_TO_ADDRESS, "")
        cleaned = super().clean()
        store = use_cases().repository.login_attempts
        store.forget(name, address)
        store.take_back(address)
        return cleaned

    def _count(self, name: str | None, address: str, allowed: int, which: str) -> None:
        repository = use_cases().repository
        now = repository.clock.now()
        attempts = repository.login_attempts.count(name, address, window=WINDOW, now=now)
        if attempts.count <= allowed:
            return
        self.is_refused = True
        if attempts.count == allowed + 1:
            whom = {} if name is None else {"user": name}
            extra = events.LOGIN_REFUSED(address=address, **whom)
            who = "" if name is None else f" as {name}"
            logger.warning("too many failed logins%s from %s", who, address, extra=extra)
        raise ValidationError(
            f"Too many failed logins{which} from your address. Try again in"
            f" {_minutes(attempts.until - now)}."
        )


def address_of(request: HttpRequest) -> str:
    """Where a request comes from, as far as somebody who can be believed says so."""
    direct = str(request.META.get("REMOTE_ADDR", ""))
    if settings.SECURE_PROXY_SSL_HEADER is None:
        return direct
    # The proxy in front appends whom it speaks to; what stands before that, anybody may have sent.
    return str(request.META.get("HTTP_X_FORWARDED_FOR", direct)).rpartition(",")[2].strip()


def _minutes(wait: timedelta) -> str:
    # Rounded up.
    minutes = max(1, -(-wait // _MINUTE))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
