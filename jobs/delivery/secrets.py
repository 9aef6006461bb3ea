"""Secrets at rest: sealed where they are submitted, opened where they are used."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from jobs.errors import SecretUnreadable


class Secrets:
    """Seals with the first key and opens with any: a key is replaced by putting its successor first
    and, once everything is sealed anew, dropping it (`manage.py resealsecrets`).

    Fernet is AES-128-CBC with HMAC-SHA-256: https://github.com/fernet/spec/blob/master/Spec.md
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """
        Args:
            keys: ENCRYPTION_KEYS; without any, nothing can be sealed or opened.
        """
        self._fernet = MultiFernet([Fernet(key) for key in keys]) if keys else None

    @property
    def has_keys(self) -> bool:
        """Whether anything can be sealed."""
        return self._fernet is not None

    def seal(self, text: str) -> str:
        """A secret as it may be stored.

        Raises:
            ValueError: there is no key; the end of a sentence that begins with the field's name.
        """
        if self._fernet is None:
            raise ValueError(
                "cannot be stored, as this server has no ENCRYPTION_KEYS (see docs/definitions.md)"
            )
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        """The secret.

        Raises:
            SecretUnreadable: no key opens it.
        """
        if self._fernet is None:
            raise SecretUnreadable("a secret cannot be read: set ENCRYPTION_KEYS")
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken as exc:
            raise SecretUnreadable(
                "a secret cannot be read: none of ENCRYPTION_KEYS is the one it was sealed with"
            ) from exc

    def reseal(self, sealed: str) -> str:
        """The same secret under the first key. Raises SecretUnreadable as `open` does."""
        return self.seal(self.open(sealed))
