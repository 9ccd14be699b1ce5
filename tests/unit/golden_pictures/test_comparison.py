"""Two folders of golden pictures, compared: what differs is counted, framed, drawn, and never overlooked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.golden_pictures import __main__ as command
from tests.golden_pictures.comparison import (
    ENVIRONMENT,
    Difference,
    OtherEnvironment,
    compare_folders,
)

BLACK, WHITE = (0, 0, 0), (255, 255, 255)


class Sides:
    """A folder before, one after, and one for what differs."""

    def __init__(self, folder: Path) -> None:
        self.before, self.after, self.out = (folder / name for name in ("before", "after", "out"))
        for side in (self.before, self.after):
            side.mkdir()
            self.tell(side, Qt="6")

    def tell(self, side: Path, **environment: str) -> None:
        (side / ENVIRONMENT).write_text(json.dumps(environment))

    def put(self, side: Path, name: str, *white: tuple[int, int], size: tuple[int, int] = (40, 30)) -> None:
        picture = Image.new("RGB", size, BLACK)
        for pixel in white:
            picture.putpixel(pixel, WHITE)
        picture.save(side / name)

    def put_both(self, name: str) -> None:
        for side in (self.before, self.after):
            self.put(side, name)

    def compare(self) -> list[Difference]:
        return compare_folders(self.before, self.after, self.out)


@pytest.fixture
def sides(memory_path: Path) -> Sides:
    return Sides(memory_path)


def test_equal_pictures_differ_in_nothing(sides):
    sides.put_both("fleet.png")
    assert sides.compare() == []
    assert not sides.out.exists()


def test_equal_pixels_in_other_bytes_differ_in_nothing(sides):
    sides.put(sides.before, "fleet.png")
    Image.new("RGB", (40, 30), BLACK).save(sides.after / "fleet.png", compress_level=0)
    assert (sides.before / "fleet.png").read_bytes() != (sides.after / "fleet.png").read_bytes()
    assert sides.compare() == []


def test_a_moved_pixel_is_counted_where_it_was_and_where_it_is(sides):
    sides.put_both("batch.png")
    sides.put(sides.before, "fleet.png", (10, 20))
    sides.put(sides.after, "fleet.png", (13, 18))
    (found,) = sides.compare()
    assert (found.name, found.pixels, found.box) == ("fleet.png", 2, (10, 18, 14, 21))
    assert str(found) == "fleet.png: 2 pixels in 4×3 at 10, 18"


def test_the_smallest_change_of_colour_or_transparency_counts(sides):
    for name, changed in (("blue.png", (0, 0, 1, 255)), ("clear.png", (0, 0, 0, 254))):
        Image.new("RGBA", (4, 4), (0, 0, 0, 255)).save(sides.before / name)
        picture = Image.new("RGBA", (4, 4), (0, 0, 0, 255))
        picture.putpixel((3, 3), changed)
        picture.save(sides.after / name)
    assert [(found.name, found.pixels) for found in sides.compare()] == [("blue.png", 1), ("clear.png", 1)]


def test_the_picture_of_a_difference_has_both_sides_and_marks_it(sides):
    sides.put(sides.before, "fleet.png")
    sides.put(sides.after, "fleet.png", (20, 15))
    sides.compare()
    with Image.open(sides.out / "fleet.png") as sheet:
        assert sheet.size == (3 * 40 + 2 * 8, 30)
        assert sheet.getpixel((20, 15)) == BLACK
        assert sheet.getpixel((40 + 8 + 20, 15)) == WHITE
        assert sheet.getpixel((2 * (40 + 8) + 20, 15)) == (255, 0, 80)


def test_a_picture_of_another_size_differs(sides):
    sides.put(sides.before, "fleet.png")
    sides.put(sides.after, "fleet.png", size=(40, 31))
    assert [str(found) for found in sides.compare()] == ["fleet.png: 40×30 pixels before, 40×31 after"]


@pytest.mark.parametrize(("side", "problem"), [("before", "only before"), ("after", "only after")])
def test_a_picture_of_one_side_only_differs(sides, side, problem):
    sides.put(getattr(sides, side), "fleet.png")
    assert [str(found) for found in sides.compare()] == [f"fleet.png: {problem}"]


def test_pictures_of_another_environment_are_not_compared(sides):
    sides.put_both("fleet.png")
    sides.tell(sides.after, Qt="7")
    with pytest.raises(OtherEnvironment, match="Qt: 6 before, 7 after"):
        sides.compare()


# The command


def run(sides: Sides) -> int:
    return command.main(["compare", str(sides.before), str(sides.after)])


def test_the_command_lists_each_difference_and_exits_1(sides, capsys):
    sides.put_both("fleet.png")
    assert run(sides) == command.EQUAL
    sides.put(sides.after, "fleet.png", (1, 1))
    assert run(sides) == command.DIFFERENT
    assert "fleet.png: 1 pixel in 1×1 at 1, 1" in capsys.readouterr().out
    assert (sides.after / "differences" / "fleet.png").exists()
    # What an earlier comparison left is no picture of this one.
    sides.put(sides.after, "fleet.png")
    assert run(sides) == command.EQUAL
    assert not (sides.after / "differences").exists()


@pytest.mark.parametrize("missing", ["before", "environment"])
def test_a_folder_without_pictures_is_no_equal_one(sides, missing):
    if missing == "before":
        assert command.main(["compare", str(sides.out / "none"), str(sides.after)]) == command.FAILED
    else:
        (sides.before / ENVIRONMENT).unlink()
        assert run(sides) == command.FAILED


def test_two_empty_drawings_are_not_equal(sides):
    assert run(sides) == command.FAILED


def test_pictures_are_not_written_among_others(sides):
    sides.put_both("fleet.png")
    assert command.main(["write", str(sides.before)]) == command.FAILED


# Against a commit


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one commit, whose command writes a picture of the size that `size.txt` names."""
    folder = tmp_path / "project"
    package = folder / command.PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(DRAWS_A_SIZE)
    (folder / "size.txt").write_text("3")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        names = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *words], cwd=folder, check=True)
    monkeypatch.chdir(folder)

    def write(out: Path, *_choice: object) -> int:
        out.mkdir(parents=True)
        Image.new("RGB", (int((folder / "size.txt").read_text()), 3)).save(out / "fleet.png")
        (out / ENVIRONMENT).write_text("{}")
        return command.EQUAL

    monkeypatch.setattr(command, "write", write)
    return folder


