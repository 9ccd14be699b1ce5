"""The pictures of a replay: fetched by digest, decoded, made small and compared in threads, kept for a while.

A step must not wait: whatever is not there yet is asked for and told by a signal when it has come. What is
wanted now replaces what was wanted before, so that leaping through a long run leaves nothing queued behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, QRect, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainterPath, QRegion

from app.images import (
    ENTRY_BYTES,
    BoundedCache,
    ImageFault,
    ImageKey,
    check_bytes,
    decode_image,
    image_problem,
    images_of,
)
from app.service_client import ConsoleLink
from core.errors import QuarterdeckError
from core.replay.image_diff import Changes, Rect, changed_tiles
from core.service.console import Console

# Steps are drawn at the same time: more threads than this make them stutter.
WORKERS = 2
MOST_BYTES = 48 * 1024 * 1024
MOST_SCALED_BYTES = 64 * 1024 * 1024
MOST_CHANGES = 2000
TILE = 16
# Pictures that differ in more pieces than this are outlined piece by piece only as boxes.
MOST_RECTS = 600


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a picture cannot be shown, in words for its place."""

    words: str


@dataclass(frozen=True, slots=True)
class ImageDifference:
    """Where a picture differs from the one before: the outline in its pixels, how many places, the share."""

    path: QPainterPath
    places: int
    share: float
    same_size: bool
    size: tuple[int, int]

    def words(self) -> str:
        """`2 places, 1.4 % of the picture`."""
        if not self.same_size:
            return "another size than before: all of it"
        if not self.places:
            return "no difference"
        percent = self.share * 100
        share = f"{percent:.1f}" if percent >= 0.1 else "under 0.1"
        return f"{self.places} {'place' if self.places == 1 else 'places'}, {share} % of the picture"


@dataclass(frozen=True, slots=True)
class ScaledImage:
    """A picture made to fit into a place of this many device pixels."""

    blob: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ImagePair:
    """Two pictures to compare."""

    before: str
    after: str


Job = ScaledImage | ImagePair | str
Outcome = QImage | ImageDifference | Problem


