"""Pictures of a 1920×1080 screen through the device client: how many a second, and how many bytes a frame.

On the wire they are asked for by a bare server, once as our console (binary frames) and once as a stock one
(base64 inside the JSON); then by a real service, which checks, stores and journals each. The peer is grabbing
and encoding alone, in this process. The screen shows text and pictures, as a desk does.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import mss
from PIL import Image
from websockets.asyncio.server import ServerConnection, serve

from core.aip.extensions import FEATURE_BINARY
from core.aip.frames import acknowledgement
from core.commands.request import CommandRequest
from core.home import Home
from core.service.service import Service
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.goals import FORMATS
from tests.fakes.desk import open_service
from tests.fakes.device_process import device
from tests.tour.display import some_display

WIDTH, HEIGHT = 1920, 1080
PICTURES = 12
# Lines of text over colour fields and a gradient: neither empty nor noise.
DESK = f"""
import sys, hashlib
from PySide6.QtGui import QColor, QFont, QLinearGradient, QPainter
from PySide6.QtWidgets import QApplication, QWidget
class Desk(QWidget):
    def paintEvent(self, event):
        painter = QPainter(self)
        shade = QLinearGradient(0, 0, {WIDTH}, {HEIGHT})
        shade.setColorAt(0, QColor("#10243e")); shade.setColorAt(1, QColor("#4a2f55"))
        painter.fillRect(self.rect(), shade)
        painter.fillRect(200, 80, 1100, 860, QColor("#f6f6f4"))
        painter.setFont(QFont("JetBrains Mono", 11))
        painter.setPen(QColor("#222222"))
        for line in range(48):
            words = hashlib.sha512(str(line).encode()).hexdigest()
            painter.drawText(220, 100 + 17 * line, words[: 40 + line * 37 % 80])
        for tile in range(40):
            colour = QColor("#" + hashlib.md5(str(tile).encode()).hexdigest()[:6])
            painter.fillRect(1340 + tile % 5 * 110, 80 + tile // 5 * 110, 100, 100, colour)
app = QApplication([])
desk = Desk(); desk.setGeometry(0, 0, {WIDTH}, {HEIGHT}); desk.show(); desk.repaint(); app.processEvents()
print("painted", flush=True)
sys.stdin.readline()
"""


def run(scale: Scale) -> Figures:
    """Measure on a virtual display."""
    with (
        some_display(WIDTH, HEIGHT),
        _desk(),
        tempfile.TemporaryDirectory(prefix="screenshot-bench-") as folder,
    ):
        return asyncio.run(_measure(Path(folder), scale.of(PICTURES, 1)))


@contextmanager
def _desk() -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", DESK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "painted"
        yield
    finally:
        process.communicate("\n", timeout=20)


def _folders(folder: Path) -> tuple[Path, Path]:
    both = folder / "ours", folder / "stock"
    for one in both:
        one.mkdir()
    return both


async def _measure(folder: Path, pictures: int) -> Figures:
    lines: Figures = []
    alone = {form: _alone(form, pictures) for form in FORMATS}
    for_ours, for_stock = _folders(folder)
    ours = await _on_the_wire(for_ours, acknowledgement([FEATURE_BINARY]), pictures)
    stock = await _on_the_wire(for_stock, acknowledgement(), pictures)
    home = Home(folder / "home").create()
    async with open_service(home) as service:
        through = {form: await _through(service, form, pictures) for form in FORMATS}
    for form in FORMATS:
        rate, size = alone[form]
        peer = Peer("grabbed and encoded in this process", rate)
        lines.append(Figure(f"{form} alone, bytes", size / 1024, "KiB"))
        for words, (measured, sent) in (("binary frames", ours[form]), ("base64, as to stock", stock[form])):
            remark = f"{sent / 1024:.0f} KiB a frame"
            lines.append(Figure(f"{form} over the bare link, {words}", measured, "/s", peer, remark))
        lines.append(Figure(f"{form} through the console, checked and stored", through[form], "/s", peer))
    return lines


def _alone(form: str, pictures: int) -> tuple[float, float]:
    """Pictures a second, and the bytes of one."""
    took: list[float] = []
    size = 0
    with mss.MSS() as screen:
        for _ in range(pictures):
            started = time.perf_counter()
            shot = screen.grab({"left": 0, "top": 0, "width": WIDTH, "height": HEIGHT})
            file = io.BytesIO()
            # As the device client encodes.
            how = {"compress_level": 3} if form == "png" else {"quality": 85}
            Image.frombytes("RGB", shot.size, shot.bgra, "raw", "BGRX").save(file, form, **how)
            took.append(time.perf_counter() - started)
            size = file.tell()
    return 1 / statistics.median(took), size


async def _on_the_wire(folder: Path, welcome: str, pictures: int) -> dict[str, tuple[float, float]]:
    """Pictures a second and bytes for each, asked for by a bare server that welcomes like this."""
    done: asyncio.Future[dict[str, tuple[float, float]]] = asyncio.get_running_loop().create_future()

    async def take(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(welcome)
        found: dict[str, tuple[float, float]] = {}
        for form in FORMATS:
            rounds = [await _timed(lambda form=form: _ask(connection, form)) for _ in range(pictures)]
            rate = 1 / statistics.median(took for took, _ in rounds)
            found[form] = (rate, statistics.median(size for _, size in rounds))
        done.set_result(found)
        await connection.wait_closed()

    async with serve(take, "127.0.0.1", 0, max_size=None, compression=None) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        async with device(url, folder), asyncio.timeout(120):
            return await done


async def _timed(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    started = time.perf_counter()
    size = await work()
    return time.perf_counter() - started, size


async def _ask(connection: ServerConnection, form: str) -> int:
    """Ask for one picture; gives how many bytes came back."""
    action = {
        "tool_name": "screenshot",
        "tool_type": "data_collection",
        "parameters": {"format": form},
        "call_id": os.urandom(8).hex(),
    }
    frame = {
        "type": "command",
        "status": "continue",
        "agent_name": "LinuxAgent",
        "actions": [action],
        "response_id": str(uuid4()),
    }
    await connection.send(json.dumps(frame))
    size = 0
    while True:
        data = await connection.recv(decode=False)
        if b'"heartbeat"' in data[:60]:
            continue
        size += len(data)
        if data[:1] == b"{":
            answer = json.loads(data)
            if answer["type"] == "command_results":
                [result] = answer["action_results"]
                assert result["status"] == "success", result["error"]
                return size


async def _through(service: Service, form: str, pictures: int) -> float:
    took: list[float] = []
    for _ in range(pictures):
        started = time.perf_counter()
        order = CommandRequest("this-computer", "screenshot", {"format": form}, "operator:bench")
        result = await service.dispatcher.dispatch(order)
        took.append(time.perf_counter() - started)
        assert result.error is None, result.error
        assert [one.width for one in result.evidence] == [WIDTH], result.evidence
    return 1 / statistics.median(took)
