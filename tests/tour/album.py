"""The pictures of one tour: numbered PNG files, and a contact sheet of them, `index.html`."""

from __future__ import annotations

import html
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from PySide6.QtGui import QImage

INDEX = "index.html"
# Of 0 to 100, zlib's fastest level: a picture costs a quarter less time than at Qt's usual one, and is 8 %
# larger; from 92 on nothing is compressed.
_QUALITY = 89
_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Quarterdeck, the tour</title>
<style>
:root {{ color-scheme: light dark; font: 14px system-ui, sans-serif; }}
body {{ margin: 24px; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(360px, 1fr)); gap: 24px; }}
figure {{ margin: 0; }}
img {{ width: 100%; height: auto; border: 1px solid #8888; border-radius: 4px; }}
figcaption {{ margin-top: 6px; }}
</style>
<h1>The tour, {count} pictures</h1>
<main>
{figures}
</main>
</html>
"""
_FIGURE = (
    '<figure id="{name}"><a href="{file}"><img src="{file}" alt="{title}" width="{width}" height="{height}" '
    'loading="lazy"></a><figcaption>{number} {title}</figcaption></figure>'
)


class Album:
    """Writes pictures in the order in which they are added; the contact sheet when its context ends.

    They are compressed in a thread, while the story goes on.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` exists."""
        self._folder = folder
        self._writer = ThreadPoolExecutor(1, "pictures")
        self._written: list[Future[bool]] = []
        self._figures: list[str] = []
        self.pictures: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left; where the story has ended early, the sheet shows the pictures until then.

        Raises:
            OSError: a picture could not be written.
        """
        self._writer.shutdown()
        (self._folder / INDEX).write_text(
            _PAGE.format(count=len(self.pictures), figures="\n".join(self._figures)), "utf-8"
        )
        if error is None:
            for path, written in zip(self.pictures, self._written, strict=True):
                if not written.result():
                    raise OSError(f"The picture {path} could not be written")

    def add(self, name: str, picture: QImage) -> None:
        """Keep a picture under a name; its file has a number before that."""
        number = f"{len(self.pictures) + 1:02d}"
        path = self._folder / f"{number}-{name}.png"
        self.pictures.append(path)
        self._written.append(self._writer.submit(picture.save, str(path), "PNG", _QUALITY))  # type: ignore[arg-type]
        self._figures.append(
            _FIGURE.format(
                name=html.escape(name),
                file=html.escape(path.name),
                title=html.escape(name.replace("-", " ").capitalize()),
                number=number,
                width=picture.width(),
                height=picture.height(),
            )
        )
