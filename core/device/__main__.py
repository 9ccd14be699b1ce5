"""The command line of the device client: `quarterdeck-device`, or `python -m core.device`."""

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
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import platformdirs

from core.aip.pairing import Pairing, check_url, decode_pairing, encode_pairing
from core.aip.tls import server_context
from core.device.build import build_router
from core.device.client import DeviceClient, Ending, Timing
from core.device.config import DeviceConfig, config_of, load_config
from core.device.console_pins import ConsolePins
from core.device.credentials import CredentialStore, make_private
from core.device.device_store import DeviceStore
from core.device.listener import DeviceListener, ListenAddress, read_address
from core.device.router import Router
from core.device.runtime import DeviceRuntime
from core.device.self_check import facts, report
from core.device.stall_detector import LoopThatCountsSleep
from core.environment import keep_memory_private, settle
from core.errors import BadInput, DeviceError
from core.log_library import structlog
from core.machine_id import make_installation_id

_LONGEST_TOKEN = 4096
_LONGEST_CONFIG = 8 * 1024**2
_LONGEST_PAIRING = 32_768
# How long `--check` waits for MCP servers; some are downloaded at their first start, which takes longer.
_MCP_STARTS_S = 20.0
_THREADS_END_S = 3.0
_PR_SET_PDEATHSIG = 1
Built = TypeVar("Built")


def main(arguments: list[str] | None = None) -> int:
    """Run the device client; returns the exit code.

    0: done. 1: it cannot listen now, or its disk is full. 2: bad input, or `--check` found a fault that
    prevents its start. 3: refused for good (the token or the name). With `--once` also 1: the link was lost,
    4: the host's name is unknown, 5: the host cannot be reached, 6: the certificate is not accepted, 7: the
    server is no console.
    """
    options = _parser().parse_args(arguments)
    settle()
    keep_memory_private()
    _log_to_stderr()
    try:
        token = _read_token() if options.token_stdin else None
        config = config_of(_read_line()) if options.config_stdin else load_config(options.config)
        config = config.closing(*options.closed)
        trust = CredentialStore(options.state)
        if options.check:
            return asyncio.run(_check(options, config, trust))
        make_private(options.state)
        if options.forget_pairing:
            return _forget(trust)
        if options.pair is not None:
            return _pair(options, trust)
        with asyncio.Runner(loop_factory=_loop) as runner:
            return runner.run(_run(options, config, trust, token))
    except (BadInput, DeviceError) as error:
        sys.stderr.write(f"quarterdeck-device: {error.message}\n")
        # LOST: a later attempt may succeed. BAD_INPUT: a person must correct something first.
        return int(Ending.BAD_INPUT if isinstance(error, BadInput) else Ending.LOST)
    except KeyboardInterrupt:
        return int(Ending.DONE)


