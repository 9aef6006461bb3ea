"""What every view of the API is."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.views import APIView


class ApiView(APIView):
    """A view that answers in JSON, whatever the client accepts."""

    http_method_names = ("get", "head", "post", "put", "patch", "delete")
    # What REST framework would add to every answer; `Allow` comes with 405.
    default_response_headers: ClassVar[dict[str, str]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Nothing to negotiate, and nobody to authenticate yet."""
