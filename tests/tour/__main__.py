"""`python -m tests.tour --out build/tour`: play the main job in the real window, a picture for each screen.

`index.html` beside the pictures shows all of them. Everything is real: a fresh home, the service and the
device client as processes, the window on a display (a virtual one where there is none). It fails when a step
does not happen. Exit code 0 when all of them did.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import QuarterdeckError
from core.home import Home
from tests.tour.display import some_display

WIDTH, HEIGHT = 1440, 900


def main(arguments: list[str] | None = None) -> int:
    """Play the tour and say where its pictures are."""
    parser = argparse.ArgumentParser(prog="python -m tests.tour", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/tour"), help="where the pictures go")
    parser.add_argument("--here", action="store_true", help="on the display there is, to watch it")
    given = parser.parse_args(arguments)
    out = given.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        if not given.here:
            try:
                stack.enter_context(some_display(WIDTH, HEIGHT))
            except QuarterdeckError as error:
                print(error.info.sentences, file=sys.stderr)
                return 2
        return _play(out, stack.enter_context(_folder()))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the tour's home and files; with a name that reads well on a picture, where it is free."""
    wanted = Path(tempfile.gettempdir()) / "quarterdeck-tour"
    try:
        wanted.mkdir(mode=0o700)
    except FileExistsError:
        wanted = Path(tempfile.mkdtemp(prefix="quarterdeck-tour-"))
    try:
        yield wanted
    finally:
        shutil.rmtree(wanted, ignore_errors=True)


def _play(out: Path, folder: Path) -> int:
    # Qt reads the display's name when it is loaded.
    from PySide6.QtWidgets import QApplication

    from app.overrides import install_guard
    from app.qt_loop import run_on_qt
    from tests.tour.album import INDEX, Album
    from tests.tour.runner import perform
    from tests.tour.ui_driver import StepDidNotHappen

    os.environ.setdefault("QT_API", "pyside6")
    install_guard()
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Quarterdeck")
    try:
        with Album(out) as album:
            run_on_qt(app, perform(app, Home(folder / "home").create(), album, folder))
    except StepDidNotHappen as missed:
        print(f"The tour ended early, in {missed}.\nPictures so far: {out}", file=sys.stderr)
        return 1
    print(f"{len(album.pictures)} pictures in {out / INDEX}")
    return 0


if __name__ == "__main__":
    asyncio.set_event_loop(None)
    sys.exit(main())
