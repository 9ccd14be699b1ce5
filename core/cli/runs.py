"""The commands about runs: starting, resuming and undoing them, and what became of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from core.batch.batch_file import LARGEST, read_batch
from core.batch.inputs import unknown_input
from core.batch.models import Batch, Run, RunSummary, result_of
from core.broken_text import fault_words
from core.cli import run_text, show
from core.cli.answer import Answer
from core.cli.arguments import parse_arguments, read_json
from core.cli.base import (
    EVERYWHERE,
    DeviceArgument,
    FilterOption,
    SaveOption,
    WaitOption,
    command_set,
    examples,
    in_session,
)
from core.cli.call import identify_if_possible
from core.cli.follow import HowToFollow, follow
from core.cli.output import Block, Remark, note, one_line, result_text, table
from core.cli.prompt import ask_line, is_terminal
from core.cli.run_text import plan_json, plan_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, signs
from core.commands.results import CommandResult
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.models.device_filter import as_filter, no_match
from core.replay.models import MOST_WORDS
from core.service import exit_codes
from core.service.pages import whole_run
from core.service.result_export import ExportFormat, export_results
from core.text import plural, sentences

commands = command_set()
app = typer.Typer(help="Runs and their results.", epilog=EVERYWHERE, no_args_is_help=True)
commands.add_typer(app, name="runs")

RunArgument = Annotated[str, typer.Argument(metavar="RUN")]
StepArgument = Annotated[str, typer.Argument(metavar="STEP")]
PlanOption = Annotated[bool, typer.Option("--plan", help="Show what would happen; nothing is sent.")]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="KEY=VALUE",
        help="A value of an input of the batch; a secret one as KEY=@FILE. "
        "Of a file, the last line end is left out.",
    ),
]


@commands.command(
    "run",
    epilog=examples(
        "run clean.yaml --input threshold=85",
        "run nightly --device 'lab-*' --json --wait 600",
        "run clean.yaml --device 'tag:lab !name:lab-7'",
        "run rollout.yaml --input token=@token.txt",
        "run clean.yaml --plan --json",
    ),
)
@signs
def run(
    context: typer.Context,
    batch: Annotated[str, typer.Argument(metavar="FILE|NAME")],
    device: FilterOption = "",
    inputs: InputOption = None,
    input_stdin: Annotated[
        str | None,
        typer.Option(
            "--input-stdin",
            metavar="KEY",
            help="The input whose value is read from standard input, without its last line end.",
        ),
    ] = None,
    plan: PlanOption = False,
    wait: WaitOption = 0,
    save: SaveOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Run a batch, from a file or by the name under which it was saved, and follow it to its end.

    The exit code is that of the worst result: unknown before failed before offline before denied. That of
    --plan is 11 where a step is invalid on some device.
    """
    saving = Saving.into(save)
    how = HowToFollow(wait, context.obj.json, unlocking)

    async def work(session: Session) -> Answer:
        chosen = await batch_of(session, batch, device)
        values = input_values(chosen, inputs or [])
        if input_stdin is not None:
            values |= await value_from_stdin(chosen, input_stdin)
        if plan:
            found = await session.console.runs.plan(chosen, values)
            if not found.devices:
                raise no_match(chosen.targets, await session.console.devices.match(""))
            invalid = any(cell.outcome == "invalid" for cell in found.cells)
            code = exit_codes.PLAN_INVALID if invalid else exit_codes.DONE
            return Answer(plan_json(chosen.name, found), plan_text(chosen.name, found), code)
        values |= await missing_secrets(chosen, values)
        await _identify_where_several_approve(session, chosen, values, unlocking)
        return await run_to_end(
            session, lambda: session.console.runs.start(chosen, inputs=values), how, saving
        )

    in_session(context, work, wait_for_devices=True)


async def _identify_where_several_approve(
    session: Session, batch: Batch, inputs: dict[str, Any], unlocking: KeySource
) -> None:
    """Identify the asker where a question or a rule wants several operators: the asker does not count then.

    Of arguments that results give, no rule is known to want several before the run.
    """
    try:
        planned = await session.console.runs.plan(batch, inputs)
    except QuarterdeckError:
        # The start itself will fail with this error.
        return
    if any(cell.approvers > 1 for cell in planned.cells):
        await identify_if_possible(session, unlocking)


