"""Saved batches: listed with time, size and steps, renamed and deleted, without replacing another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.batch.models import Batch, Step
from core.batch.saved import COUNTED_BYTES, SavedBatches
from core.errors import BadInput, ErrorCode
from tests.fakes.full_disk import full_disk_for


def batch(name: str, steps: int = 1) -> Batch:
    return Batch(name=name, steps=[Step(id=f"s{number}", tool="look") for number in range(steps)])


def test_the_listing_names_time_size_and_steps(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    saved.save("b", batch("b", 3))
    saved.save("a/1", batch("a/1"))
    os.utime(tmp_path / "b.yaml", (1_700_000_000, 1_700_000_000))
    (tmp_path / "broken.yaml").write_text("steps: 5\n")
    (tmp_path / "large.yaml").write_text("#" * COUNTED_BYTES + "\n")
    rows = {row.name: row for row in saved.listing()}
    assert list(rows) == ["a/1", "b", "broken", "large"]
    assert rows["b"].steps == 3
    assert rows["b"].changed_at == "2023-11-14T22:13:20Z"
    assert rows["b"].size_bytes == (tmp_path / "b.yaml").stat().st_size
    assert rows["broken"].steps is None
    assert rows["large"].steps is None


def test_a_renamed_batch_keeps_comments_and_has_the_new_name_inside(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    text = "# Ask Harbour before the first run.\nformat: quarterdeck.batch/1\nname: old\n"
    text += "steps:\n- id: a\n  tool: look # why\n"
    (tmp_path / "old.yaml").write_text(text)
    saved.rename("old", "Größe: 2 & 3/4")
    assert saved.names() == ["Größe: 2 & 3/4"]
    assert saved.load("Größe: 2 & 3/4").name == "Größe: 2 & 3/4"
    (file,) = tmp_path.iterdir()
    assert "# Ask Harbour" in file.read_text("utf-8")
    assert "# why" in file.read_text("utf-8")


def test_a_name_over_several_lines_and_a_file_of_json_are_renamed_too(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    (tmp_path / "one two.yaml").write_text('name: "one\n  two"\nsteps:\n- id: a\n  tool: look\n')
    (tmp_path / "json.yaml").write_text('{"name": "json", "steps": [{"id": "a", "tool": "look"}]}')
    saved.rename("one two", "three")
    saved.rename("json", "four")
    assert saved.load("three").name == "three"
    assert saved.load("four").name == "four"


def test_a_batch_whose_file_has_another_name_than_itself_keeps_its_text(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    for name, text in {
        "file": "name: Title\nsteps:\n- id: a\n  tool: look\n",
        "broken": "steps: 5\n",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        saved.rename(name, f"new {name}")
        assert (tmp_path / f"new {name}.yaml").read_text() == text


def test_a_rename_never_replaces_a_batch_and_checks_both_names(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    saved.save("a", batch("a"))
    saved.save("b", batch("b"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, to in (("a", "b"), ("a", ""), ("a", "x\u202ey"), ("a", "n" * 101), ("", "c"), ("a\0", "c")):
        with pytest.raises(BadInput) as refused:
            saved.rename(name, to)
        assert refused.value.code is ErrorCode.INVALID_ARGUMENTS
    with pytest.raises(BadInput) as missing:
        saved.rename("none", "c")
    assert missing.value.code is ErrorCode.NOT_FOUND
    saved.rename("a", "a")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_name_reaches_a_file_outside_the_folder(tmp_path: Path):
    folder = tmp_path / "batches"
    folder.mkdir()
    (tmp_path / "policy.yaml").write_text("kept")
    saved = SavedBatches(folder)
    saved.save("a", batch("a"))
    for name in ("../policy", "..%2Fpolicy", str(tmp_path / "policy")):
        with pytest.raises(BadInput):
            saved.delete(name)
        with pytest.raises(BadInput):
            saved.rename(name, "b")
    saved.rename("a", "../policy")
    assert (tmp_path / "policy.yaml").read_text() == "kept"
    assert saved.names() == ["../policy"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_deleted_batch_is_gone_and_deleting_it_again_says_so(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    saved.save("a", batch("a"))
    saved.delete("a")
    assert saved.names() == []
    with pytest.raises(BadInput) as missing:
        saved.delete("a")
    assert missing.value.code is ErrorCode.NOT_FOUND


def test_a_saved_batch_is_private_and_one_that_finds_no_room_leaves_the_old_one(tmp_path: Path):
    saved = SavedBatches(tmp_path)
    saved.save("a", batch("a"))
    before = (tmp_path / "a.yaml").read_bytes()
    with full_disk_for(tmp_path / "a.yaml"), pytest.raises(BadInput, match="cannot be written"):
        saved.save("a", batch("b"))
    assert (tmp_path / "a.yaml").read_bytes() == before
    if os.name == "posix":
        assert (tmp_path / "a.yaml").stat().st_mode & 0o777 == 0o600
