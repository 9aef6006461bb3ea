"""How long a failed job waits before its next attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from jobs.delivery.statuses import STATUSES_SCHEMA, check_statuses
from jobs.errors import InvalidJob
from jobs.wording import unknown_name

STRATEGIES: Final = ("fixed", "linear", "exponential")
_LONGEST: Final = 30 * 24 * 3_600
_NUMBERS: Final[Mapping[str, tuple[float, float, str]]] = {
    "base": (0.001, _LONGEST, "Seconds that the delay starts from; not above `cap`."),
    "factor": (1, 1_000, "What each failed attempt multiplies an exponential delay by."),
    "cap": (0.001, _LONGEST, "Longest delay, in seconds."),
    "jitter": (0, 1, "Fraction of the delay that is left to chance; it only shortens."),
}
"""Lowest and highest value of each number, and its meaning."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The delay after n failed attempts, never longer than `cap` seconds.

    It is `base` (fixed), `base` × n (linear) or `base` × `factor`ⁿ (exponential). The default is
    min(2ⁿ, 300) seconds. Of HTTP deliveries it also says which answers are worth another attempt
    and which are not, beside what `jobs.delivery.statuses` says of them.

    Raises:
        InvalidJob: a value cannot be used. The text names it.
    """

    strategy: str = "exponential"
    base: float = 1
    factor: float = 2
    cap: float = 300
    jitter: float = 0
    retryable_statuses: tuple[int | str, ...] = ()
    terminal_statuses: tuple[int | str, ...] = ()

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise InvalidJob("retry.strategy", f"must be one of: {', '.join(STRATEGIES)}")
        for name, (low, high, _) in _NUMBERS.items():
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            # NaN fails the comparison too.
            if not is_number or not low <= value <= high:
                raise InvalidJob(f"retry.{name}", f"must be a number from {low} to {high}")
        if self.base > self.cap:
            raise InvalidJob("retry.base", f"must not be above retry.cap, which is {self.cap}")

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> RetryPolicy:
        """The policy that a job's `retry` describes; None, or what is absent, means the default.

        Raises:
            InvalidJob: the document is no object, has an unknown field or a value of no use.
        """
        if document is None:
            return cls()
        if not isinstance(document, Mapping):
            raise InvalidJob("retry", "must be an object")
        values = {}
        for name, value in document.items():
            if name not in _ATTRIBUTES:
                raise InvalidJob("retry", unknown_name(str(name), _ATTRIBUTES, "has no field {}"))
            if name in STATUS_FIELDS:
                try:
                    value = tuple(check_statuses(value))
                except ValueError as exc:
                    raise InvalidJob(f"retry.{name}", str(exc)) from exc
            values[_ATTRIBUTES[name]] = value
        return cls(**values)

    def delay(self, attempt: int, random: float) -> timedelta:
        """How long to wait before the next attempt.

        Args:
            attempt: attempts that failed so far, at least 1.
            random: from [0, 1); chooses within what `jitter` leaves to chance.
        """
        seconds = self.base
        if self.strategy == "linear":
            seconds *= attempt
        elif self.strategy == "exponential":
            try:
                seconds *= float(self.factor) ** attempt
            except OverflowError:
                seconds = self.cap
        return timedelta(seconds=min(seconds, self.cap) * (1 - self.jitter * random))


POLICY_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Delays between attempts.",
    "additionalProperties": False,
    "properties": {
        "strategy": {
            "type": "string",
            "enum": list(STRATEGIES),
            "default": RetryPolicy().strategy,
            "description": "After n failed attempts: base, base × n, or base × factorⁿ seconds.",
        },
        **{
            name: {
                "type": "number",
                "minimum": low,
                "maximum": high,
                "default": getattr(RetryPolicy(), name),
                "description": meaning,
            }
            for name, (low, high, meaning) in _NUMBERS.items()
        },
        "retryableStatuses": {
            **STATUSES_SCHEMA,
            "description": "HTTP delivery: answers that are tried again, beside 408, 425, 429 and"
            " 5xx.",
        },
        "terminalStatuses": {
            **STATUSES_SCHEMA,
            "description": "HTTP delivery: answers that are not tried again; goes before all others"
            " but the delivery's expectedStatuses.",
        },
    },
}
"""JSON schema of the `retry` object, for the OpenAPI document."""
_ATTRIBUTES: Final = {
    **{name: name for name in ("strategy", *_NUMBERS)},
    "retryableStatuses": "retryable_statuses",
    "terminalStatuses": "terminal_statuses",
}
STATUS_FIELDS: Final = ("retryableStatuses", "terminalStatuses")
