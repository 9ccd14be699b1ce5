"""Logging setup of the service: one JSON object per line, rotated files, secrets redacted."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import re
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

from core.errors import BadInput
from core.json_walk import mapped
from core.log import silence
from core.log_library import structlog
from core.secret_rule import KNOWN_NAMES
from core.token_formats import without_tokens

MAX_BYTES = 5 * 1024 * 1024
KEPT = 3

# Looser than the rule for arguments: a log loses nothing by `token_count`.
_SECRET = re.compile(r"pass(word|phrase)|token|secret|private|authorization|cookie|api_?key", re.IGNORECASE)
MASK = "(not logged)"


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact every value whose name marks it as secret, at any depth."""
    return {key: _masked(key, value) for key, value in event.items()}


def mask_words(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact, in every text, well-known token formats and secrets that this process's services have sent."""
    return {key: mapped(value, _worded, _worded) for key, value in event.items()}


def _worded(value: Any) -> Any:
    if isinstance(value, str):
        for masks in (without_tokens, *_ALSO_MASKED):
            value = masks(value)
    return value


# Global, because the log is shared by the whole process.
_ALSO_MASKED: list[Callable[[str], str]] = []


@contextlib.contextmanager
def masking_also(masks: Callable[[str], str]) -> Iterator[None]:
    """Also apply the function `masks` to every text before it is logged."""
    _ALSO_MASKED.append(masks)
    try:
        yield
    finally:
        _ALSO_MASKED.remove(masks)


def _masked(key: str, value: Any) -> Any:
    if _SECRET.search(key) or KNOWN_NAMES.match(key):
        return MASK
    if isinstance(value, dict):
        return {str(inner): _masked(str(inner), one) for inner, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", one) for one in value]
    return value


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    def _open(self) -> Any:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        return super()._open()


@contextlib.contextmanager
def logging_to(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Log everything in this process to `path`; restores the previous configuration afterwards.

    Raises:
        BadInput: the file cannot be written.
    """
    before, root = structlog.get_config(), logging.getLogger()
    level_before = root.level
    handler = _log_to(path, level)
    try:
        with silence(False):
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level_before)
        handler.close()
        structlog.configure(**before)


def _log_to(path: Path, level: int) -> logging.Handler:
    try:
        handler = _PrivateRotatingFile(path, maxBytes=MAX_BYTES, backupCount=KEPT, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The log {path} cannot be written: {error.strerror}.") from error
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask_secrets,
        mask_words,
    ]
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    # Only warnings of these libraries: `ControlServer` logs each connection itself.
    for noisy in ("websockets", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return handler
