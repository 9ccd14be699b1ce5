"""Work that holds a loop or a person up, each beside a peer that does the same without our checks.

What is bounded by counts in `make test` is timed here: frames at the limit of what is read, pictures
compared, a timeline built, a batch read, arguments validated, a policy tried over a journal, and stop all.
"""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import yaml
from PIL import Image

from core.aip.messages import read_client_frame
from core.audit.entries import Entry, Kind
from core.batch.batch_file import read_batch
from core.home import Home
from core.replay.image_diff import changed_tiles
from core.replay.timeline import build_timeline
from core.schema_forms.validator import errors_at_once
from core.service.time_machine import try_over_journal
from tests.bench.journal_bench import Figures
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.long_frames import WORST, frame
from tests.fakes.pace import slowness
from tests.unit.approvals.test_stop import RUNNING, Crowd
from tests.unit.replay.test_timeline import Story
from tests.unit.schema_forms.test_validator import SHELL
from tests.unit.service.test_time_machine import Pages, a_large_policy, command, nobody

ROUNDS = 5
STOP_LIMIT_S = 0.1
COMMANDS = 10_000
MOST_FOR_A_COMMAND_S = 0.0003
BATCH = "name: x\nsteps:\n" + "".join(
    f"  - {{id: a{number}, tool: t, with: {{a: [1, 2, 3], b: text}}}}\n" for number in range(17_000)
)


def run() -> Figures:
    """Measure; raises when something takes longer than so many times its peer, or than its limit."""
    figures: Figures = []
    for kind, (result, _) in WORST.items():
        data = frame(result())
        ours = lambda data=data: read_client_frame(data)  # noqa: E731
        peer = lambda data=data: json.loads(data)  # noqa: E731
        figures.append(_beside(f"worst frame that is read, {kind}", ours, "json", peer, 4))
    first, second = _screens()
    figures.append(
        _beside(
            "pictures of 1920×1080 compared",
            lambda: changed_tiles(first, second),
            "decoding both",
            lambda: [Image.open(io.BytesIO(data)).load() for data in (first, second)],
            4,
        )
    )
    entries = _entries()
    wire = [entry.model_dump_json() for entry in entries]
    figures.append(
        _beside(
            f"timeline of {len(entries):,} entries",
            lambda: build_timeline(entries, "x"),
            "reading them",
            lambda: [Entry.model_validate_json(row) for row in wire],
            6,
        )
    )
    figures.append(
        _beside(
            "batch of a mebibyte",
            lambda: read_batch(BATCH, "b"),
            "safe_load",
            lambda: yaml.safe_load(BATCH),
            1,
        )
    )
    value = {"command": "ls", "timeout": 30, "mode": "append"}
    library = jsonschema.Draft202012Validator(SHELL)
    figures.append(
        _beside(
            "a small object validated, 1,000 times",
            lambda: [errors_at_once(SHELL, value, "of a shell") for _ in range(1_000)],
            "jsonschema",
            lambda: [library.is_valid(value) for _ in range(1_000)],
            4,
        )
    )
    figures.append(_policy_tried())
    figures.append(asyncio.run(_stop_all()))
    return figures


def _beside(
    words: str, ours: Callable[[], object], name: str, peer: Callable[[], object], most: float
) -> tuple[str, str]:
    own, other = _best(ours), _best(peer)
    if own > most * other:
        raise AssertionError(f"{words}: {own * 1000:.1f} ms, more than {most} times {other * 1000:.1f} ms")
    return words, f"{own * 1000:.1f} ms; {name} {other * 1000:.1f} ms (limit {most} times)"


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _screens() -> tuple[bytes, bytes]:
    before = Image.effect_noise((1920, 1080), 20).convert("RGB")
    before.paste((128, 128, 128), (200, 100, 1900, 1000))
    after = before.copy()
    after.paste((255, 0, 0), (300, 300, 700, 500))
    after.putpixel((5, 5), (0, 0, 0))
    after.putpixel((1915, 1075), (0, 0, 0))
    data = [io.BytesIO(), io.BytesIO()]
    for picture, file in zip((before, after), data, strict=True):
        picture.save(file, "PNG")
    return data[0].getvalue(), data[1].getvalue()


def _entries() -> list[Entry]:
    story = Story()
    for number in range(4_000):
        call = f"c{number}"
        story.prepared(call_id=call, after=0.01).add(Kind.COMMAND_DECIDED, call_id=call, after=0.01)
        story.add(Kind.INTENT_RECORDED, call_id=call, after=0.01).sent(call_id=call, after=0.01)
        story.answered(f"p{number}", call_id=call, after=0.01)
    return story.entries


def _policy_tried() -> tuple[str, str]:
    entries = [one for number in range(100) for one in command(number, tags=["lab"])] * (COMMANDS // 100)
    policy = a_large_policy()
    each = _best(lambda: asyncio.run(try_over_journal(Pages(entries), policy, nobody, 50))) / COMMANDS
    limit = MOST_FOR_A_COMMAND_S * slowness()
    if each > limit:
        raise AssertionError(
            f"a policy is tried in {each * 1e6:.0f} µs a command, more than {limit * 1e6:.0f}"
        )
    return "500 rules tried over a journal, each command", f"{each * 1e6:.0f} µs (limit {limit * 1e6:.0f} µs)"


async def _stop_all() -> tuple[str, str]:
    times = []
    with tempfile.TemporaryDirectory(prefix="stop-") as folder:
        home = Home(Path(folder) / "home").create()
        choose_channel(home, "in-process")
        async with open_service(home) as service:
            crowd = Crowd(service)
            await crowd.connect()
            for _ in range(3):
                runs = await crowd.fill(20)
                began = time.perf_counter()
                await crowd.console.service.stop_all()
                times.append(time.perf_counter() - began)
                await service.journal.settle()
                await crowd.empty(runs)
                await crowd.console.service.resume()
    limit = STOP_LIMIT_S * slowness()
    if min(times) > limit:
        raise AssertionError(f"stop all takes {min(times) * 1000:.0f} ms, more than {limit * 1000:.0f}")
    words = f"stop all of 1,000 requests that wait and {RUNNING} commands"
    return words, f"{min(times) * 1000:.0f} ms (limit {limit * 1000:.0f} ms)"


if __name__ == "__main__":
    for line, figure in run():
        print(f"{line:62} {figure}")
