"""An error in an override of one of Qt's methods is told, and ends nothing.

PySide6 (6.8.3 to 6.11.3 with Python 3.11, measured) ends the process when C code raised it, as with an index
out of range or a missing attribute: it takes for an object what is none before Python 3.12. And while an
error waits until Qt is back in Python, each override that Qt calls meanwhile loses a reference, until its
function is gone. So no error goes through Qt: it is told where uncaught ones are, and Qt gets a harmless
answer.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from PySide6.QtCore import QModelIndex, QRect, QRectF, QSize, Qt
from shiboken6 import Shiboken

_MARK = "tells_its_errors"
# What is painted may fail sixty times a second.
TELL_AGAIN_S = 10.0
# What Qt offers under these names it never calls by itself: their errors are for whoever did.
_OURS_TO_CALL = frozenset({"addItem", "click", "isEnabled", "setEnabled", "setText", "update"})
# Where Qt wants more than nothing.
_HARMLESS: dict[str, Any] = {
    **dict.fromkeys(
        (
            "canFetchMore",
            "editorEvent",
            "event",
            "eventFilter",
            "focusNextPrevChild",
            "hasChildren",
            "hasHeightForWidth",
            "hitButton",
            "isIndexHidden",
            "mergeWith",
            "viewportEvent",
        ),
        False,
    ),
    **dict.fromkeys(
        ("columnCount", "count", "heightForWidth", "horizontalOffset", "rowCount", "verticalOffset"), 0
    ),
    **dict.fromkeys(("index", "indexAt", "moveCursor", "parent"), QModelIndex()),
    **dict.fromkeys(("minimumSize", "minimumSizeHint", "sizeHint"), QSize()),
    "blockBoundingRect": QRectF(),
    "flags": Qt.ItemFlag.NoItemFlags,
    "id": -1,
    "nativeEventFilter": (False, 0),
    "pixelMetric": 0,
    "styleHint": 0,
    "visualRect": QRect(),
}
_told: dict[tuple[str, type[Exception]], float] = {}


def guard_overrides() -> None:
    """Guard what classes that are made from now on override; again and again is as once."""
    root = Shiboken.Object
    if not hasattr(root, _MARK):
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
        except Exception as error:  # the edge between Qt and us
            if method.__name__ in _OURS_TO_CALL:
                raise
            _tell(method.__qualname__, error)
            return _HARMLESS.get(method.__name__)

    setattr(call, _MARK, True)
    return call


def _tell(where: str, error: Exception) -> None:
    last = _told.get((where, type(error)))
    if last is None or time.monotonic() - last >= TELL_AGAIN_S:
        _told[where, type(error)] = time.monotonic()
        error.add_note(f"in {where}, which Qt called")
        sys.excepthook(type(error), error, error.__traceback__)
