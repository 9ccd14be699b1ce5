"""Work that holds a loop or a person up, each against a peer that does the same without our checks.

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
from core.approvals.operator_keys import statement_for
from core.audit.entries import Entry, Kind
from core.batch.batch_file import read_batch
from core.home import Home
from core.replay.image_diff import changed_tiles
from core.replay.timeline import build_timeline
from core.schema_forms.validator import errors_at_once
from core.service.time_machine import try_over_journal
from tests.bench.figures import Figure, Figures, Peer, Scale, rounded
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.long_frames import WORST, frame, names
from tests.fakes.pace import slowness
from tests.fakes.signing import anna
from tests.unit.approvals.test_stop import RUNNING, Crowd
from tests.unit.replay.test_timeline import Story
from tests.unit.schema_forms.test_validator import SHELL
from tests.unit.service.test_time_machine import Pages, a_large_policy, command, nobody

ROUNDS = 5
COMMANDS = 10_000
# A mebibyte.
STEPS = 17_000


def run(scale: Scale) -> Figures:
    """Measure each, the best of some rounds."""
    rounds = scale.of(ROUNDS, 1)
    return [
        *_worst_frames(rounds, scale),
        *_works(rounds, scale),
        _policy_tried(rounds, scale.of(COMMANDS, 100)),
        asyncio.run(_stop_all(scale.of(3, 1))),
        asyncio.run(_answers_at_once(scale)),
    ]


def _worst_frames(rounds: int, scale: Scale) -> Figures:
    frames = {kind: frame(names(9) if scale.smallest else result()) for kind, (result, _) in WORST.items()}
    return [
        _against(
            rounds,
            f"worst frame that is read, {kind}",
            lambda data=data: read_client_frame(data),
            "json",
            lambda data=data: json.loads(data),
        )
        for kind, data in frames.items()
    ]


def _works(rounds: int, scale: Scale) -> Figures:
    first, second = _screens()
    entries = _entries(scale.of(4_000, 40))
    wire = [entry.model_dump_json() for entry in entries]
    batch = _batch(scale.of(STEPS, 100))
    value = {"command": "ls", "timeout": 30, "mode": "append"}
    library = jsonschema.Draft202012Validator(SHELL)
    times = range(scale.of(1_000, 10))
    return [
        _against(
            rounds,
            "pictures of 1920×1080 compared",
            lambda: changed_tiles(first, second),
            "decoding both",
            lambda: [Image.open(io.BytesIO(data)).load() for data in (first, second)],
        ),
        _against(
            rounds,
            "timeline of a long run",
            lambda: build_timeline(entries, "x"),
            "reading its entries",
            lambda: [Entry.model_validate_json(row) for row in wire],
        ),
        _against(
            rounds,
            "a long batch read",
            lambda: read_batch(batch, "b"),
            "safe_load",
            lambda: yaml.safe_load(batch),
        ),
        _against(
            rounds,
            "small objects validated",
            lambda: [errors_at_once(SHELL, value, "of a shell") for _ in times],
            "jsonschema",
            lambda: [library.is_valid(value) for _ in times],
        ),
    ]


def _against(
    rounds: int, words: str, ours: Callable[[], object], name: str, peer: Callable[[], object]
) -> Figure:
    return Figure(words, _best_ms(rounds, ours), "ms", Peer(name, _best_ms(rounds, peer)))


def _best_ms(rounds: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times) * 1000


def _at_reference_speed(name: str, value: float, unit: str, remark: str) -> Figure:
    """A time as it would be on the reference machine."""
    slower = slowness()
    remark = f"{remark}; measured {rounded(value)} {unit}, {slower:.1f} times slower"
    return Figure(name, value / slower, unit, remark=remark)


def _batch(steps: int) -> str:
    return "name: x\nsteps:\n" + "".join(
        f"  - {{id: a{number}, tool: t, with: {{a: [1, 2, 3], b: text}}}}\n" for number in range(steps)
    )


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


def _entries(commands: int) -> list[Entry]:
    story = Story()
    for number in range(commands):
        call = f"c{number}"
        story.prepared(call_id=call, after=0.01).add(Kind.COMMAND_DECIDED, call_id=call, after=0.01)
        story.add(Kind.INTENT_RECORDED, call_id=call, after=0.01).sent(call_id=call, after=0.01)
        story.answered(f"p{number}", call_id=call, after=0.01)
    return story.entries


def _policy_tried(rounds: int, commands: int) -> Figure:
    entries = [one for number in range(100) for one in command(number, tags=["lab"])] * (commands // 100)
    policy = a_large_policy()
    whole_ms = _best_ms(rounds, lambda: asyncio.run(try_over_journal(Pages(entries), policy, nobody, 50)))
    name = "500 rules tried over a journal, each command"
    return _at_reference_speed(name, whole_ms / commands * 1000, "µs", f"{commands:,} commands")


async def _answers_at_once(scale: Scale) -> Figure:
    """A thousand requests answered by one call of the API; the peer is a call for each of as many."""
    times = []
    with tempfile.TemporaryDirectory(prefix="answers-") as folder:
        home = Home(Path(folder) / "home").create()
        key = anna(home)
        choose_channel(home, "in-process")
        async with open_service(home) as service:
            crowd = Crowd(service)
            console = crowd.console
            await console.approvals.register_operator(key.operator)
            await crowd.connect()
            for at_once in (False, True):
                runs = await crowd.fill(scale.of(20, 1))
                waiting = await console.approvals.list()
                began = time.perf_counter()
                signed = [key.sign(statement_for(one, "deny", key.name)) for one in waiting]
                if at_once:
                    fates = await console.approvals.decide_many(signed)
                    assert all(fate.error is None for fate in fates)
                else:
                    for one in signed:
                        await console.approvals.decide(one)
                times.append(time.perf_counter() - began)
                await crowd.empty(runs)
    single, many = (taken * 1000 for taken in times)
    name, remark = "requests answered by one call", f"{len(signed):,} requests, signed and recorded"
    return Figure(name, many, "ms", Peer("one call each", single), remark)


async def _stop_all(rounds: int) -> Figure:
    times = []
    with tempfile.TemporaryDirectory(prefix="stop-") as folder:
        home = Home(Path(folder) / "home").create()
        choose_channel(home, "in-process")
        async with open_service(home) as service:
            crowd = Crowd(service)
            await crowd.connect()
            for _ in range(rounds):
                runs = await crowd.fill(20)
                began = time.perf_counter()
                await crowd.console.service.stop_all()
                times.append(time.perf_counter() - began)
                await service.journal.settle()
                await crowd.empty(runs)
                await crowd.console.service.resume()
    remark = f"1,000 requests that wait and {RUNNING} commands"
    return _at_reference_speed("stop all", min(times) * 1000, "ms", remark)
