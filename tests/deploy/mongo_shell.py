"""What runs in mongosh, without mongosh: scripts on the browser driver's Node, on a real mongod."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import playwright
from bson import json_util
from pymongo import MongoClient
from pymongo.errors import OperationFailure

_NODE: Final = Path(playwright.__file__).parent / "driver" / "node"
_METHODS: Final = Path(__file__).with_name("mongo_shell.js")

Document = dict[str, Any]


def run_script(script: str, address: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Status and words of a script.

    Args:
        script: JavaScript; of mongosh's methods it has those of `mongo_shell.js`.
        address: of the mongod, host:port.
        environment: what the script reads.
    """
    with subprocess.Popen(
        [_NODE, "--require", _METHODS, "--eval", script],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as node:
        assert node.stdin
        assert node.stdout
        assert node.stderr
        _serve(node.stdout, node.stdin, address)
        words = node.stderr.read()
    return node.returncode, words


def _serve(requests: IO[str], replies: IO[str], address: str) -> None:
    credentials: Document = {}
    for line in requests:
        request = json.loads(line)
        if "user" in request:
            credentials = {"username": request["user"], "password": request["password"]}
            request = {"database": "admin", "command": {"ping": 1}}
        client: MongoClient[Document] = MongoClient(address, directConnection=True, **credentials)
        with client:
            replies.write(_answer(client, **request) + "\n")
            replies.flush()


def _answer(client: MongoClient[Document], database: str, command: Document) -> str:
    try:
        reply = client[database].command(command)
    except OperationFailure as exc:
        reply = {"failure": exc.details}
    return json_util.dumps(reply, json_options=json_util.RELAXED_JSON_OPTIONS)
