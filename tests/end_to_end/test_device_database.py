"""What this computer's device client writes to its database while secrets pass through it."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from core.home import Home
from tests.fakes.program import run
from tests.fakes.service_process import served as serving
from tests.fakes.signing import accepted

SECRET = "tr0ub4dor&3-hunter2"
BATCH = """
name: Prints a secret
targets: "name:this-computer"
inputs:
  token: {type: string, secret: true}
on_failure: continue
steps:
  - {id: write, tool: write_file, with: {file_path: "FOLDER/token", content: "${{ inputs.token }}"}}
  - {id: plain, tool: shell_execute, with: {command: "cat FOLDER/token"}}
  - {id: base64, tool: shell_execute, with: {command: "base64 FOLDER/token"}}
  - {id: hex, tool: shell_execute, with: {command: "od -An -v -tx1 FOLDER/token | tr -d ' \\n'"}}
  - {id: fails, tool: shell_execute, with: {command: "cat FOLDER/token >&2; exit 3"}}
"""
ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\ntool = ["shell_execute", "write_file"]\nrisk = "<=high"\n'


def test_a_batchs_secret_input_is_nowhere_in_the_device_database(tmp_path: Path) -> None:
    home, work = Home(tmp_path / "home").create(), tmp_path / "work"
    work.mkdir()
    (home.path / "device.toml").write_text(f'roots = ["{work}"]\n')
    asyncio.run(accepted(home, ALLOWS))
    batch = tmp_path / "prints.yaml"
    batch.write_text(BATCH.replace("FOLDER", str(work)))
    with serving(home):
        done = run(home, "run", str(batch), "--json", "--input-stdin", "token", input=f"{SECRET}\n")
        # Read while its client still has it open: the rows are in the write-ahead log.
        database = b"".join(path.read_bytes() for path in home.path.rglob("device.db*"))
    assert "results" in done.json, done
    ended = [(row["status"], row["result"]["exit_code"]) for row in done.json["results"][1:]]
    assert ended == [("success", 0)] * 3 + [("failure", 3)]
    assert (work / "token").read_text() == SECRET
    database += b"".join(path.read_bytes() for path in home.path.rglob("device.db*"))
    assert database.count(b"::shell_execute") >= 4
    for spelling in (SECRET.encode(), base64.b64encode(SECRET.encode()), SECRET.encode().hex().encode()):
        assert spelling not in database