class ReplayImages(QObject):
    """Keeps pictures, their small copies and their differences, within bounds.

    Signals:
        came(job): this job has an outcome now.
    """

    came = Signal(object)

    def __init__(self, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._images = images_of(link)
        self._bytes: BoundedCache[str, bytes] = BoundedCache(MOST_BYTES)
        self._problems: BoundedCache[str, Problem] = BoundedCache(MOST_CHANGES)
        self._small: BoundedCache[ScaledImage, Outcome] = BoundedCache(MOST_SCALED_BYTES)
        self._spots: BoundedCache[ImagePair, Outcome] = BoundedCache(MOST_CHANGES)
        self._wanted: dict[str, list[Job]] = {}
        self._running: set[Job] = set()

    def get(self, job: Job) -> Outcome | None:
        """What is there for a job, None when nothing is yet."""
        if isinstance(job, ScaledImage):
            return self._small.get(job)
        if isinstance(job, ImagePair):
            return self._spots.get(job)
        kept = self._images.get(ImageKey(job))
        if kept is None:
            return self._problems.get(job)
        return Problem(kept.value) if isinstance(kept, ImageFault) else kept

    def picture(self, blob: str) -> QImage | Problem | None:
        """A picture in full."""
        found = self.get(blob)
        return found if isinstance(found, QImage | Problem) else None

    def small(self, blob: str, size: QSize) -> QImage | Problem | None:
        """A picture as it fits into `size` device pixels."""
        found = self.get(ScaledImage(blob, size.width(), size.height()))
        return found if isinstance(found, QImage | Problem) else None

    def spots(self, before: str, after: str) -> ImageDifference | Problem | None:
        """What changed between two pictures."""
        found = self.get(ImagePair(before, after))
        return found if isinstance(found, ImageDifference | Problem) else None

    def want(self, who: str, jobs: Iterable[Job]) -> None:
        """Say what `who` needs now, most urgent first; replaces what it wanted before."""
        self._wanted[who] = [job for job in dict.fromkeys(jobs) if self.get(job) is None]
        self._go_on()

    def forget_problems(self) -> None:
        """Try failed pictures again, after a reconnection."""
        self._problems.drop([blob for blob, _ in self._problems.items()])
        self._small.drop([job for job, outcome in self._small.items() if isinstance(outcome, Problem)])
        self._spots.drop([job for job, outcome in self._spots.items() if isinstance(outcome, Problem)])

    def stop(self) -> None:
        """Want nothing any more."""
        self._wanted.clear()

    def _go_on(self) -> None:
        while len(self._running) < WORKERS and (job := self._next()) is not None:
            self._running.add(job)
            self._link.ask(
                partial(self._work, job),
                partial(self._done, job),
                partial(self._failed, job),
                what="read a picture",
            )

    def _next(self) -> Job | None:
        """One job, from the first list that has any: lists are in the order in which they were made."""
        for jobs in self._wanted.values():
            while jobs:
                job = jobs.pop(0)
                if job not in self._running and self.get(job) is None:
                    return job
        return None

    async def _work(self, job: Job, console: Console) -> Outcome:
        if isinstance(job, str):
            kept = self._images.get(ImageKey(job))
            if isinstance(kept, QImage):
                return kept
            return await self._images.decode(ImageKey(job), await self._data(console, job))
        if isinstance(job, ScaledImage):
            fit = QSize(job.width, job.height)
            full = self._images.get(ImageKey(job.blob))
            if isinstance(full, QImage):
                return await self._images.in_thread(_fitted, full, fit)
            data = await self._data(console, job.blob)
            return await self._images.in_thread(lambda: _fitted(decode_image(data), fit))
        before = await self._data(console, job.before)
        after = await self._data(console, job.after)
        return await self._images.in_thread(_spots, before, after)

    async def _data(self, console: Console, blob: str) -> bytes:
        data = self._bytes.get(blob)
        if data is None:
            data = await console.journal.blob(blob)
            self._bytes.put(blob, data, len(data))
        return data

    def _done(self, job: Job, outcome: Outcome) -> None:
        self._running.discard(job)
        if isinstance(job, ImagePair):
            self._spots.put(job, outcome, 1)
        elif isinstance(job, ScaledImage):
            weight = outcome.sizeInBytes() if isinstance(outcome, QImage) else 0
            self._small.put(job, outcome, weight + ENTRY_BYTES)
        elif isinstance(outcome, Problem):
            self._problems.put(job, outcome, 1)
        self.came.emit(job)
        self._go_on()

    def _failed(self, job: Job, error: QuarterdeckError) -> None:
        self._done(job, Problem(image_problem(error)))


def _fitted(image: QImage, fit: QSize) -> QImage:
    """Make a picture fit, by averaging; never enlarged, never distorted."""
    target = image.size().scaled(fit, Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1))
    if target.width() >= image.width():
        return image
    mode = Qt.TransformationMode.SmoothTransformation
    scaled = image.scaled(target, Qt.AspectRatioMode.IgnoreAspectRatio, mode)
    return scaled.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)


def _spots(before: bytes, after: bytes) -> ImageDifference:
    check_bytes(before)
    check_bytes(after)
    changes = changed_tiles(before, after, TILE)
    groups = _groups(changes)
    rects = changes.rects if len(changes.rects) <= MOST_RECTS else groups
    region = QRegion()
    for rect in rects:
        region = region.united(QRect(rect.x, rect.y, rect.width, rect.height))
    path = QPainterPath()
    path.addRegion(region)
    return ImageDifference(path.simplified(), len(groups), changes.share, changes.same_size, changes.size)


def _groups(changes: Changes) -> list[Rect]:
    """Boxes around changed tiles that touch, or have at most one quiet tile between them."""
    left = {
        (column, row)
        for rect in changes.rects
        for column in range(rect.x // TILE, -(-(rect.x + rect.width) // TILE))
        for row in range(rect.y // TILE, -(-(rect.y + rect.height) // TILE))
    }
    groups: list[Rect] = []
    near = [(x, y) for x in range(-2, 3) for y in range(-2, 3)]
    while left:
        seed = left.pop()
        group, todo = [seed], [seed]
        while todo:
            column, row = todo.pop()
            for x, y in near:
                if (other := (column + x, row + y)) in left:
                    left.discard(other)
                    group.append(other)
                    todo.append(other)
        x, y = min(column for column, _ in group) * TILE, min(row for _, row in group) * TILE
        right = min(changes.size[0], (max(column for column, _ in group) + 1) * TILE)
        bottom = min(changes.size[1], (max(row for _, row in group) + 1) * TILE)
        groups.append(Rect(x=x, y=y, width=right - x, height=bottom - y))
    return groups
