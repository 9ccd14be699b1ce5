"""`quarterdeck call`: one command to a device and its result, with a request for approval where needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.batch.models import Run, result_of
from core.cli.answer import Answer
from core.cli.arguments import typed_as_written
from core.cli.base import (
    PlanOption,
    SaveOption,
    ToolArgument,
    WaitOption,
    command_set,
    examples,
    in_session,
)
from core.cli.filter_option import TargetArgument
from core.cli.follow import HowToFollow, follow
from core.cli.output import one_line
from core.cli.results import envelope_json, failure, result_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, identify_if_possible, signs
from core.commands.results import Basis, CommandStage
from core.errors import BadInput, DeviceError, ErrorCode, ErrorInfo, QuarterdeckError, ServiceError
from core.filter_words import as_filter, is_filter
from core.service import exit_codes, result_codes
from core.service.envelope import cell_envelope, envelope_error, lost_envelope, refused_envelope
from core.text import sentences

commands = command_set()

CanaryOption = Annotated[
    str | None,
    typer.Option(
        "--canary", metavar="NUMBER|N%|FILTER", help="The first wave: so many devices, a part, or a filter's."
    ),
]
WaveOption = Annotated[
    str | None,
    typer.Option("--wave", metavar="NUMBER|N%", help="The others follow in waves of so many, or of a part."),
]
ParallelOption = Annotated[
    int | None,
    typer.Option("--parallel", min=1, max=1000, metavar="NUMBER", help="How many at the same time; else 5."),
]


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
        parameters = typed_as_written(words, await _schema(session, device, tool))
        await _identify_where_several_approve(session, device, tool, parameters, unlocking)
        events = session.console.events()
    except QuarterdeckError as error:
        return _refused(device, tool, error)
    try:
        run = await session.console.runs.call(device, tool, parameters, timeout)
    except ServiceError as error:
        return _not_answered(device, tool, error)
    except QuarterdeckError as error:
        return _refused(device, tool, error)
    ended = await follow(session, run, events, HowToFollow(wait, json_wanted, unlocking), "nothing was sent")
    return ended if isinstance(ended, Answer) else await _ended(session, ended, saving)


def _refused(device: str, tool: str, error: QuarterdeckError) -> Answer:
    """Say that the call did not become a command."""
    stage = CommandStage.PREPARE if isinstance(error, BadInput | DeviceError) else None
    refused = refused_envelope(device, tool, error.info, stage)
    return failure(refused, error.info, exit_codes.exit_code_of(error.code))


def _not_answered(device: str, tool: str, lost: ServiceError) -> Answer:
    """Say that the service was asked for the call and did not answer: the command may have been sent."""
    error = ErrorInfo.of(
        ErrorCode.OUTCOME_UNKNOWN,
        sentences(lost.message, f"Whether {one_line(tool)} was sent to {one_line(device)} is not known."),
        "quarterdeck runs list says what is known of it; look before you run this again.",
    )
    return failure(lost_envelope(device, tool, error), error, exit_codes.OUTCOME_UNKNOWN)


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


async def _schema(session: Session, device: str, tool: str) -> dict[str, Any]:
    """The tool's input schema; empty if it is not known, as for a device that has never connected."""
    try:
        tools = await session.console.devices.tools(device)
    except BadInput:
        # The call itself is refused for this reason, and then it is in the journal.
        return {}
    found = [one for one in tools if tool in (one.tool_name, one.tool_key)]
    return found[0].input_schema if found else {}


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
        "call 'tag:lab os:linux' shell_execute command=uptime --plan",
        "call 'web-*' get_system_info info_type=memory --canary 1 --wave 10 --json",
    ),
)
@signs
def call_command(
    context: typer.Context,
    device: TargetArgument,
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
    plan: PlanOption = False,
    canary: CanaryOption = None,
    wave: WaveOption = None,
    parallel: ParallelOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Call one tool of one device, or of all that match a filter.

    A name is that device, and the answer is its result. A pattern or a filter is a run of one step on all
    devices that match: planned, asked for and answered as `run` is, also where only one matches.

    Arguments are key=value (typed as the tool's schema says), key:=JSON, key=@FILE for a file's
    text, or key:=@FILE for the JSON in a file.

    With --json, an error has a code, a message, the next step, and `retryable`: whether the very same call
    may succeed later, and changes nothing twice. `stage` is where it ended: prepare, validate, harden,
    decide, approve, record_intent and send are before it reached the device, observe is after; null is not
    known. `note` is said beside a result that needs a word, as where a device's client loses values.
    """

    # An unusable folder is reported before anything is sent.
    saving = Saving.into(save)
    several = is_filter(device)
    rollout = {"canary": canary, "wave": wave, "parallel": parallel}
    given = {name: value for name, value in rollout.items() if value is not None}
    if given and not several:
        raise BadInput(
            f"{device} is one device, and --{next(iter(given))} is for several.",
            next_step="Leave it out, or give a filter, such as tag:lab.",
        )
    if several or plan:
        # Imported here: a call on one device needs no batch.
        from core.cli.call_many import Call, call_many, plan_call

        how = HowToFollow(wait, context.obj.json, unlocking)
        one = Call(as_filter(device), tool, arguments or [], timeout, given)

        async def work_on_several(session: Session) -> Answer:
            return await (plan_call(session, one) if plan else call_many(session, one, how, saving))

        in_session(context, work_on_several, wait_for_devices=True, device=None if several else device)

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
