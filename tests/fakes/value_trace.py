"""Follows one marked value through the program: which functions of `core` hold it, and by which names."""

from __future__ import annotations

import opcode
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import core

_ROOT = str(Path(core.__file__).parent)
_RESUME = opcode.opmap["RESUME"]
# Levels of objects and lists that are opened; the value of a command in a batch lies five deep.
_DEEPEST = 7


def _holds(value: Any, mark: str, depth: int = 0) -> bool:
    """Whether a value is a text or bytes with the mark, or a plain object or list that has one in it.

    A record that carries the value is not the value: a stage that takes the record makes no name for it.
    """
    if isinstance(value, str):
        return mark in value
    if isinstance(value, bytes | bytearray):
        return mark.encode() in value
    if depth >= _DEEPEST:
        return False
    if type(value) is dict:
        return any(_holds(part, mark, depth + 1) for part in value.copy().values())
    if type(value) in (list, tuple):
        return any(_holds(part, mark, depth + 1) for part in tuple(value))
    return False


def _parameters_of(code: CodeType) -> tuple[str, ...]:
    flags = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]


def _begins(frame: FrameType) -> bool:
    """Whether a function is called, and not a coroutine or generator taken up again."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] != _RESUME or code[at + 1] == 0


@dataclass
class ValueTrace:
    """Where the marked value was: the places of each name, and the files in the order of the calls."""

    mark: str
    names: dict[str, set[str]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    is_recording: bool = False

    @property
    def returns(self) -> list[str]:
        """The files to which the value was handed again after another file had it."""
        stays = [file for file, _ in groupby(self.calls)]
        return [file for at, file in enumerate(stays) if file in stays[:at]]

    def report(self) -> str:
        """All that was found, for the message of a failed test."""
        names = (f"  {name}: {', '.join(sorted(places))}" for name, places in sorted(self.names.items()))
        return "\n".join(
            [
                f"{len(self.names)} names, {len(self.returns)} returns, {len(self.files)} files, "
                f"{len(self.functions)} functions",
                *names,
                "stays: " + " > ".join(file for file, _ in groupby(self.calls)),
            ]
        )

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at a function of `core` when it is called and when it returns; for `sys.setprofile`."""
        if not self.is_recording or event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(_ROOT):
            return
        if event == "call" and not _begins(frame):
            return
        held = frame.f_locals
        names = _parameters_of(code) if event == "call" else tuple(held)
        found = [name for name in names if name in held and _holds(held[name], self.mark)]
        if not found:
            return
        file = code.co_filename.removeprefix(f"{_ROOT}/")
        self.files.add(file)
        self.functions.add(f"{file}:{code.co_qualname}")
        for name in found:
            self.names.setdefault(name, set()).add(f"{file}:{code.co_qualname}")
        if event == "call":
            self.calls.append(file)


@contextmanager
def tracing(mark: str) -> Iterator[ValueTrace]:
    """A trace of this thread and of all that begin meanwhile; it records while `is_recording` is set."""
    trace = ValueTrace(mark)
    before = sys.getprofile()
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
