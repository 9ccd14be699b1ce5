"""Golden pictures of the window are the same whenever and wherever in a process's memory they are drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from PIL import Image

from tests.golden_pictures.__main__ import FAILED, main
from tests.golden_pictures.still import NOW

# Shows times, ages, pictures, icons, an operator's key, and what was measured.
SCENE = "fleet"
HOLDS_STILL = """
from tests.golden_pictures import still
still.hold()
import os, secrets, time, uuid
from datetime import UTC, date, datetime
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.ids import new_id
import sys
from pathlib import Path
print(datetime.now(UTC).timestamp(), time.time(), time.time_ns(), date.today(), time.perf_counter())
print(isinstance(datetime.fromisoformat("2026-01-01"), datetime))
print(os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4(), new_id())
print(create_operator_key(Home(Path(sys.argv[1])).create(), "harbour", None).operator.public_key)
"""

FAILS = """
import os, sys
from pathlib import Path
from tests.fakes.console import FakeConsole
from tests.golden_pictures import drawing

async def hidden_error(studio):
    async with studio.desk(lambda home: FakeConsole()) as desk:
        desk.link.ask(lambda console: console.approvals.list(), lambda answer: 1 / 0)
        await studio.take(desk, "hidden")

async def killed(studio):
    os.kill(os.getpid(), 9)

drawing.SCENES.update({"hidden": hidden_error, "killed": killed})
print("failed:", *drawing.draw(Path(sys.argv[1]), ["hidden", "killed"], ["dark"], "100"))
"""


def written(folder: Path) -> bytes:
    assert main(["write", str(folder), SCENE, "--look", "light", "--scale", "150"]) == 0
    (path,) = folder.glob("*.png")
    assert path.name == "fleet-light-150.png"
    return path.read_bytes()


def test_a_screen_drawn_twice_is_the_same_file(tmp_path):
    first = written(tmp_path / "first")
    assert first == written(tmp_path / "second")
    with Image.open(tmp_path / "first" / "fleet-light-150.png") as picture:
        assert picture.size == (1440 * 3 // 2, 900 * 3 // 2)
        # Drawn at this scale, not stretched from another; and not a blank window.
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100


def test_the_clock_random_bytes_and_new_keys_are_the_same_in_each_process(tmp_path):
    told = [
        subprocess.run(
            [sys.executable, "-c", HOLDS_STILL, str(tmp_path / str(number))],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for number in range(2)
    ]
    assert told[0] == told[1]
    clocks, instance, *_rest = told[0].splitlines()
    assert clocks.startswith(f"{NOW} {NOW} {int(NOW)}000000000 2026-03-12 ")
    assert instance == "True"


def test_a_scene_with_an_error_in_the_window_or_without_an_end_is_named(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", FAILS, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
    )
    assert ran.stdout.splitlines()[-1] == "failed: hidden killed"
    assert "ZeroDivisionError" in ran.stderr


def test_a_scene_that_does_not_exist_is_no_success(tmp_path):
    assert main(["write", str(tmp_path / "out"), "nowhere", "--scale", "100"]) == FAILED
