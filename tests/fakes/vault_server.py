"""An MCP server whose tools take secrets: it writes down what it got, and says it again where it is told to.

`python vault_server.py OPTIONS`, with OPTIONS as JSON: `tools` (input schemas by name) and `record` (a file
that gets a line of JSON for each call). It knows no SDK, so it starts at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).resolve())


def vault(record: Path, tools: dict[str, Any], name: str = "vault") -> dict[str, Any]:
    """An entry of `mcpServers`."""
    options = {"tools": tools, "record": str(record)}
    return {name: {"command": sys.executable, "args": ["-P", SCRIPT, json.dumps(options)]}}


def kept_in(record: Path) -> list[dict[str, Any]]:
    """The arguments of every call that arrived, oldest first."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


class Vault:
    """Answers requests one after another."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tools: dict[str, Any] = options["tools"]
        self.record = Path(options["record"])

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
        self.answer(number, {"content": [{"type": "text", "text": "kept"}]})

    def answer(self, number: Any, result: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Vault(json.loads(sys.argv[1])).run()