DRAWS_A_SIZE = """
import sys
from pathlib import Path
from PIL import Image
_write, out = sys.argv[1:3]
Path(out).mkdir(parents=True)
Image.new("RGB", (int(Path("size.txt").read_text()), 3)).save(Path(out) / "fleet.png")
(Path(out) / "environment.json").write_text("{}")
"""


def worktrees(folder: Path) -> int:
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=folder, check=True, capture_output=True, text=True
    )
    return len(listed.stdout.splitlines())


def test_a_commit_is_drawn_in_a_work_tree_of_its_own(repository, capsys):
    assert command.main(["against", "HEAD"]) == command.EQUAL
    (repository / "size.txt").write_text("4")
    assert command.main(["against", "HEAD"]) == command.DIFFERENT
    assert "fleet.png: 3×3 pixels before, 4×3 after" in capsys.readouterr().out
    assert worktrees(repository) == 1


def test_a_commit_without_the_command_is_drawn_with_the_present_one(repository, monkeypatch, capsys):
    package = repository / command.PACKAGE
    present = repository.parent / "present"
    package.rename(present)
    monkeypatch.setattr(command, "HERE", present)
    names = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, "commit", "--quiet", "-am", "second"], cwd=repository, check=True)
    assert command.main(["against", "HEAD"]) == command.EQUAL
    assert "HEAD has no golden pictures" in capsys.readouterr().out


def test_no_commit_of_that_name_is_no_equal_one(repository):
    assert command.main(["against", "nowhere"]) == command.FAILED
    assert worktrees(repository) == 1
