"""A line that cannot be made as it was asked for is a line all the same."""

from __future__ import annotations

import json
import logging

import pytest

from jobs.logs.format import LONGEST_VALUE, LineFormatter


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


def line_of(message: str, **extra: object) -> str:
    record = logging.makeLogRecord(
        {"name": "handler", "levelno": logging.INFO, "levelname": "INFO", "msg": message, **extra}
    )
    return LineFormatter().format(record)


def test_a_message_of_megabytes_is_cut_and_says_so() -> None:
    line = line_of("x" * (5 << 20), job_id="7", error="y" * (5 << 20), rows=["z"] * (1 << 20))

    told = json.loads(line)
    assert len(line) < 5 * LONGEST_VALUE
    assert told["message"].startswith("x" * LONGEST_VALUE)
    assert told["message"].endswith("x… (cut: 5242880 characters)")
    assert told["error"].endswith("y… (cut: 5242880 characters)")
    assert told["rows"].startswith('["z", ')
    assert told["job_id"] == "7"


def test_a_line_of_usual_length_is_left_alone() -> None:
    ids = [f"{number:024}" for number in range(1_000)]

    told = json.loads(line_of("m" * 2_000, job_ids=ids))

    assert (told["message"], told["job_ids"]) == ("m" * 2_000, ids)
