"""Ids of jobs and operations in addresses: 24 hexadecimal digits."""

from __future__ import annotations

from bson import ObjectId


class ObjectIdConverter:
    """`<oid:id>` in a route; anything else is answered with 404."""

    regex = "[0-9a-fA-F]{24}"

    def to_python(self, value: str) -> ObjectId:
        return ObjectId(value)

    def to_url(self, value: ObjectId | str) -> str:
        return str(value)
