"""The documentation page: the OpenAPI document, laid out for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_Schema = Mapping[str, Any]
_LIMITS = (
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "up to {}"),
    ("maxItems", "at most {} items"),
    ("pattern", "matches {}"),
    ("default", "default {}"),
)


@dataclass(frozen=True)
class Row:
    """A field or parameter: one row of a table."""

    name: str
    kind: str
    required: bool
    description: str
    limits: str
    example: str


@dataclass(frozen=True)
class Sample:
    """An example of a body."""

    name: str
    text: str


@dataclass(frozen=True)
class Answer:
    """One status that an operation may answer."""

    status: str
    phrase: str
    description: str
    kind: str
    headers: dict[str, str]
    samples: list[Sample]


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    parameters: list[Row]
    takes: str
    takes_shape: str
    """The named schema in it."""
    samples: list[Sample]
    answers: list[Answer]


@dataclass(frozen=True)
class Shape:
    """A named schema."""

    name: str
    description: str
    rows: list[Row]


def docs_context(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the page's template shows of an OpenAPI document."""
    return {
        "info": document["info"],
        "operations": list(_operations(document["paths"])),
        "shapes": [
            Shape(name, schema.get("description", ""), _rows(schema))
            for name, schema in document["components"]["schemas"].items()
        ],
    }


def _operations(paths: Mapping[str, Any]) -> Iterator[Operation]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            takes = _kind(body["schema"]) if body else ""
            yield Operation(
                anchor=operation["operationId"],
                method=method.upper(),
                path=path,
                summary=operation["summary"],
                description=operation["description"],
                parameters=[
                    _row(
                        parameter["name"],
                        parameter["schema"],
                        parameter.get("required", False),
                        parameter.get("description", ""),
                    )
                    for parameter in operation.get("parameters", ())
                ],
                takes=takes,
                takes_shape=takes.rpartition(" ")[2],
                samples=_samples(body),
                answers=[
                    _answer(status, answer) for status, answer in operation["responses"].items()
                ],
            )


def _answer(status: str, answer: Mapping[str, Any]) -> Answer:
    kinds = [
        _kind(content["schema"]) if media_type == "application/json" else media_type
        for media_type, content in answer["content"].items()
    ]
    return Answer(
        status=status,
        phrase=HTTPStatus(int(status)).phrase,
        description=answer["description"],
        kind=" or ".join(kinds),
        headers={name: header["description"] for name, header in answer.get("headers", {}).items()},
        samples=[sample for content in answer["content"].values() for sample in _samples(content)],
    )


def _samples(content: Mapping[str, Any]) -> list[Sample]:
    return [
        Sample(example.get("summary") or name, _text(example["value"]))
        for name, example in content.get("examples", {}).items()
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _rows(schema: _Schema, prefix: str = "") -> list[Row]:
    rows = []
    for name, field in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        rows.append(_row(prefix + name, field, required, field.get("description", "")))
        rows += _rows(field, f"{prefix}{name}.")
    return rows


def _row(name: str, schema: _Schema, required: bool, description: str) -> Row:
    limits = [text.format(schema[keyword]) for keyword, text in _LIMITS if keyword in schema]
    if "enum" in schema:
        limits.insert(0, "one of " + ", ".join(map(str, schema["enum"])))
    examples = schema.get("examples", ())
    example = json.dumps(examples[0], ensure_ascii=False) if examples else ""
    return Row(name, _kind(schema), required, description, ", ".join(limits), example)


def _kind(schema: _Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"array of {_kind(schema['items'])}"
    return " ".join(filter(None, (schema.get("type", "any JSON"), schema.get("format", ""))))
