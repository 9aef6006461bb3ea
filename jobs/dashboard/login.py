"""The login form, which lets nobody guess passwords for long."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
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
        store, address = use_cases().repository.login_attempts, address_of(self.request)
        now = use_cases().repository.clock.now()
        attempts = store.count(name, address, window=WINDOW, now=now)
        if attempts.count > ALLOWED:
            self.is_refused = True
            if attempts.count == ALLOWED + 1:
                extra = events.LOGIN_REFUSED(user=name, address=address)
                logger.warning("too many failed logins as %s from %s", name, address, extra=extra)
            raise ValidationError(_refusal(attempts.until, now))
        cleaned = super().clean()
        store.forget(name, address)
        return cleaned


def address_of(request: HttpRequest) -> str:
    """Where a request comes from, as far as somebody who can be believed says so."""
    direct = str(request.META.get("REMOTE_ADDR", ""))
    if settings.SECURE_PROXY_SSL_HEADER is None:
        return direct
    # The proxy in front appends whom it speaks to; what stands before that, anybody may have sent.
    return str(request.META.get("HTTP_X_FORWARDED_FOR", direct)).rpartition(",")[2].strip()


def _refusal(until: datetime, now: datetime) -> str:
    # Rounded up.
    minutes = max(1, -((now - until) // _MINUTE))
    return (
        "Too many failed logins with this user name from your address. Try again in"
        f" {minutes} minute{'' if minutes == 1 else 's'}."
    )
