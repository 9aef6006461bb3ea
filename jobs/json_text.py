"""JSON, strictly: what Python's reader lets pass (NaN, 1e999, a key twice) is refused here."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn


class NotJson(ValueError):
    """A text is not JSON, or is JSON that would not survive a round trip. Says why."""


def loads(text: str) -> Any:
    """The value that a JSON text stands for.

    Raises:
        NotJson: malformed, not finite, a key twice in one object, or nested too deeply to be read.
    """
    try:
        return _reader.decode(text)
    except json.JSONDecodeError as exc:
        raise NotJson(f"{exc.msg} (line {exc.lineno}, column {exc.colno})") from exc
    except NotJson:
        raise
    except RecursionError as exc:
        raise NotJson("nested too deeply") from exc
    except ValueError as exc:
        # Python converts no more than 4,300 digits: the work grows with their square.
        raise NotJson("an integer has thousands of digits") from exc


def dumps(value: Any) -> str:
    """A value as compact JSON; what is not ASCII stays as it is.

    Raises:
        TypeError, ValueError: it has none.
    """
    return _writer.encode(value)


def to_bytes(value: Any) -> bytes:
    """A value as JSON in UTF-8; a lone surrogate, which UTF-8 lacks, becomes its escape."""
    # backslashreplace writes a surrogate as \udXXX, which is just JSON's escape for it.
    return dumps(value).encode(errors="backslashreplace")


def kind_of(value: object) -> str:
    """What a decoded value is in JSON's words, with its article."""
    return _KINDS.get(type(value), "something else")


_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_LONGEST_SHOWN: Final = 60


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    if len(result) != len(members):
        seen: set[str] = set()
        for key, _ in members:
            if key in seen:
                raise NotJson(f"the key {dumps(key[:_LONGEST_SHOWN])} comes twice in one object")
            seen.add(key)
    return result


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson(f"the number {text[:_LONGEST_SHOWN]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON value")


_reader: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_refuse_constant
)
_writer: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
