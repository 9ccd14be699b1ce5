"""`quarterdeck-device`, also `python -m core.device`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import platformdirs
import structlog

from core.device.client import DeviceClient, Ending
from core.device.config import DeviceConfig, load_config
from core.device.router import Router, build_router
from core.errors import BadInput

_LONGEST_TOKEN = 4096
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str] | None = None) -> int:
    """Run the device client; returns the exit code: 0 done, 1 no link, 2 bad input, 3 refused for good."""
    options = _parser().parse_args(arguments)
    _log_to_stderr()
    try:
        config = load_config(options.config).closing(*options.closed)
        token = _read_token() if options.token_stdin else None
        return asyncio.run(_run(options, config, token))
    except BadInput as error:
        sys.stderr.write(f"quarterdeck-device: {error.message}\n")
        return int(Ending.BAD_INPUT)
    except KeyboardInterrupt:
        return int(Ending.DONE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "quarterdeck-device", description="Offer this machine's tools to a console."
    )
    parser.add_argument("--connect", metavar="URL", help="the console's ws:// or wss:// address")
    parser.add_argument("--name", default=socket.gethostname(), help="the name this device goes by")
    parser.add_argument("--config", type=Path, metavar="FILE", help="device.toml with this device's limits")
    parser.add_argument(
        "--token-stdin",
        action="store_true",
        help="read the token from standard input's first line; end when it closes",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        default=Path(platformdirs.user_data_dir("quarterdeck-device", appauthor=False)),
        help="where content kept for undo lives",
    )
    parser.add_argument(
        "--closed",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a path that no file tool may touch, below a root or not; may be repeated",
    )
    parser.add_argument("--once", action="store_true", help="do not come back when the link ends")
    parser.add_argument("--check", action="store_true", help="say what would be offered, and end")
    return parser


async def _run(options: argparse.Namespace, config: DeviceConfig, token: str | None) -> int:
    router = build_router(config, options.state, options.name)
    if options.check:
        sys.stdout.write(_report(options.name, config, router))
        await router.close()
        return int(Ending.DONE)
    if not options.connect:
        await router.close()
        raise BadInput("--connect URL is needed")
    client = DeviceClient(options.connect, options.name, router, config, token)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, client.stop)
    if options.token_stdin:
        _end_with_parent(lambda: loop.call_soon_threadsafe(client.stop))
    return int(await client.run(once=options.once))


def _report(name: str, config: DeviceConfig, router: Router) -> str:
    found = {
        "name": name,
        "roots": [str(root) for root in config.roots],
        "limits": config.limits.model_dump(),
        "tools": sorted(info.tool_name for info in router.tools()),
        "unavailable": [asdict(missing) for missing in router.unavailable],
    }
    return json.dumps(found, indent=2) + "\n"


def _read_token() -> str:
    """Read the first line of standard input, byte by byte: what follows must stay for the end's watcher."""
    line = bytearray()
    while len(line) <= _LONGEST_TOKEN:
        byte = os.read(0, 1)
        if byte in {b"", b"\n"}:
            break
        line += byte
    token = line.decode("ascii", "replace").strip()
    if not re.fullmatch(r"[\x21-\x7e]{1,4096}", token):
        raise BadInput("Standard input's first line is not a token")
    return token


def _end_with_parent(stop: Callable[[], object]) -> None:
    """Stop when whoever started us goes away: its end of standard input closes, or Linux says so."""

    def watch() -> None:
        # Not through sys.stdin: its lock, held by a daemon thread, would abort the interpreter's exit.
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):
            stop()

    threading.Thread(target=watch, name="standard input", daemon=True).start()
    if sys.platform == "linux":
        # Standard input alone is not enough where another child of the parent inherited its other end.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _log_to_stderr() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main())
