"""An error in an override of one of Qt's methods is told, and ends nothing.

PySide6 (6.8.3 to 6.11.3, measured) adds words to whatever an override raises. Before Python 3.12 what C code
raised, such as an index out of range or a missing attribute, is no object yet at that moment, and the process
dies of it: a window that cannot paint one row would be gone without a word. What has passed through an
`except` is an object, so every override of ours gets one around it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from shiboken6 import Shiboken

NEEDED = sys.version_info < (3, 12)
_MARK = "tells_its_errors"


def guard_overrides() -> None:
    """Guard what classes that are made from now on override; again and again is as once."""
    root = Shiboken.Object
    if NEEDED and not hasattr(root, _MARK):
        setattr(root, _MARK, True)
        root.__init_subclass__ = classmethod(_guard)  # type: ignore


def is_guarded(method: Callable[..., Any]) -> bool:
    """Whether what a method raises is told."""
    return hasattr(method, _MARK)


def overrides(cls: type) -> Iterator[tuple[type, str, FunctionType]]:
    """The methods, with their classes, that take the place of one of Qt's; mixed in ones too."""
    theirs = [base for base in cls.__mro__ if base.__module__.startswith("PySide6.")]
    for base in cls.__mro__:
        if base in theirs:
            return
        for name, method in list(vars(base).items()):
            # Constructors are called by Python, which needs no help.
            is_ours = isinstance(method, FunctionType) and not name.startswith("__")
            if is_ours and any(name in vars(one) for one in theirs):
                yield base, name, method


def _guard(cls: Any, **named: Any) -> None:
    super(Shiboken.Object, cls).__init_subclass__(**named)
    for owner, name, method in overrides(cls):
        if not is_guarded(method):
            setattr(owner, name, _guarded(method))


def _guarded(method: FunctionType) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*positional: Any, **named: Any) -> Any:
        try:
            return method(*positional, **named)
        except Exception:
            # Caught and raised anew it is an object.
            raise

    setattr(call, _MARK, True)
    return call
