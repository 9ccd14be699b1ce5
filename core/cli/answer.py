"""The answer of a command, and the one place that prints it: as JSON, or as text as wide as the terminal.

How a command is written: an async function does its work on a session and returns an `Answer`, which it does
not print; `in_session` of `core.cli.base` runs it and prints. A command without a session gives its answer to
`finish`, there, too.

    async def tags(session: Session) -> Answer:
        found = await session.console.devices.tags()
        return Answer({"tags": found}, [table(("TAG", "DEVICES"), [(tag.name, tag.count) for tag in found])])

No command asks whether `--json` was given: `value` is what `--json` prints and `text` is what people read, a
generator where it takes work, which is only done for people. What is said while a command works, such as the
progress of a run, goes to standard error by `note`, with `--json` too. What only accompanies the text is a
`Remark` in it. Tables and facts are blocks, not strings, so that the printer can fold them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from core.cli.output import Block, Prose, as_json, note, print_error, say, show
from core.errors import ErrorInfo
from core.service import exit_codes

Text = str | Prose | Iterable[Block]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: `value` for programs, `text` for people, and the exit code.

    `value` is a model or JSON of models. Either may be an async function that reads it, which is called only
    for those who want it. `error` says for people, after the text, why the command failed, and
    `advice` what else could be done; for programs both are part of `value`.
    """

    value: Any | Callable[[], Awaitable[Any]]
    text: Text | Callable[[], Awaitable[Text]]
    code: int = exit_codes.DONE
    error: ErrorInfo | None = None
    advice: tuple[str, ...] = ()


async def print_answer(answer: Answer, json_wanted: bool) -> None:
    """Print an answer on standard output.

    Raises:
        AnswerLost: it cannot be written.
        QuarterdeckError: a part that only this printing needs cannot be read.
    """
    if json_wanted:
        say(as_json(await answer.value() if callable(answer.value) else answer.value))
        return
    text = await answer.text() if callable(answer.text) else answer.text
    for block in [text] if isinstance(text, str | Prose) else text:
        show(block)
    if answer.error is not None:
        print_error(answer.error, json_wanted=False)
    for line in answer.advice:
        note(line)
