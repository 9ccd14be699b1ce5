"""The table of cases: a command line each, in the order of one story that they tell together.

To add a case, add a line where the story has come to what it needs: `Case("runs list")`. `{names}` in a line
are what earlier cases kept of their JSON, `{folder}` is the folder of the play. An error is a `wrong` use of
the command, or a `refusal` of what it asks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.golden.cli.printing import ran
from tests.golden.cli.stage import OTHER_MACHINE, Stage
from tests.golden.story import POLICY

Kept = dict[str, str]
First = Callable[[Stage, Kept], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One command line.

    `ends` is its exit code; `keeps` names parts of its JSON by their path, for later lines; `first` is done
    on the stage before; `columns` are further widths at which its text is kept; `home` is a folder of the
    play.
    """

    line: str
    ends: int = 0
    keeps: dict[str, str] = field(default_factory=dict)
    first: First | None = None
    columns: tuple[int, ...] = ()
    home: str = "home"
    kind: str = ""

    @property
    def words(self) -> list[str]:
        """The words of the line."""
        return self.line.split()


def wrong(line: str, ends: int = 2) -> Case:
    """A use that the command line itself does not understand."""
    return Case(line, ends, kind="wrong")


def refusal(line: str, ends: int = 2, first: First | None = None, home: str = "home") -> Case:
    """A command that is understood, and refused."""
    return Case(line, ends, first=first, home=home, kind="refusal")


def _write_policy(stage: Stage, _kept: Kept) -> None:
    (stage.folder / "draft.toml").write_text(POLICY + LISTS + DRAFT)
    (stage.folder / "broken.toml").write_text('profile = "guraded"\n\n[[rule]]\nid = "a b"\n')
    stage.home.policy.write_text(POLICY + LISTS)


LISTS = """
[[rule]]
id = "lists"
decision = "allow"
device = "lab-1"
tool = "list_directory"
risk = ["low", "medium", "high"]
"""
DRAFT = """
[[rule]]
id = "status"
decision = "allow"
tool = "shell_execute"
parameters.command = { pattern = "^git status" }

[[rule.match]]
tool = "shell_execute"
parameters = { command = "git status" }

[[rule.not_match]]
tool = "shell_execute"
parameters = { command = "git push" }
"""
BATCH = """name: look and press
targets: name:lab-1
inputs:
  line:
    type: string
    default: sync
steps:
  - id: look
    tool: get_system_info
  - id: press
    tool: shell_execute
    with:
      command: ${{ inputs.line }}
  - id: after
    tool: screenshot
"""
BOTH = """name: look at both
targets: tag:lab
rollout:
  parallel: 1
inputs:
  path:
    type: string
steps:
  - id: look
    tool: list_directory
    with:
      path: ${{ inputs.path }}
"""


def _write_batches(stage: Stage, _kept: Kept) -> None:
    (stage.folder / "press.yaml").write_text(BATCH)
    (stage.folder / "both.yaml").write_text(BOTH)


def _connect(stage: Stage, kept: Kept) -> None:
    stage.do(stage.connect(kept["url"]))


def _start_ours(stage: Stage, kept: Kept) -> None:
    stage.do(stage.start_ours(kept["string"]))


def _other_machine(stage: Stage, kept: Kept) -> None:
    stage.do(stage.show_elsewhere(kept["url"]))


def _change_tools(stage: Stage, _kept: Kept) -> None:
    stage.do(stage.change_tools())


def _connect_other(stage: Stage, kept: Kept) -> None:
    stage.do(stage.connect(kept["url"], OTHER_MACHINE))


def _vanish(stage: Stage, kept: Kept) -> None:
    """Let the device vanish, which works on a command."""
    stage.do(stage.sent(kept["lost"]))
    stage.do(stage.hang_up())


def _ended(run: str) -> First:
    return lambda stage, kept: stage.do(stage.ended(kept.get(run, run)))


def _write_passphrase(stage: Stage, _kept: Kept) -> None:
    file = stage.folder / "passphrase"
    file.write_text("correct horse battery\n")
    file.chmod(0o600)


_DATABASE = ("journal.db", "journal.db-wal", "journal.db-shm")


