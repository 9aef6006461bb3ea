"""A log record as a line of JSON."""

from __future__ import annotations

import logging
from traceback import format_exception_only
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

from jobs.logs import events
from jobs.logs.fields import ALWAYS, SOMETIMES, carried
from jobs.logs.process import identity

_ORDER: Final = dict.fromkeys((*ALWAYS, *SOMETIMES))
LONGEST_LINE: Final = 32 << 10
"""Characters of a line of which nothing is left out."""
LONGEST_VALUE: Final = 16 << 10
"""Characters kept of each value of a longer one."""


class LineFormatter(JsonFormatter):
    """One object per line: the stable keys first and in order, then what else the line has."""

    def __init__(self) -> None:
        super().__init__(
            "{levelname}{name}{message}",
            style="{",
            # RFC 3339 in UTC, whatever the host's zone.
            timestamp="time",
            rename_fields={"levelname": "level", "name": "logger"},
        )

    def format(self, record: logging.LogRecord) -> str:
        """The line; one that says so where its arguments do not fit, or have no text."""
        try:
            return super().format(record)
        except Exception as exc:  # noqa: BLE001 - a handler's or a library's own mistake
            what = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            unfit = logging.makeLogRecord(
                {
                    **{key: getattr(record, key) for key in ("name", "levelno", "levelname")},
                    "msg": f"a log line that cannot be made: {what:.200}",
                    "error": type(exc).__name__,
                }
            )
            return super().format(unfit)

    def serialize_log_record(self, log_data: dict[str, Any]) -> str:
        """The line, cut where it would be longer than whoever collects lines may take."""
        line = super().serialize_log_record(log_data)
        if len(line) <= LONGEST_LINE:
            return line
        return super().serialize_log_record(
            {key: self._cut(value) for key, value in log_data.items()}
        )

    def _cut(self, value: Any) -> Any:
        text = value if isinstance(value, str) else super().serialize_log_record(value)
        if len(text) <= LONGEST_VALUE:
            return value
        return f"{text[:LONGEST_VALUE]}… (cut: {len(text)} characters)"

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Add what the line has to what it carries along."""
        line: dict[str, Any] = {"event": events.LIBRARY.name, **identity(), **carried()}
        super().add_fields(line, record, message_dict)
        error = line.get("error")
        if error is None and record.exc_info:
            error = record.exc_info[1]
        if isinstance(error, BaseException):
            # Also where the text of a handler's exception cannot be made.
            error = "".join(format_exception_only(error)).strip()
        if error is not None:
            line["error"] = error
        log_data.update({key: line.pop(key) for key in _ORDER if key in line}, **line)
