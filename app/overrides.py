"""Guards the window's overrides of Qt's methods against what PySide6 does with an error in them.

Two defects, measured with PySide6 6.8.3, 6.9.3, 6.10.1 and 6.11.3:

* With Python 3.11 the process ends by a segmentation fault when C code raised the error, as with an index
  out of range or a missing attribute: PySide6 takes for an object what is none before Python 3.12.
* Before 6.10 an error can keep Qt from coming back to Python: it processes events without end.

Where either exists no error goes through Qt: it is reported where uncaught errors are, and Qt gets a harmless
answer. Elsewhere nothing is guarded: PySide6 reports the error, or raises it in the code that called Qt.
`tests/gui/test_overrides.py` fails once no supported version needs the guard.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import PySide6
from PySide6.QtCore import QModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QPixmap, QRegion
from shiboken6 import Shiboken

SAFE_PYTHON = (3, 12)
SAFE_PYSIDE = (6, 10, 1)
IS_NEEDED = sys.version_info < SAFE_PYTHON or PySide6.__version_info__[:3] < SAFE_PYSIDE

_MARK = "is_guarded"
_packages: set[str] = set()

# Not virtual: Qt never calls these by itself, and their errors belong to the Python code that did.
CALLED_BY_PYTHON = frozenset({"clear", "click", "isEnabled", "setEnabled", "setText", "update"})

# What makes the answer that Qt gets from an override that failed, and the overrides of that kind.
_ANSWERS: tuple[tuple[Callable[[], Any], str], ...] = (
    (
        # Nothing is returned, or Qt takes a missing object or value.
        lambda: None,
        "addItem changeEvent child clone closeEvent contextMenuEvent createMimeDataFromSelection data "
        "dataChanged doAction drawBranches enterEvent fetchMore focusInEvent focusOutEvent headerData "
        "highlightBlock inputMethodEvent itemAt keyPressEvent keyReleaseEvent "
        "leaveEvent mouseDoubleClickEvent mouseMoveEvent mousePressEvent mouseReleaseEvent "
        "nextCheckState paint paintEvent paintSection redo resizeEvent scrollContentsBy scrollTo "
        "selectionChanged setGeometry setSelection showEvent sort takeAt undo updateGeometries "
        "wheelEvent",
    ),
    (
        bool,
        "canFetchMore event eventFilter focusNextPrevChild hasChildren hasHeightForWidth hitButton "
        "isIndexHidden mergeWith viewportEvent",
    ),
    (
        int,
        "childCount columnCount count heightForWidth horizontalOffset pixelMetric rowCount styleHint "
        "verticalOffset",
    ),
    (lambda: -1, "id indexOfChild"),
    (str, "text"),
    (list, "actionNames relations"),
    (QModelIndex, "index indexAt moveCursor parent"),
    (QSize, "minimumSize minimumSizeHint sizeHint"),
    (QRect, "visualRect"),
    (QRectF, "blockBoundingRect"),
    (QRegion, "visualRegionForSelection"),
    (QPixmap, "pixmap scaledPixmap"),
    (QAccessible.State, "state"),
    (lambda: Qt.ItemFlag.NoItemFlags, "flags"),
    (lambda: (False, 0), "nativeEventFilter"),
)
ANSWERS = {name: answer for answer, names in _ANSWERS for name in names.split()}


def install_guard() -> None:
    """Guard the window's own classes, where the versions in use need it; again and again is as once."""
    if IS_NEEDED:
        guard_package("app")


def guard_package(package: str) -> None:
    """Guard what the classes of a package override: those that there are, and those made from now on."""
    if package in _packages:
        return
    if not _packages:
        Shiboken.Object.__init_subclass__ = classmethod(_guard_new)  # type: ignore
    _packages.add(package)
    for cls in subclasses(Shiboken.Object):
        _guard(cls)


def is_guarded(method: Callable[..., Any]) -> bool:
    """Whether no error of a method reaches Qt."""
    return hasattr(method, _MARK)


def is_of(cls: type, package: str) -> bool:
    """Whether a class was made in a package."""
    return f"{cls.__module__}.".startswith(f"{package}.")


def subclasses(cls: type) -> Iterator[type]:
    """Every class below `cls`; one that is reached in two ways comes twice."""
    below: type
    for below in type.__subclasses__(cls):
        yield below
        yield from subclasses(below)


def overrides(cls: type) -> Iterator[tuple[type, str, FunctionType]]:
    """The methods, with their classes, that take the place of one of Qt's; mixed in ones too."""
    theirs = [base for base in cls.__mro__ if base.__module__.startswith("PySide6.")]
    for base in cls.__mro__:
        if base in theirs:
            return
        for name, method in list(vars(base).items()):
            # Constructors are called by Python, which needs no help.
            is_ours = isinstance(method, FunctionType) and not name.startswith("__")
            if is_ours and any(name in vars(qt_class) for qt_class in theirs):
                yield base, name, method


def _guard_new(cls: Any, **named: Any) -> None:
    super(Shiboken.Object, cls).__init_subclass__(**named)
    _guard(cls)


def _guard(cls: type) -> None:
    if not any(is_of(cls, package) for package in _packages):
        return
    for owner, name, method in overrides(cls):
        is_ours = any(is_of(owner, package) for package in _packages)
        if is_ours and name not in CALLED_BY_PYTHON and not is_guarded(method):
            setattr(owner, name, _guarded(method))


def _guarded(method: FunctionType) -> Callable[..., Any]:
    name = method.__name__
    answer = ANSWERS.get(name)

    @functools.wraps(method)
    def call(*positional: Any, **named: Any) -> Any:
        try:
            return method(*positional, **named)
        except Exception as error:  # noqa: BLE001  # the edge between Qt and the window
            error.add_note(f"in {method.__qualname__}, which Qt called")
            sys.excepthook(type(error), error, error.__traceback__)
            return answer() if answer is not None else None

    setattr(call, _MARK, True)
    return call
