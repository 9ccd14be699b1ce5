"""An MCP server whose tools take secrets: it writes down what it got, and says it again where it is told to.

`python vault_server.py OPTIONS`, with OPTIONS as JSON: `tools` (input schemas by name) and `record` (a file
that gets a line of JSON for each call). The argument `how` names one of `WAYS` to say every text again that
the call, or an earlier one, brought; `forget` lets it forget the earlier ones first. It knows no SDK, so it
starts at once.
"""

from __future__ import annotations

import base64
import html
import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

SCRIPT = str(Path(__file__).resolve())


def vault(record: Path, tools: dict[str, Any], name: str = "vault") -> dict[str, Any]:
    """An entry of `mcpServers`."""
    options = {"tools": tools, "record": str(record)}
    return {name: {"command": sys.executable, "args": ["-P", SCRIPT, json.dumps(options)]}}


def kept_in(record: Path) -> list[dict[str, Any]]:
    """The arguments of every call that arrived, oldest first."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def _text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def _blob(data: bytes, media: str) -> dict[str, Any]:
    inner = {"uri": "x:blob", "mimeType": media, "blob": base64.b64encode(data).decode()}
    return {"content": [{"type": "resource", "resource": inner}]}


def _spelt(word: str) -> str:
    """A word in every encoding that a program might print it in."""
    data = word.encode()
    forms = [
        quote(word), quote(word, safe=""), quote_plus(word), json.dumps(word), json.dumps(json.dumps(word)),
        json.dumps(word, ensure_ascii=False), html.escape(word), shlex.quote(word), repr(word), data.hex(),
        base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(),
        base64.b64encode(b"user:" + data).decode(), base64.b64encode(b"u:" + data + b"\n").decode(),
    ]  # fmt: skip
    return " ".join(forms)


# How every text that was brought is said again.
WAYS: dict[str, Any] = {
    "in a text": lambda words: _text(" and ".join(words)),
    "in a member": lambda words: {"content": [], "structuredContent": {"a": {"b": words}}},
    "in a name": lambda words: {"content": [], "structuredContent": dict.fromkeys(words, 1)},
    "encoded": lambda words: _text(" ".join(map(_spelt, words))),
    "in a long text": lambda words: _text(("x" * 70_000) + " " + " ".join(words) + ("y" * 70_000)),
    "at the edge of the head": lambda words: _text("x" * 1_996 + " ".join(words) + "y" * 70_000),
    "in a file": lambda words: _blob("\n".join(words).encode(), "text/plain"),
    "in a file of bytes": lambda words: _blob(b"\xff\x00" + b"\0".join(word.encode() for word in words), ""),
    "in an error": lambda words: {**_text(f"bad password {' '.join(words)}"), "isError": True},
    "in a failure": lambda words: {
        "content": [],
        "structuredContent": {"success": False, "error": f"no {' '.join(words)}"},
    },
}
# The server breaks, or tells how far it has come, in those words.
OTHER_WAYS = ("in a protocol error", "in progress")


class Vault:
    """Answers requests one after another, and remembers every text that it was brought."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tools: dict[str, Any] = options["tools"]
        self.record = Path(options["record"])
        self.words: list[str] = []

    def run(self) -> None:
        while line := sys.stdin.readline():
            message = json.loads(line)
            if "id" in message and "method" in message:
                self.serve(message["id"], message["method"], message.get("params", {}))

    def serve(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            self.answer(
                number,
                {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "vault", "version": "1"},
                },
            )
        elif method == "tools/list":
            described = [
                {"name": name, "description": f"Takes a secret: {name}.", "inputSchema": schema}
                for name, schema in self.tools.items()
            ]
            self.answer(number, {"tools": described})
        elif method == "tools/call":
            self.call(number, params.get("arguments", {}), params.get("_meta", {}).get("progressToken"))
        else:
            self.answer(number, {})

    def call(self, number: Any, given: dict[str, Any], token: Any) -> None:
        with self.record.open("a") as file:
            file.write(json.dumps(given) + "\n")
        how = given.pop("how", "")
        if given.pop("forget", False):
            self.words.clear()
        self.words += [word for word in _texts(given) if word not in self.words]
        if how == "in a protocol error":
            error = {"code": -32000, "message": f"refused {' '.join(self.words)}"}
            self.send({"jsonrpc": "2.0", "id": number, "error": error})
            return
        if how == "in progress":
            for done, word in enumerate(self.words, 1):
                told = {"progressToken": token, "progress": done, "message": f"at {word}"}
                self.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        self.answer(number, WAYS[how](self.words) if how in WAYS else _text("kept"))

    def answer(self, number: Any, result: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


if __name__ == "__main__":
    Vault(json.loads(sys.argv[1])).run()
