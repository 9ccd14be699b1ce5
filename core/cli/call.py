"""`quarterdeck call`: one command to a device and its result, with a request for approval where needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.batch.models import Run, result_of
from core.cli.answer import Answer
from core.cli.arguments import Mistyped, parse_arguments
from core.cli.base import (
    DeviceArgument,
    SaveOption,
    ToolArgument,
    WaitOption,
    command_set,
    examples,
    in_session,
)
from core.cli.follow import HowToFollow, follow
from core.cli.output import note, one_line
from core.cli.results import envelope_json, failure, result_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, identify, signs
from core.commands.results import Basis, CommandStage
from core.errors import BadInput, DeviceError, ErrorCode, ErrorInfo, QuarterdeckError
from core.service import exit_codes, result_codes
from core.service.envelope import cell_envelope, envelope_error, refused_envelope

commands = command_set()


async def call(
    session: Session,
    device: str,
    tool: str,
    words: list[str],
    *,
    timeout: float | None,
    wait: float,
    json_wanted: bool,
    unlocking: KeySource,
    saving: Saving | None = None,
) -> Answer:
    """Call a tool; the answer is its result.

    A call that is not allowed or not possible also has a result: the dispatcher refuses it and the journal
    records it. Nothing is dispatched only where the device does not exist or the words are no arguments.
    """
    try:
        parameters = _arguments(words, await _schema(session, device, tool))
        await _identify_where_several_approve(session, device, tool, parameters, unlocking)
        events = session.console.events()
        run = await session.console.runs.call(device, tool, parameters, timeout)
    except QuarterdeckError as error:
        # After a lost service it is unknown how far the call came.
        stage = CommandStage.PREPARE if isinstance(error, BadInput | DeviceError) else None
        refused = refused_envelope(device, tool, error.info, stage)
        return failure(refused, error.info, exit_codes.exit_code_of(error.code))
    ended = await follow(session, run, events, HowToFollow(wait, json_wanted, unlocking), "nothing was sent")
    return ended if isinstance(ended, Answer) else await _ended(session, ended, saving)


async def _identify_where_several_approve(
    session: Session, device: str, tool: str, parameters: dict[str, Any], unlocking: KeySource
) -> None:
    """Identify the asker where several operators must approve.

    The asker's own approval does not count then. Without a proof of who asks, one more operator must approve.
    """
    try:
        decision = await session.console.policy.explain(device, tool, parameters)
    except QuarterdeckError:
        # The call itself will fail with this error, and then it is in the journal.
        return
    if decision.approvers > 1:
        await identify_if_possible(session, unlocking)


async def identify_if_possible(session: Session, unlocking: KeySource) -> None:
    """Prove who asks, where several operators must approve; say what it means if that fails."""
    try:
        await identify(session, unlocking)
    except QuarterdeckError as error:
        note(f"Asked without a proof of who asks, so one operator more must approve: {error.message}")


async def _schema(session: Session, device: str, tool: str) -> dict[str, Any]:
    """The tool's input schema; empty if it is not known, as for a device that has never connected."""
    try:
        tools = await session.console.devices.tools(device)
    except BadInput:
        # The call itself is refused for this reason, and then it is in the journal.
        return {}
    found = [one for one in tools if tool in (one.tool_name, one.tool_key)]
    return found[0].input_schema if found else {}


def _arguments(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Parse the arguments; a value of another type than the schema's remains a text and is refused later."""
    try:
        return parse_arguments(words, schema)
    except Mistyped as error:
        if error.hint:
            note(error.message)
        return parse_arguments(words, schema, lenient=True)


async def _ended(session: Session, run: Run, saving: Saving | None) -> Answer:
    cell = run.cells[0]
    result = result_of(cell)
    if result is None:
        said = cell.note or run.summary.note or f"The run ended as {run.summary.state.value}."
        error = ErrorInfo.of(ErrorCode.CANCELLED, said)
        ended = cell_envelope(cell).model_copy(update={"error": envelope_error(error, may_repeat=False)})
        return failure(ended, error, exit_codes.TOOL_FAILED)
    code = result_codes.of_result(result)
    if saving is not None:
        await saving.save(session, [result])
        code = saving.code(code)
    [envelope] = (await session.console.runs.results(run.summary.id)).results
    # For words that were not understood, the error alone says everything.
    said_by_error = code == exit_codes.BAD_INPUT and result.basis is Basis.NOTHING_SENT
    alternatives = (
        envelope.error.alternatives if result.error is not None and envelope.error is not None else ()
    )
    return Answer(
        envelope_json(envelope, saving.files if saving else None),
        () if said_by_error else result_text(result),
        code,
        result.error,
        tuple(
            one_line(f"Could be called now: {other.tool} on {other.device}. {other.why}")
            for other in alternatives
        ),
    )


@commands.command(
    "call",
    epilog=examples(
        "call this-computer get_system_info info_type=memory",
        "call lab-1 shell_execute command='df -h' timeout=20 --wait 60",
        'call lab-1 screenshot region:=\'{"x": 0, "y": 0, "width": 640, "height": 480}\'',
        "call lab-1 write_file file_path=/tmp/a.txt content=@notes.txt",
        "call lab-1 screenshot region:=@region.json --save pictures",
    ),
)
@signs
def call_command(
    context: typer.Context,
    device: DeviceArgument,
    tool: ToolArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...")] = None,
    wait: WaitOption = 0,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=86_400, metavar="SECONDS", help="How long the tool may take, on the device."
        ),
    ] = None,
    save: SaveOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Call one tool of one device.

    Arguments are key=value (typed as the tool's schema says), key:=JSON, key=@FILE for a file's
    text, or key:=@FILE for the JSON in a file.

    With --json, an error has a code, a message, the next step, and `retryable`: whether the very same call
    may succeed later, and changes nothing twice. `stage` is where it ended: prepare, validate, harden,
    decide, approve, record_intent and send are before it reached the device, observe is after; null is not
    known. `note` is said beside a result that needs a word, as where a device's client loses values.
    """

    # An unusable folder is reported before anything is sent.
    saving = Saving.into(save)

    async def work(session: Session) -> Answer:
        return await call(
            session,
            device,
            tool,
            arguments or [],
            timeout=timeout,
            wait=wait,
            json_wanted=context.obj.json,
            unlocking=unlocking,
            saving=saving,
        )

    in_session(context, work, wait_for_devices=True, device=device)
