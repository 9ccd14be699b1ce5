"""`quarterdeck batches`: the batches that are saved in this home."""

from __future__ import annotations

from typing import Annotated

import typer

from core.batch.batch_file import batch_to_yaml
from core.cli.answer import Answer
from core.cli.base import command_set, examples, in_session
from core.cli.output import lines, one_line, size_words, table, time_cell
from core.cli.session import Session

commands = command_set()
app = command_set()
commands.add_typer(app, name="batches", help="The batches that are saved in this home.")

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH")]


@app.command("list", epilog=examples("batches list", "batches list --json"))
def list_batches(context: typer.Context) -> None:
    """List the saved batches by name."""

    async def work(session: Session) -> Answer:
        found = await session.console.runs.saved_batches()
        rows = [
            (
                one.name,
                "cannot be read" if one.steps is None else one.steps,
                size_words(one.size_bytes),
                time_cell(one.changed_at),
            )
            for one in found
        ]
        none = "No batch is saved: save one in the window, or by `do --save NAME`."
        head = ("NAME", "STEPS", "SIZE", "CHANGED (UTC)")
        return Answer({"batches": found}, [table(head, rows)] if found else none)

    in_session(context, work)


@app.command("show", epilog=examples("batches show nightly", "batches show nightly > nightly.yaml"))
def show_batch(context: typer.Context, name: BatchArgument) -> None:
    """Show a saved batch as a batch file."""

    async def work(session: Session) -> Answer:
        batch = await session.console.runs.load_batch(name)
        return Answer(batch, lines(batch_to_yaml(batch).rstrip("\n")))

    in_session(context, work)


@app.command("rename", epilog=examples("batches rename nightly weekly"))
def rename(
    context: typer.Context, name: BatchArgument, to: Annotated[str, typer.Argument(metavar="NAME")]
) -> None:
    """Give a saved batch another name. Its runs keep the name that they had."""

    async def work(session: Session) -> Answer:
        await session.console.runs.rename_batch(name, to)
        return Answer({"batch": to, "was": name}, f"{one_line(name)} is now {one_line(to)}.")

    in_session(context, work)


@app.command("delete", epilog=examples("batches delete nightly"))
def delete(context: typer.Context, name: BatchArgument) -> None:
    """Delete a saved batch. Its runs are not affected."""

    async def work(session: Session) -> Answer:
        await session.console.runs.delete_batch(name)
        return Answer({"deleted": name}, f"{one_line(name)} is deleted.")

    in_session(context, work)