def _lose_entries(stage: Stage, _kept: Kept) -> None:
    """Put back the journal as it was before the latest entries, as a copy of a home in use has it."""
    earlier = stage.folder / "earlier"
    earlier.mkdir()
    there = [stage.home.path / name for name in _DATABASE if (stage.home.path / name).exists()]
    for file in there:
        shutil.copy2(file, earlier / file.name)
    assert ran(["--home", str(stage.home.path), "approvals", "list"]).code == 0
    for name in _DATABASE:
        (stage.home.path / name).unlink(missing_ok=True)
    for file in there:
        shutil.copy2(earlier / file.name, file)


CASES = [
    # The program itself, before there is a service.
    Case("version"),
    Case("completion bash"),
    wrong("completion tcsh"),
    wrong("vesion"),
    wrong("version --jsno"),
    Case("service status"),
    Case("service stop"),
    refusal("audit verify"),
    wrong("service start --wait soon"),
    Case("service start --wait 120", first=_write_policy),
    Case("service status"),
    Case("service start"),
    # Operators, the policy.
    Case("operators list"),
    Case("operators add anna --no-passphrase"),
    Case("operators add bert --no-passphrase --operator anna"),
    Case("operators add cleo --no-passphrase --operator anna"),
    refusal("operators add bert --no-passphrase --operator anna"),
    wrong("operators add"),
    Case("operators list", columns=(40,)),
    Case("policy check"),
    Case("policy check {folder}/draft.toml"),
    Case("policy check {folder}/broken.toml", 2),
    refusal("policy check {folder}/none.toml"),
    Case("policy accept --operator anna"),
    wrong("policy profile lenient"),
    Case("policy profile trusted --operator anna"),
    Case("policy profile guarded"),
    # The journal, while it is short.
    Case("audit show 3"),
    refusal("audit show 9999"),
    wrong("audit show three"),
    Case("audit find kind:operator_registered", columns=(40, 60)),
    Case("audit find no-such-words"),
    refusal("audit find 'kind:nonsense'"),
    Case("audit export kind:operator_registered --output {folder}/operators.jsonl"),
    refusal("audit export kind:operator_registered --output {folder}/operators.jsonl"),
    wrong("audit export kind:operator_registered"),
    Case("audit export kind:operator_registered --format csv --output {folder}/operators.csv"),
    Case("audit prove 3 --output {folder}/entry-3.tlog-proof"),
    Case("audit verify {folder}/entry-3.tlog-proof"),
    refusal("audit prove 9999 --output {folder}/none.tlog-proof"),
    Case("audit verify"),
    refusal("audit accept-loss --operator anna", 9),
    # Devices.
    Case("devices refused"),
    Case("devices listen"),
    Case("pair lab-1 --tag lab --operator anna", keeps={"url": "stock_url"}),
    Case("devices"),
    Case("pair lab-2 --tag lab --tag build --operator anna", keeps={"string": "string"}, first=_connect),
    wrong("pair"),
    refusal("pair lab-3 --string nonsense --operator anna"),
    Case("devices", first=_start_ours, columns=(40, 60)),
    Case("devices list tag:build"),
    Case("devices 'name:lab-1,lab-2'"),
    refusal("devices tag:nobody"),
    Case("devices show lab-1", columns=(40,)),
    refusal("devices show lab-9"),
    wrong("devices show"),
    wrong("devices shwo lab-1"),
    Case("devices doctor lab-1", 5),
    Case("devices set lab-1 --tag lab --production --operator anna"),
    refusal("devices set lab-1"),
    refusal("devices accept lab-1 --operator anna"),
    Case("devices reconnect lab-1"),
    Case("devices show lab-1", first=_other_machine),
    Case("devices accept lab-1 --operator anna"),
    Case("devices refused", columns=(60,)),
    Case("devices certificate", first=_connect_other),
    refusal("devices certificate renew --operator anna"),
    refusal("devices certificate switch"),
    wrong("devices certificate shwo"),
    # Tools: found, described, proposed, changed.
    Case("tools lab-1", columns=(40, 60)),
    refusal("tools lab-9"),
    wrong("tools lab-1 lab-2"),
    Case("search look --device name:lab-1", columns=(60,)),
    Case("search xyzzy --device name:lab-1"),
    refusal("search look --device name:lab-9", 0),
    wrong("search --limit many look"),
    Case("describe lab-1 shell_execute", columns=(40,)),
    refusal("describe lab-1 nothing"),
    wrong("describe lab-1"),
    Case("do get system info --device name:lab-1 --save looks"),
    refusal("do get system info --device name:lab-9"),
    wrong("do"),
    Case("contracts list"),
    Case("contracts list", first=_change_tools),
    Case("contracts show lab-1 poke", columns=(40,)),
    refusal("contracts show lab-1 nothing"),
    wrong("contracts show lab-1"),
    Case("tools lab-1"),
    Case("contracts review lab-1 poke --operator anna"),
    Case("contracts review lab-1 poke --operator anna"),
    # Calls and what waits for an operator.
    Case("call lab-1 get_system_info"),
    Case("call lab-1 screenshot --save {folder}/pictures"),
    Case("call lab-2 list_directory path={folder}/root"),
    refusal("call lab-1 nothing"),
    refusal("call lab-1 shell_execute"),
    refusal("call lab-1 shell_execute command=reboot", 3),
    refusal("call lab-9 get_system_info"),
    wrong("call lab-1"),
    wrong("call lab-1 get_system_info memory"),
    Case("approvals list"),
    Case("call lab-1 shell_execute 'command=rm -rf build'", 10, keeps={"rm": "approval"}),
    Case("approvals list", columns=(40, 120)),
    Case("approvals show {rm}", columns=(40, 60)),
    refusal("approvals show a-0123"),
    wrong("approvals show"),
    wrong("approvals approve {rm} --grant uses=often --operator anna"),
    refusal("approvals approve {rm} --for-run --digest 0000 --operator anna", 3),
    Case("approvals approve {rm} --grant uses=5 --grant until=8h --operator anna", keeps={"grant": "grant"}),
    refusal("approvals approve {rm} --operator anna", 3),
    Case("call lab-1 shell_execute 'command=rm -rf build'"),
    Case("grants list"),
    Case("grants revoke {grant}"),
    refusal("grants revoke g-0123"),
    wrong("grants revoke"),
    Case("grants list"),
    Case("grants list --all"),
    Case(
        "call lab-2 write_file file_path={folder}/root/notes.txt content=first --operator anna",
        10,
        keeps={"write": "approval", "written": "run"},
    ),
    refusal("approvals approve {write} --operator anna", 3),
    Case("approvals approve {write} --operator bert --reason 'as agreed'"),
    Case("approvals show {write}"),
    Case("approvals approve {write} --operator cleo"),
    Case("call lab-2 shell_execute command=id", 10, keeps={"id": "approval"}, first=_ended("written")),
    Case("approvals deny {id} --reason 'Not during the backup' --operator anna"),
    Case(
        "call lab-2 shell_execute 'command=printf golden'", 10, keeps={"printf": "approval", "printed": "run"}
    ),
    Case("approvals approve {printf} --operator anna"),
    # Batches and runs.
    Case("run {folder}/both.yaml --input path={folder}/root", first=_write_batches),
    Case("run {folder}/press.yaml --plan", columns=(60,)),
    refusal("run {folder}/none.yaml"),
    refusal("run nothing-saved"),
    refusal("run {folder}/press.yaml --device name:lab-9"),
    wrong("run"),
    wrong("run {folder}/press.yaml --input color=red"),
    Case("run {folder}/press.yaml --operator anna", 10, keeps={"press": "approval", "run": "run"}),
    Case("runs pause {run}"),
    Case("runs go-on {run}"),
    Case("runs cancel-step {run} lab-1 after"),
    Case("approvals approve {press} --operator anna"),
    Case("runs show {run}", first=_ended("run"), columns=(40,)),
    Case(
        "run {folder}/press.yaml --input line=false --operator anna",
        10,
        keeps={"press": "approval", "again": "run"},
    ),
    Case("approvals approve {press} --operator anna"),
    Case("runs show {again}", first=_ended("again")),
    Case("runs show {again} --grouped"),
    Case("runs compare {run} {again}"),
    Case("runs list", columns=(40, 60)),
    Case("runs list state:failed"),
    Case("runs list no-such-words"),
    Case("runs search {again} exit code"),
    Case("runs output {printed} lab-2", first=_ended("printed")),
    Case("runs export {again} --output {folder}/results.csv"),
    refusal("runs export {again} --output {folder}/results.csv"),
    refusal("runs show r-9999"),
    wrong("runs show"),
    wrong("runs settle {run} lab-1 press perhaps"),
    Case("resume {again} --operator anna", 10, keeps={"press": "approval", "resumed": "run"}),
    Case("runs stop {resumed}"),
    Case("runs stop {resumed}", first=_ended("resumed")),
    refusal("resume r-9999"),
    wrong("resume"),
    Case(
        "call lab-1 shell_execute 'command=sleep 9' --timeout 1",
        10,
        keeps={"sleep": "approval", "lost": "run"},
    ),
    Case("approvals approve {sleep} --operator anna"),
    Case("devices", first=_vanish),
    Case("runs show {lost}", first=_ended("lost")),
    Case("runs settle {lost} lab-1 call done"),
    Case("undo {written} --plan", columns=(60,)),
    Case("undo {written}", 10, keeps={"undone": "approval", "undoing": "run"}),
    Case("approvals approve {undone} --operator anna"),
    Case("undo {written} --plan", first=_ended("undoing")),
    Case("undo {run} --plan"),
    refusal("undo r-9999"),
    wrong("undo"),
    Case("batches list"),
    Case("batches show looks"),
    Case("batches rename looks glances"),
    Case("batches delete glances"),
    refusal("batches delete glances"),
    wrong("batches rename one"),
    # Agents.
    Case("agents list"),
    Case("agents add night-shift --targets tag:lab --operator anna", keeps={"token": "token"}),
    Case("agents set night-shift --waiting 3 --operator anna"),
    Case("agents list", columns=(60, 160)),
    Case("agents show night-shift"),
    Case("agents pause night-shift"),
    Case("agents resume night-shift --operator anna"),
    Case("agents stop night-shift"),
    refusal("gateway --as night-shift --token-file {folder}/passphrase", first=_write_passphrase),
    refusal("gateway --as night-shift"),
    wrong("gateway"),
    Case("agents revoke night-shift"),
    refusal("agents revoke night-shift"),
    wrong("agents add one --targets 'tag:'"),
    # The policy, on what has happened.
    Case("policy explain lab-2 shell_execute 'command=rm -rf build'", columns=(60,)),
    refusal("policy explain lab-9 shell_execute"),
    Case("policy try {folder}/draft.toml --limit 3"),
    refusal("policy try {folder}/broken.toml"),
    # What ends it all.
    Case("service stop-all"),
    refusal("call lab-2 list_directory path={folder}/root", 3),
    Case("service status"),
    refusal("service resume --operator nobody", 3),
    Case("service resume --operator anna"),
    Case("backup {folder}/desk.tar --passphrase-file {folder}/passphrase"),
    refusal("backup {folder}/desk.tar --passphrase-file {folder}/passphrase"),
    wrong("backup"),
    Case("restore {folder}/desk.tar --passphrase-file {folder}/passphrase", home="restored"),
    refusal("restore {folder}/desk.tar --passphrase-file {folder}/passphrase"),
    wrong("restore"),
    Case("devices revoke lab-1"),
    Case("devices forget lab-1"),
    refusal("devices forget lab-1"),
    Case("operators passphrase bert --new-passphrase-file {folder}/passphrase", first=_write_passphrase),
    refusal("operators passphrase nobody --new-passphrase-file {folder}/passphrase"),
    wrong("operators passphrase"),
    Case("operators remove bert --operator anna"),
    refusal("operators remove bert --operator anna"),
    Case("service stop --cancel-work"),
    Case("audit accept-loss --operator anna", first=_lose_entries),
    refusal("audit accept-loss --operator anna"),
]
