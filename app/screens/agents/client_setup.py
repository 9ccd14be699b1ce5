"""What is put into the configuration of an agent's program, so that it reaches this console by MCP."""

from __future__ import annotations

import json
import os

from core.errors import BadInput
from core.home import Home

TOKEN_FILE = "/path/to/the/token"
HTTP_ADDRESS = "127.0.0.1:8765"


def home_words(home: str) -> list[str]:
    """The words of a command line that choose this home; none for the platform's usual one."""
    # An agent's program does not have this window's environment.
    try:
        usual = "QUARTERDECK_HOME" not in os.environ and home == str(Home.choose().path)
    except BadInput:
        usual = False
    return [] if usual or not home else ["--home", home]


def stdio_config(name: str, home: str) -> str:
    """The entry of `mcpServers` for a program that starts the gateway itself; its token is in a file."""
    arguments = ["gateway", "--as", name, "--token-file", TOKEN_FILE, *home_words(home)]
    return _servers({"command": "quarterdeck", "args": arguments})


def http_config(token: str) -> str:
    """The entry of `mcpServers` for a program that speaks HTTP to a gateway that runs already."""
    return _servers(
        {
            "type": "http",
            "url": f"http://{HTTP_ADDRESS}/mcp",
            "headers": {"Authorization": f"Bearer {token}"},
        }
    )


def http_command(home: str) -> str:
    """The command that serves every agent over HTTP."""
    return " ".join(["quarterdeck gateway --http", HTTP_ADDRESS, *home_words(home)])


def _servers(server: dict[str, object]) -> str:
    # One member a line, however many words a command line has.
    members = ",\n".join(f"      {json.dumps(name)}: {json.dumps(value)}" for name, value in server.items())
    return f'{{\n  "mcpServers": {{\n    "quarterdeck": {{\n{members}\n    }}\n  }}\n}}'
