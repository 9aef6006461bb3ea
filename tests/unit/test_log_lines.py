"""A line that cannot be made as it was asked for is a line all the same."""

from __future__ import annotations

import json
import logging

import pytest

from jobs.logs.format import LineFormatter


class Mute:
    """Something that has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("message", "arguments", "told", "error"),
    [
        ("%d of them", ("many",), "%d of them", "TypeError"),
        ("%s and %s", ("one",), "%s and %s", "TypeError"),
        ("%s", (Mute(),), "%s", "ValueError"),
        (Mute(), (), "Mute", "ValueError"),
    ],
)
def test_arguments_that_do_not_fit_leave_a_line_that_says_so(
    message: object, arguments: tuple[object, ...], told: str, error: str
) -> None:
    record = logging.LogRecord("lib", logging.INFO, __file__, 1, message, arguments, None)

    line = json.loads(LineFormatter().format(record))

    assert line["message"] == f"a log line that cannot be made: {told}"
    assert (line["level"], line["logger"], line["error"]) == ("INFO", "lib", error)
    assert "many" not in json.dumps(line)
