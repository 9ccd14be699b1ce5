"""`--save DIR`: what results refer to becomes new files, with names and modes that no device chooses."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.canonical_json import sha256_hex
from core.cli.results import envelope_json
from core.cli.saving import Saving, file_name
from core.cli.session import Session
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import BadInput, ErrorCode
from core.home import Home
from core.service import exit_codes
from core.service.envelope import envelope_of

PICTURE = b"\x89PNG\r\n\x1a\n not quite"


class Blobs:
    """A console that has some blobs; a liar gives other bytes than were asked for."""

    def __init__(self, *kept: bytes, lies: bool = False) -> None:
        self._kept = {sha256_hex(one): one for one in kept}
        self._lies = lies
        self.journal = self

    async def blob(self, sha256: str) -> bytes:
        if sha256 not in self._kept:
            raise BadInput("There is no such blob.", ErrorCode.NOT_FOUND)
        return b"other bytes" if self._lies else self._kept[sha256]


def a_result(*blobs: bytes, device: str = "lab-1", tool: str = "screenshot", kind: str = "image/png") -> Any:
    return CommandResult(
        call_id="c-1",
        device=device,
        tool_name=tool,
        status=ResultStatus.SUCCESS,
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        evidence=[Evidence(blob=sha256_hex(one), media_type=kind, size=len(one)) for one in blobs],
    )


async def saved(home: Home, folder: Path, console: Any, *results: CommandResult) -> Saving:
    saving = Saving.into(folder)
    assert saving is not None
    await saving.save(Session(home, console, hosted=True), list(results))
    return saving


async def test_a_picture_becomes_a_file_for_its_owner_alone(home: Home, tmp_path: Path):
    folder = tmp_path / "new"
    result = a_result(PICTURE)
    before = os.umask(0)
    try:
        saving = await saved(home, folder, Blobs(PICTURE), result)
    finally:
        os.umask(before)
    [file] = folder.iterdir()
    assert file.name == f"lab-1-screenshot-{sha256_hex(PICTURE)[:16]}.png"
    assert file.read_bytes() == PICTURE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert saving.code(exit_codes.DONE) == exit_codes.DONE
    [told] = envelope_json(envelope_of(result), saving.files)["evidence"]
    assert told["file"] == str(file)
    assert envelope_json(envelope_of(result))["evidence"][0]["file"] is None


async def test_no_file_is_written_over_and_no_link_is_followed(home: Home, tmp_path: Path):
    name = "".join(file_name(a_result(), sha256_hex(PICTURE), "image/png"))
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    (mine / name).write_bytes(b"mine")
    await saved(home, mine, Blobs(PICTURE), a_result(PICTURE))
    assert (mine / name).read_bytes() == b"mine"
    assert (mine / name.replace(".png", "-2.png")).read_bytes() == PICTURE
    (theirs / name).symlink_to(tmp_path / "elsewhere")
    await saved(home, theirs, Blobs(PICTURE), a_result(PICTURE))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("device", "tool", "kind", "start", "ending"),
    [
        ("../../etc", "passwd", "image/png", "etc-passwd-", ".png"),
        ("/abs", "a/../b", "image/../../x", "abs-a-b-", ".bin"),
        (".hidden", "-rf", "text/x-sh", "hidden-rf-", ".bin"),
        ("lab\n\x1b[2J", "\u202egnp", "image/jpeg", "lab-2J-gnp-", ".jpg"),
        ("d" * 300, "t" * 300, "text/plain", "d" * 40 + "-" + "t" * 40 + "-", ".txt"),
        ("\u00e4", "..", "application/json", "", ".json"),
    ],
)
async def test_what_a_device_calls_itself_and_its_bytes_leads_nowhere_else(
    home: Home, tmp_path: Path, device: str, tool: str, kind: str, start: str, ending: str
):
    folder = tmp_path / "pictures"
    await saved(home, folder, Blobs(PICTURE), a_result(PICTURE, device=device, tool=tool, kind=kind))
    [file] = folder.iterdir()
    assert file.name == f"{start}{sha256_hex(PICTURE)[:16]}{ending}"


async def test_what_cannot_be_saved_is_said_and_the_rest_is_saved(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = b"gone"
    saving = await saved(home, tmp_path / "pictures", Blobs(PICTURE), a_result(other, PICTURE))
    assert list(saving.files) == [sha256_hex(PICTURE)]
    assert "Not saved: There is no such blob." in capsys.readouterr().err
    assert saving.code(exit_codes.DONE) == exit_codes.FAULT
    assert saving.code(exit_codes.OUTCOME_UNKNOWN) == exit_codes.OUTCOME_UNKNOWN


async def test_bytes_that_are_not_those_of_their_digest_are_not_saved(home: Home, tmp_path: Path):
    folder = tmp_path / "pictures"
    saving = await saved(home, folder, Blobs(PICTURE, lies=True), a_result(PICTURE))
    assert saving.failed
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("folder", ["file", "no/such/parent"])
def test_a_folder_that_cannot_be_used_is_said_before_anything_is_done(tmp_path: Path, folder: str):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="--save"):
        Saving.into(tmp_path / folder)