@commands.command("resume", epilog=examples("resume r-0007"))
@signs
def resume(
    context: typer.Context,
    run: RunArgument,
    inputs: InputOption = None,
    wait: WaitOption = 0,
    save: SaveOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Continue an ended run where it did not succeed, as a new run; what is done is not repeated.

    Its batch, inputs and devices are those of the first run. Secret inputs, which are not stored, are given
    again by --input KEY=@FILE.
    """
    saving = Saving.into(save)
    how = HowToFollow(wait, context.obj.json, unlocking)

    async def work(session: Session) -> Answer:
        before = await session.console.runs.get(run)
        secrets = input_values(before.batch, inputs or [])
        return await run_to_end(session, lambda: session.console.runs.resume(run, secrets), how, saving)

    in_session(context, work, wait_for_devices=True)


@commands.command("undo", epilog=examples("undo r-0007 --plan", "undo r-0007"))
@signs
def undo(
    context: typer.Context,
    run: RunArgument,
    plan: PlanOption = False,
    wait: WaitOption = 0,
    *,
    unlocking: KeySource,
) -> None:
    """Undo what a run changed, as far as its devices recorded how, in reverse order, as a run of its own."""
    how = HowToFollow(wait, context.obj.json, unlocking)

    async def work(session: Session) -> Answer:
        found = await session.console.runs.undo_plan(run)
        text = run_text.undo_text(found)
        if plan:
            return Answer(found, text)
        for block in text:
            note(block)
        return await run_to_end(session, lambda: session.console.runs.undo(run, found.digest), how)

    in_session(context, work, wait_for_devices=True)


@app.command(
    "list",
    epilog=examples("runs list", "runs list state:failed device:lab-1", "runs list --limit 200 --json"),
)
def list_runs(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD...")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="NUMBER", help="How many at most.")] = 50,
) -> None:
    """List the latest runs, or those that contain all of these words.

    A word is looked for in id, name, devices, tools, actor, state and effect; device:lab-1 in that field
    only.
    """
    in_session(context, lambda session: show.runs(session, limit, " ".join(words or [])))


@app.command("stop", epilog=examples("runs stop r-0042"))
def stop(context: typer.Context, run: RunArgument) -> None:
    """Stop a run: no further step begins, what waits is withdrawn, and devices are asked to cancel.

    The run ends once its devices have answered; `runs show` tells how.
    """
    in_session(context, lambda session: _changed(session.console.runs.stop(run), "is stopped"))


@app.command("pause", epilog=examples("runs pause r-0042"))
def pause(context: typer.Context, run: RunArgument) -> None:
    """Begin nothing more of a run until it goes on; what runs or waits for an operator is not affected."""
    in_session(context, lambda session: _changed(session.console.runs.pause(run), "is paused"))


@app.command("go-on", epilog=examples("runs go-on r-0042"))
def go_on(context: typer.Context, run: RunArgument) -> None:
    """Let a paused run go on."""
    in_session(context, lambda session: _changed(session.console.runs.unpause(run), "goes on"))


@app.command("cancel-step", epilog=examples("runs cancel-step r-0042 lab-1 clean"))
def cancel_step(context: typer.Context, run: RunArgument, device: DeviceArgument, step: StepArgument) -> None:
    """Cancel one step on one device: it is not begun, or the device is asked to cancel it."""

    def work(session: Session) -> Coroutine[Any, Any, Answer]:
        cancelling = session.console.runs.cancel_step(run, device, step)
        return _changed(cancelling, f"cancels {one_line(step)} on {one_line(device)}")

    in_session(context, work)


async def _changed(change: Coroutine[Any, Any, RunSummary], words: str) -> Answer:
    """The answer of a command that changed a run."""
    summary = await change
    said = f"{summary.id} had ended: it is {summary.state.value}." if summary.state.ended else ""
    return Answer(summary, said or f"{summary.id} {words}.")


class Outcome(StrEnum):
    """An operator's word about a step whose outcome is unknown."""

    DONE = "done"
    NOT_DONE = "not-done"


@app.command(
    "settle",
    epilog=examples("runs settle r-0042 lab-1 clean done", "runs settle r-0042 lab-1 add not-done"),
)
def settle(
    context: typer.Context,
    run: RunArgument,
    device: DeviceArgument,
    step: StepArgument,
    outcome: Annotated[Outcome, typer.Argument(metavar="done|not-done")],
) -> None:
    """Say of a step of an ended run whether it is done, after a look at the device.

    A run with a step whose outcome is unknown resumes only once this is said. The journal keeps who said so.
    """

    async def work(session: Session) -> Answer:
        word: Literal["done", "not_done"] = "done" if outcome is Outcome.DONE else "not_done"
        cell = await session.console.runs.settle(run, device, step, word)
        said = f"{one_line(step)} on {one_line(device)} is settled as {outcome.value}."
        return Answer(cell, [said, Remark(f"Then: quarterdeck resume {run}")])

    in_session(context, work)


@app.command("show", epilog=examples("runs show r-0042", "runs show r-0042 --save pictures"))
def show_run(
    context: typer.Context,
    run: RunArgument,
    save: SaveOption = None,
    grouped: Annotated[
        bool, typer.Option("--grouped", help="Put devices with equal results together, by step.")
    ] = False,
) -> None:
    """Show one run with its results."""
    saving = Saving.into(save)

    in_session(context, lambda session: show.run(session, run, saving, grouped))


@app.command("output", epilog=examples("runs output r-0042 lab-1 clean"))
def show_output(
    context: typer.Context,
    run: RunArgument,
    device: Annotated[str, typer.Argument(metavar="DEVICE")],
    step: Annotated[str, typer.Argument(metavar="STEP")] = "call",
) -> None:
    """Show what the command of one step has printed until now, also where it was cancelled or lost."""
    in_session(context, lambda session: show.output(session, run, device, step))


@app.command("compare", epilog=examples("runs compare r-0007 r-0012"))
def compare(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="RUN")],
    after: Annotated[str, typer.Argument(metavar="RUN")],
) -> None:
    """Compare two runs cell by cell: state, verdict, value, duration."""

    async def work(session: Session) -> Answer:
        found = await session.console.runs.compare(before, after)
        told = {**found.model_dump(mode="json"), "equal": found.equal}
        return Answer(told, run_text.comparison_text(found))

    in_session(context, work)