def _loop() -> asyncio.AbstractEventLoop:
    # `LoopThatCountsSleep` needs Linux's CLOCK_BOOTTIME; elsewhere the default loop is better.
    return LoopThatCountsSleep() if sys.platform == "linux" else asyncio.new_event_loop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "quarterdeck-device", description="Offer this machine's tools to a console."
    )
    parser.add_argument("--connect", metavar="URL", help="the console's ws:// or wss:// address")
    parser.add_argument("--listen", metavar="HOST:PORT", help="let a console dial this device instead")
    parser.add_argument(
        "--pair",
        metavar="STRING",
        nargs="?",
        const="",
        help="remember the console whose pairing string this is (- reads it from standard input), and end; "
        "with --listen, print the string for the console, remember where to listen, and end",
    )
    parser.add_argument(
        "--forget-pairing",
        action="store_true",
        help="forget the console this device was paired with, or where it listens and its token, and end",
    )
    parser.add_argument("--advertise", metavar="HOST", help="with --listen: what consoles call this machine")
    parser.add_argument("--name", help="the name this device goes by; otherwise the paired or the host's one")
    parser.add_argument("--config", type=Path, metavar="FILE", help="device.toml with this device's limits")
    parser.add_argument(
        "--token-stdin",
        action="store_true",
        help="read the token from standard input's first line; end when it closes",
    )
    parser.add_argument("--config-stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        default=Path(platformdirs.user_data_dir("quarterdeck-device", appauthor=False)),
        help="where pairing, the record of actions and content kept for undo live",
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
    parser.add_argument("--json", action="store_true", help="with --check: as JSON")
    return parser


def _pair(options: argparse.Namespace, trust: CredentialStore) -> int:
    """Save the pairing with a console, or print the string that a console needs to dial this device."""
    make_installation_id()
    if options.listen:
        if options.pair:
            raise BadInput("--listen makes a pairing string and --pair STRING takes one: not both.")
        address = read_address(options.listen)
        name = options.name or socket.gethostname()
        string = encode_pairing(trust.pairing_with_us(address, name, options.advertise))
        trust.save_listening(address, options.advertise, name)
        sys.stdout.write(string + "\n")
        return int(Ending.DONE)
    if not options.pair:
        raise BadInput("--pair takes the console's pairing string, or - to read it from standard input.")
    pairing = _pasted() if options.pair == "-" else decode_pairing(options.pair)
    trust.save_pairing(pairing)
    then = (
        "the client that runs here connects there as soon as its present link or attempt ends"
        if DeviceStore(options.state).others_run()
        else "start quarterdeck-device to connect"
    )
    sys.stdout.write(f"Paired as {pairing.name} with {pairing.url}; {then}.\n")
    return int(Ending.DONE)


def _pasted() -> Pairing:
    """Read a pairing string from standard input until it is complete, so that a paste and Enter suffice.

    Raises:
        BadInput: standard input ended, or reached `_LONGEST_PAIRING`, without a valid pairing string.
    """
    if sys.stdin.isatty():
        sys.stderr.write("Paste the console's pairing string, then press Enter.\n")
    text = ""
    # Read as bytes: input that is no text must not raise an uncaught decoding error.
    while len(text) < _LONGEST_PAIRING and (line := sys.stdin.buffer.readline(_LONGEST_PAIRING)):
        text += line.decode("ascii", "replace")
        with contextlib.suppress(BadInput):
            return decode_pairing(text)
    return decode_pairing(text)


def _forget(trust: CredentialStore) -> int:
    """Delete the pairing and the listening settings with their token."""
    if trust.forget():
        sys.stdout.write(
            "Forgotten: no console is dialled, and none that knew this device's token gets in.\n"
        )
    else:
        sys.stdout.write("This device was not paired.\n")
    return int(Ending.DONE)


async def _run(
    options: argparse.Namespace, config: DeviceConfig, trust: CredentialStore, token: str | None
) -> int:
    if options.connect and options.listen:
        raise BadInput("--connect and --listen: not both.")
    link = await _link(options, config, trust, token)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        link.stop()

    for number in _ending_signals():
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop)
    if options.token_stdin:
        _end_with_parent(lambda: loop.call_soon_threadsafe(stop))
    while True:
        ending = await (link.run() if isinstance(link, DeviceListener) else link.run(once=options.once))
        if ending is not Ending.PAIRED_ANEW or stopped.is_set():
            break
        # Under another name it is another device, with a router and a record of its own.
        link = await _link(options, config, trust, token)
        if stopped.is_set():
            link.stop()
    _leave_threads_behind(ending)
    return int(ending)


def _ending_signals() -> list[int]:
    """The signals that end this program in order; SIGHUP (a closed terminal) unless `nohup` ignores it."""
    numbers = [int(signal.SIGTERM), int(signal.SIGINT)]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(int(signal.SIGHUP))
    return numbers


def _leave_threads_behind(ending: Ending) -> None:
    """End the process after `_THREADS_END_S`, even if threads still run: all work is answered and recorded.

    A name server or a file system that does not answer can block a thread for minutes, and nothing stops it.
    """
    patience = threading.Timer(_THREADS_END_S, os._exit, [int(ending)])
    patience.daemon = True
    patience.start()


