"""Acts on programs through the console, as an operator's client does, and judges each act by what it did.

An act counts as right once a check outside the product (`then`, or the next one of the same test) holds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.commands.results import Verdict
from core.home import Home
from core.service.console import Console
from core.service.envelope import Envelope
from tests.apps.acts import Act, ActRecord, Outcome
from tests.apps.screen import Screen, Window, until
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run

DEVICE = "this-computer"
# An effect that has not come by then does not come: the program answered the act before.
EFFECT_S = 20.0
Check = Callable[[], object | Awaitable[object]]


@dataclass(slots=True)
class Driver:
    """One test's acts on one program."""

    console: Console
    home: Home
    screen: Screen
    record: ActRecord
    program: str
    test: str
    envelopes: list[str] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> Envelope:
        """Call a tool of this computer, whatever comes of it."""
        run = await self.console.runs.call(DEVICE, tool, arguments)
        ended = await self.console.runs.wait(run.summary.id, PATIENCE_S)
        [envelope] = (await self.console.runs.results(ended.summary.id)).results
        self.envelopes.append(envelope.model_dump_json())
        return envelope

    async def read(self, tool: str, **arguments: Any) -> Any:
        """What an observation answers."""
        envelope = await self.call(tool, **arguments)
        assert envelope.status is ResultStatus.SUCCESS, envelope.error
        return envelope.result

    async def act(self, tool: str, *, then: Check | None = None, **arguments: Any) -> Any:
        """Call a tool that acts, and give its result; a refusal in words ends the test, and is counted."""
        return await self._acted(await self.call(tool, **arguments), _shown(tool, arguments), then)

    async def act_by_command(self, tool: str, *, then: Check | None = None, **arguments: Any) -> Any:
        """The same by `quarterdeck call`."""
        words = [f"{key}={value}" for key, value in arguments.items()]
        ended = await asyncio.to_thread(run, self.home, "call", DEVICE, tool, *words, "--json")
        self.envelopes.append(ended.out)
        envelope = Envelope.model_validate_json(ended.out)
        assert (ended.code == 0) == (envelope.status is ResultStatus.SUCCESS), ended
        return await self._acted(envelope, f"quarterdeck call {_shown(tool, arguments)}", then)

    async def _acted(self, envelope: Envelope, shown: str, then: Check | None) -> Any:
        if envelope.status is not ResultStatus.SUCCESS:
            self._not_done(shown, envelope)
        self._waiting.append(shown)
        if then is not None:
            await self.sees(then)
        return envelope.result

    async def sees(self, check: Check) -> Any:
        """Wait until `check` holds: then all acts since the last check were right."""
        try:
            found = await until(check, "the act did something else, or nothing")
        except AssertionError as error:
            self.judge(False, str(error).partition("\n")[0])
            raise
        self.judge(True)
        return found

    def judge(self, right: bool, words: str = "") -> None:
        """Count the acts since the last check as right, or else the last as one that did something else."""
        if right:
            for shown in self._waiting:
                self._write(shown, Outcome.RIGHT)
        else:
            last = self._waiting[-1] if self._waiting else "no act"
            self._write(last, Outcome.SOMETHING_ELSE, words)
        self._waiting.clear()
        assert right, words

    async def is_refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that has to refuse; right if it says why and what to do. Gives its words."""
        shown = _shown(tool, arguments)
        envelope = await self.call(tool, **arguments)
        words = _words(envelope)
        refused = envelope.verdict is Verdict.REFUSED and _has_words(envelope)
        self._write(shown, Outcome.RIGHT if refused else Outcome.SOMETHING_ELSE, words)
        assert refused, f"{shown}: {words}"
        return words

    def _not_done(self, shown: str, envelope: Envelope) -> None:
        words = _words(envelope)
        if envelope.verdict is Verdict.REFUSED and _has_words(envelope):
            self._write(shown, Outcome.REFUSED, words)
            self._waiting.clear()
            pytest.xfail(f"{shown}: {words}")
        self._write(shown, Outcome.SOMETHING_ELSE, words)
        self._waiting.clear()
        pytest.fail(f"{shown}: {words}")

    def _write(self, shown: str, outcome: Outcome, words: str = "") -> None:
        self.record.write(Act(self.program, self.test, shown, outcome, words))

    def finish(self) -> None:
        """End the test: each act was judged."""
        assert not self._waiting, f"acts that no check judges: {self._waiting}"

    async def click(
        self,
        name: str,
        role: str | None = None,
        *,
        then: Check | None = None,
        shown: bool = True,
        **more: Any,
    ) -> Any:
        """Press the control of the program with a name, when it is on the screen; `shown` false: at once."""
        if shown:
            await self.control(name, role)
        wanted = {"name": name, **({"role": role} if role else {}), **more}
        return await self.act("click_element", process_name=self.program, then=then, **wanted)

    async def type(self, text: str, *, then: Check | None = None, **more: Any) -> Any:
        """Type text."""
        return await self.act("type_text", text=text, then=then, **more)

    async def press(self, *keys: str, then: Check | None = None) -> None:
        """Press keys one after the other."""
        for key in keys[:-1]:
            await self.act("press_key", key=key)
        await self.act("press_key", key=keys[-1], then=then)

    async def tree(self) -> list[dict[str, Any]]:
        """Every control of the program, parents first."""
        found = await self.read(
            "get_ui_tree", process_name=self.program, detail="full", showing=False, max_bytes=2_000_000
        )
        return list(flat(found["tree"]))

    async def control(self, name: str | None = None, role: str | None = None, **more: Any) -> dict[str, Any]:
        """The first control of the program with this name, role or both, as soon as it is on the screen."""
        wanted = {key: value for key, value in (("name", name), ("role", role)) if value is not None}
        found = await self.read(
            "wait_for_element", process_name=self.program, timeout=EFFECT_S, **wanted, **more
        )
        control: dict[str, Any] = found["controls"][0]
        return control

    async def window(self, title: str) -> Window:
        """The window whose title has this in it, as soon as it is there."""
        found: Window = await until(
            lambda: next((one for one in self.screen.windows() if title in one.title), None),
            f"a window {title!r}",
        )
        return found

    def is_open(self, title: str) -> bool:
        """Whether a window with this in its title is on the screen."""
        return any(title in one for one in self.screen.titles())

    async def picture(self, **more: Any) -> tuple[dict[str, Any], bytes]:
        """A screenshot: what it says of itself, and its bytes."""
        run = await self.console.runs.call(DEVICE, "screenshot", more)
        ended = await self.console.runs.wait(run.summary.id, PATIENCE_S)
        [envelope] = (await self.console.runs.results(ended.summary.id)).results
        self.envelopes.append(envelope.model_dump_json())
        assert envelope.status is ResultStatus.SUCCESS, envelope.error
        return envelope.result, await self.console.runs.evidence(
            ended.summary.id, envelope.result["image"]["blob"]
        )

    def said(self, secret: str) -> bool:
        """Whether any answer of the service had this text in it."""
        forms = {secret, json.dumps(secret)[1:-1]}
        return any(form in answer for form in forms for answer in self.envelopes)


def flat(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The controls of a tree, parents first."""
    for node in nodes:
        yield node
        yield from flat(node.get("children", []))


def has(path: Path, content: str) -> Check:
    """A check that a file has this content."""
    return lambda: path.exists() and path.read_bytes() == content.encode()


def _shown(tool: str, arguments: dict[str, Any]) -> str:
    masked = {
        key: "•" if key == "text" and arguments.get("secret") else value for key, value in arguments.items()
    }
    return f"{tool} " + " ".join(f"{key}={value}" for key, value in masked.items())


def _has_words(envelope: Envelope) -> bool:
    return envelope.error is not None and bool(envelope.error.message and envelope.error.next)


def _words(envelope: Envelope) -> str:
    error = envelope.error
    told = f"{error.message} Next: {error.next}" if error is not None else "It succeeded."
    return f"{envelope.verdict}, {envelope.basis}: {told}"