@app.command("export", epilog=examples("runs export r-0007 --format csv --output results.csv"))
def export(
    context: typer.Context,
    run: RunArgument,
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="The file to write.")],
    wanted: Annotated[ExportFormat, typer.Option("--format", help="csv or json.")] = ExportFormat.CSV,
    replace: Annotated[bool, typer.Option("--replace", help="Write over a file that is there.")] = False,
) -> None:
    """Write the results of a run to a file. A text that a spreadsheet would run as a formula is quoted."""

    async def work(session: Session) -> Answer:
        if not replace:
            await check_not_there(output.expanduser())
        count = await export_results(session.console.runs, run, wanted, output.expanduser())
        told = {"run": run, "file": str(output), "results": count}
        return Answer(told, f"{count} results of {run} are in {one_line(output)}.")

    in_session(context, work)


async def check_not_there(path: Path) -> None:
    """Check that there is no such file, or ask whether it is to be written over.

    Raises:
        BadInput: there is one, and the answer is no, or there is no terminal to ask on.
    """
    if not await asyncio.to_thread(os.path.lexists, path):
        return
    if not is_terminal():
        raise BadInput(f"{path} is there already, and nothing was written: add --replace to write over it.")
    answer = await ask_line(f"{one_line(path)} is there already. Write over it? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise BadInput(f"{path} is there already, and nothing was written.")


@app.command("search", epilog=examples("runs search r-0007 'connection refused'"))
def search(
    context: typer.Context,
    run: RunArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORD...")],
) -> None:
    """Find the results of a run that contain all of these words, also in their large texts."""

    async def work(session: Session) -> Answer:
        await session.console.runs.cells(run, limit=1)
        hits = await session.console.journal.find_in_results(words[: MOST_WORDS + 1], run)
        common = sorted(set(hits.numbers[0]).intersection(*hits.numbers[1:]))
        found = [await session.console.journal.entry(seq) for seq in common]
        places = [
            {"seq": one.seq, "device": one.device, "step": one.step, "call_id": one.call_id} for one in found
        ]
        rows = [
            (one.seq, one.device or "", one.step or "", one.tool or "", one.status or "") for one in found
        ]
        text: list[Block] = [table(("SEQ", "DEVICE", "STEP", "TOOL", "STATUS"), rows)]
        if hits.not_searched:
            missing = f"{hits.not_searched} stored texts are too large to be searched, or cannot be read."
            text.append(Remark(missing))
        return Answer({"results": places, "not_searched": hits.not_searched}, text)

    in_session(context, work)


async def batch_of(session: Session, wanted: str, device: str = "") -> Batch:
    """The batch in a file, or saved under a name; the filter `device` narrows its targets.

    Raises:
        BadInput: there is none, or it has mistakes.
    """
    if "/" in wanted or wanted.endswith((".yaml", ".yml", ".json")):
        batch = read_batch(await asyncio.to_thread(_text_of, wanted), wanted)
    else:
        batch = await session.console.runs.load_batch(wanted)
    if not device.strip():
        if "targets" not in batch.model_fields_set:
            note(f"{one_line(wanted)} has no targets; it is for {batch.targets}.")
        return batch
    # Targets that the file does not give are those of its default, which the operator did not write.
    before = f"{batch.targets} " if "targets" in batch.model_fields_set else ""
    return batch.model_copy(update={"targets": f"{before}{as_filter(device)}"})


def _text_of(path: str) -> str:
    try:
        with open(Path(path).expanduser(), "rb") as file:
            data = file.read(LARGEST + 1)
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not text in UTF-8.") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error


def input_values(batch: Batch, words: list[str]) -> dict[str, Any]:
    """Values of inputs from `key=value` words, by the types that the batch declares.

    Raises:
        BadInput: a word is no input, has another type, or tells a secret to all who can list processes.
    """
    types = {"list": "array"}
    properties = {
        name: {"type": types.get(declared.type, declared.type)} for name, declared in batch.inputs.items()
    }
    for word in words:
        name, _, value = word.partition("=")
        declared = batch.inputs.get(name.removesuffix(":"))
        if declared is not None and declared.secret and not value.startswith("@"):
            raise BadInput(
                f"{name.removesuffix(':')} is secret, and a command line can be read by others: "
                f"write {name}=@FILE, or --input-stdin {name.removesuffix(':')}."
            )
    values = parse_arguments(words, {"type": "object", "properties": properties})
    from_file = {name for name, _, value in (word.partition("=") for word in words) if value.startswith("@")}
    return {
        name: without_line_end(value) if name in from_file and isinstance(value, str) else value
        for name, value in values.items()
    }


def without_line_end(text: str) -> str:
    """The text of a file or of standard input as a value: without its last line end, if it ends with one."""
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


async def value_from_stdin(batch: Batch, name: str) -> dict[str, Any]:
    """The value of one input, read from standard input to its end; a last line end is left out.

    Raises:
        BadInput: there is no such input, or standard input cannot be read.
    """
    if name not in batch.inputs:
        raise BadInput(f"{unknown_input(batch, name)}.")
    try:
        # Bytes, because text would lose the difference between line ends.
        data = await asyncio.to_thread(sys.stdin.buffer.read, LARGEST + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(sentences(f"Standard input cannot be read: {fault_words(error)}")) from error
    if len(data) > LARGEST:
        raise BadInput(f"The value of {name} is longer than {LARGEST:,} bytes.", ErrorCode.TOO_LARGE)
    value = without_line_end(text)
    if batch.inputs[name].type == "string":
        return {name: value}
    try:
        return {name: read_json(value)}
    except (ValueError, RecursionError) as error:
        # The text of a JSON error holds no value, but where it stands.
        raise BadInput(f"The value of {name} is not JSON: {error}.") from None


async def missing_secrets(batch: Batch, values: dict[str, Any]) -> dict[str, Any]:
    """Secret texts that the batch needs and no option gives, asked on the terminal without echo."""
    if not is_terminal():
        return {}
    wanted = [
        name
        for name, declared in batch.inputs.items()
        if declared.secret and declared.required and declared.type == "string" and name not in values
    ]
    return {name: await ask_line(f"{name} (not shown): ", secret=True) for name in wanted}


async def run_to_end(
    session: Session, begin: Callable[[], Awaitable[Run]], how: HowToFollow, saving: Saving | None = None
) -> Answer:
    """Begin a run and follow it to its end; the answer is the run with its results."""
    events = session.console.events()
    started = await whole_run(session.console.runs, await begin())
    note(f"Run {started.summary.id} on {plural(len(started.summary.devices), 'device')}.")
    ended = await follow(session, started, events, how)
    return ended if isinstance(ended, Answer) else await _ended(session, ended, saving)


async def _ended(session: Session, run: Run, saving: Saving | None) -> Answer:
    results = [result for cell in run.cells if (result := result_of(cell)) is not None]
    code = exit_codes.of_run(run)
    if saving is not None:
        await saving.save(session, results)
        code = saving.code(code)
    files = saving.files if saving is not None else None
    return Answer(lambda: show.results_json(session, run, files), _end_text(run, results), code)


def _end_text(run: Run, results: list[CommandResult]) -> Iterator[Block]:
    yield from (run_text.summary_text(run), "")
    if len(run.summary.devices) > 1:
        yield run_text.groups_text(run)
        return
    yield run_text.cells_text(run)
    for result in results:
        if result.call_id:
            yield ""
            yield from result_text(result)