async def _link(
    options: argparse.Namespace, config: DeviceConfig, trust: CredentialStore, token: str | None
) -> DeviceClient | DeviceListener:
    """The client or listener that the command line names, or else that `--pair` has saved."""
    if options.listen:
        return await _listener(options, config, trust, read_address(options.listen), options.name)
    if options.connect:
        name = options.name or socket.gethostname()
        check_url(options.connect)
        router = build_router(config, options.state, name)
        return await _or_closed(
            router,
            lambda: DeviceClient(
                options.connect, name, router, config, token, Timing.of(config.link), state_dir=options.state
            ),
        )
    paired, listening = trust.pairing(), trust.listening()
    if paired is not None:
        name = options.name or paired.name
        router = build_router(config, options.state, name)
        return await _or_closed(
            router,
            lambda: DeviceClient(
                paired.url,
                name,
                router,
                config,
                paired.token,
                Timing.of(config.link),
                fingerprint=paired.fingerprint,
                state_dir=options.state,
                pins=ConsolePins(trust, config.pinned_operators),
            ),
        )
    if listening is not None:
        return await _listener(options, config, trust, listening[0], options.name)
    raise BadInput("Which console? Pair first (--pair STRING), or use --connect URL or --listen HOST:PORT.")


async def _listener(
    options: argparse.Namespace,
    config: DeviceConfig,
    trust: CredentialStore,
    address: ListenAddress,
    name: str | None,
) -> DeviceListener:
    called = name or trust.listening_name() or socket.gethostname()
    token = trust.listening_token()
    secure = None if address.loopback else server_context(trust.identity(called))
    router = build_router(config, options.state, called)
    desk = await _or_closed(router, lambda: DeviceRuntime(called, router, config, options.state))
    try:
        listener = DeviceListener(desk, address, token, secure, Timing.of(config.link))
        await listener.start()
    except (BadInput, DeviceError):
        await desk.close()
        raise
    return listener


async def _or_closed(router: Router, build: Callable[[], Built]) -> Built:
    """Returns the result of `build`; closes the router if it raises."""
    try:
        return build()
    except (BadInput, DeviceError):
        await router.close()
        raise


async def _check(options: argparse.Namespace, config: DeviceConfig, trust: CredentialStore) -> int:
    paired = None if options.name else _known_name(trust)
    name = options.name or paired or socket.gethostname()
    fault = _state_fault(options.state)
    # If the state folder cannot be used, a temporary one allows the rest of the report.
    with tempfile.TemporaryDirectory(prefix="quarterdeck-check-") as aside:
        router = build_router(config, Path(aside) if fault else options.state, name)
        if router.hosted is not None:
            await router.hosted.settled(_MCP_STARTS_S)
        found = facts(name, config, router, trust, fault)
        sys.stdout.write(json.dumps(found, indent=2) + "\n" if options.json else report(found))
        await router.close()
    return int(Ending.BAD_INPUT if fault or found["link"]["state"] == "broken" else Ending.DONE)


def _state_fault(folder: Path) -> str:
    """Why the client cannot write to the state folder; empty if it can."""
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"?")
    except BadInput as error:
        return error.message
    except OSError as error:
        return f"The state folder {folder} cannot be written: {error.strerror}"
    return ""


def _known_name(trust: CredentialStore) -> str | None:
    """The name under which this device was paired; None for an invalid pairing, which `facts` reports."""
    with contextlib.suppress(BadInput):
        pairing = trust.pairing()
        return trust.listening_name() if pairing is None else pairing.name
    return None


def _read_line(limit: int = _LONGEST_CONFIG) -> str:
    """Read a line of standard input byte by byte: `_end_with_parent` must get the rest and its end."""
    line = bytearray()
    while len(line) <= limit:
        byte = os.read(0, 1)
        if byte in {b"", b"\n"}:
            break
        line += byte
    return line.decode("ascii", "replace").strip()


def _read_token() -> str:
    token = _read_line(_LONGEST_TOKEN)
    if not re.fullmatch(r"[\x21-\x7e]{1,4096}", token):
        raise BadInput("Standard input's first line is not a token.")
    return token


def _end_with_parent(stop: Callable[[], object]) -> None:
    """Call `stop` when the parent process ends: standard input closes or, on Linux, SIGTERM arrives."""

    def watch() -> None:
        # Not sys.stdin: its lock, held by a daemon thread, would abort the interpreter's exit.
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):
            stop()

    threading.Thread(target=watch, name="standard input", daemon=True).start()
    if sys.platform == "linux":
        # Standard input stays open if another child of the parent inherited its other end.
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
