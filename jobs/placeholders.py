"""Secrets that are none: what stands in examples, and what anybody tries first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from django.contrib.auth.password_validation import CommonPasswordValidator

from chronos_site.transport import Address

if TYPE_CHECKING:
    from chronos_site.config import Config

# Of a template that nobody filled in: `<password>`, `${PASSWORD}`, `{{ password }}`.
_UNFILLED: Final = re.compile(r"<.*>|\$?\{.*\}", re.DOTALL)
# Django's `startproject` writes the first; without anything but letters.
_BEGINNINGS: Final = re.compile(r"(djangoinsecure|(change|replace)(me|this|it)).*")
_WORDS: Final = re.compile(
    "(admin|change|chronos|default|enter|example|foobared|here|insecure|key|me|my|pass|passwd|put"
    "|password|pw|replace|root|sample|secret|some|strong|test|the|this|todo|user|word|x|your)+"
)
"""Nothing but these in a row: `my-secret-password1`. `foobared` is that of Redis's own file."""


def is_placeholder(secret: str, user: str | None = None) -> bool:
    """Whether a secret is one of an example, or among the first that anybody tries.

    Args:
        secret: as the server is given it.
        user: whose it is; None: nobody's.
    """
    text = secret.strip().lower()
    letters = re.sub(r"[^a-z]", "", text)
    return (
        any(form.fullmatch(letters) for form in (_BEGINNINGS, _WORDS))
        or _UNFILLED.fullmatch(text) is not None
        or text == (user or "").lower()
        # The 20,000 that are most used.
        or text in CommonPasswordValidator().passwords
    )


def has_placeholder(config: Config) -> bool:
    """Whether a server is spoken to with such a password; of the two that elect, the one chosen."""
    return any(is_placeholder(password, user) for user, password in _passwords(config))


def _passwords(config: Config) -> Iterator[tuple[str | None, str]]:
    mongo, redis = Address.of(config.store.uri), Address.of(config.election.redis_url)
    kafka, etcd = config.broker.security, config.election.security
    known = [(mongo.user, mongo.password), (kafka.username, kafka.password)]
    if config.election.backend == "redis":
        known.append((redis.user, redis.options.get("password", redis.password)))
    else:
        known.append((etcd.username, etcd.password))
    yield from ((user, password) for user, password in known if password)
