"""/v1/definitions"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse
from rest_framework.request import Request

from jobs import services
from jobs.api.answers import json_answer
from jobs.api.body import read_json
from jobs.api.query import DEFINITION_PARAMETERS, ONE_PARAMETERS, list_arguments, next_link
from jobs.api.representation import definition_body
from jobs.api.v1 import openapi
from jobs.api.view import ApiView
from jobs.definition_services import NOTHING
from jobs.definitions import Definition
from jobs.errors import InvalidJob

_VERSION_TAG: Final = re.compile(r'"([0-9]{1,9})"')


class DefinitionsView(ApiView):
    """/v1/definitions"""

    @openapi.CREATE_DEFINITION
    def post(self, request: Request) -> HttpResponse:
        return _answer(services.default().definitions.create(read_json(request)), is_new=True)

    @openapi.LIST_DEFINITIONS
    def get(self, request: Request) -> HttpResponse:
        arguments = list_arguments(request.GET, DEFINITION_PARAMETERS)
        definitions, following = services.default().repository.definitions.page(**arguments)
        headers = next_link(request, following)
        return json_answer([definition_body(each) for each in definitions], headers=headers)


class DefinitionView(ApiView):
    """/v1/definitions/{name}"""

    @openapi.GET_DEFINITION
    def get(self, request: Request, name: str) -> HttpResponse:
        return _answer(services.default().definitions.get(_tenant(request), name))

    @openapi.PUT_DEFINITION
    def put(self, request: Request, name: str) -> HttpResponse:
        definition, is_new = services.default().definitions.put(
            _tenant(request), name, read_json(request), version=_if_match(request)
        )
        return _answer(definition, is_new=is_new)

    @openapi.DELETE_DEFINITION
    def delete(self, request: Request, name: str) -> HttpResponse:
        deleted = services.default().definitions.delete(
            _tenant(request), name, version=_if_match(request)
        )
        return json_answer(definition_body(deleted))


def _answer(definition: Definition, *, is_new: bool = False) -> HttpResponse:
    headers = {"ETag": f'"{definition.version}"'}
    if is_new:
        query = urlencode({"tenantId": definition.tenant_id})
        headers["Location"] = f"/v1/definitions/{definition.name}?{query}"
    return json_answer(definition_body(definition), 201 if is_new else 200, headers)


def _tenant(request: Request) -> str:
    tenant_id: str = list_arguments(request.GET, ONE_PARAMETERS)["tenant_id"]
    return tenant_id


def _if_match(request: Request) -> int | None:
    """The version that the request is meant for; None: whatever is current."""
    if request.headers.get("If-None-Match") == "*":
        return NOTHING
    tag = request.headers.get("If-Match", "*")
    if tag == "*":
        return None
    if (match := _VERSION_TAG.fullmatch(tag)) is None:
        raise InvalidJob("If-Match", 'must be an ETag as GET answers it, such as "3"')
    return int(match[1])
