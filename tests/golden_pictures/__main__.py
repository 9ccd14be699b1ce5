"""The command; `python -m tests.golden_pictures -h` lists what it can do."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.golden_pictures import still
from tests.golden_pictures.comparison import OtherEnvironment, compare_folders

SCALES = ("100", "150")
OUT = Path("build/golden_pictures")
DIFFERENCES = "differences"
HERE = Path(__file__).parent
PACKAGE = Path("tests/golden_pictures")
# Drawing takes minutes; only what hangs takes so long.
LONGEST_DRAWING_S = 3 * 3600
EQUAL, DIFFERENT, FAILED = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; the exit code is 0 for equal, 1 for different, 2 for what cannot be done."""
    given = _parser().parse_args(arguments)
    try:
        match given.command:
            case "write":
                return write(given.folder, given.scenes, given.look, given.scale)
            case "compare":
                return compare(given.before, given.after)
            case "against":
                return against(given.commit, given.scenes, given.look, given.scale)
            case _:
                return draw(given.folder, given.scenes, given.look, given.scale[0])
    except (OSError, OtherEnvironment, subprocess.SubprocessError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.golden_pictures")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="draw the code of the present folder")
    writing.add_argument("folder", type=Path, help="a folder that is new or empty")
    comparing = commands.add_parser("compare", help="list each picture that differs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    looking_back = commands.add_parser(
        "against", help=f"draw a commit and the present folder into {OUT}, and compare"
    )
    looking_back.add_argument("commit")
    # What `write` starts for each scale.
    drawing = commands.add_parser("draw")
    drawing.add_argument("folder", type=Path)
    for one in (writing, looking_back, drawing):
        one.add_argument("scenes", nargs="*", default=[], help="all without any")
        one.add_argument("--look", action="append", default=[], help="all without any")
        one.add_argument("--scale", action="append", default=[], choices=SCALES, help="in percent; all")
    return parser


def write(
    folder: Path, scenes: Sequence[str] = (), looks: Sequence[str] = (), scales: Sequence[str] = ()
) -> int:
    """Draw the code of the present folder: one process for each scale, since Qt reads it at the start.

    Raises:
        FileExistsError: the folder has something in it.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; pictures of other code may be in it.")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = scales or SCALES
    more = [*scenes, *(word for look in looks for word in ("--look", look))]
    drawings = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.golden_pictures", "draw", str(folder), *more, "--scale", scale],
            env=_environment(scale),
        )
        for scale in chosen
    ]
    try:
        codes = [drawing.wait(LONGEST_DRAWING_S) for drawing in drawings]
    finally:
        for drawing in drawings:
            drawing.kill()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return FAILED if any(codes) else EQUAL


def _environment(scale: str) -> dict[str, str]:
    """What the pictures may depend on, fixed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("QT_", "PYTHON", "LC_"))}
    return kept | {
        "QT_API": "pyside6",
        "QT_QPA_PLATFORM": "offscreen",
        "QT_SCALE_FACTOR": str(int(scale) / 100),
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
    }


def draw(folder: Path, scenes: Sequence[str], looks: Sequence[str], scale: str) -> int:
    """Draw at the scale of this process."""
    still.hold()
    # Only now: these modules take the clock by name.
    from tests.golden_pictures.drawing import draw as draw_scenes
    from tests.golden_pictures.scenes import SCENES
    from tests.golden_pictures.studio import LOOKS

    unknown = [name for name in scenes if name not in SCENES] + [look for look in looks if look not in LOOKS]
    if unknown:
        print(f"There is no {', '.join(unknown)}. Scenes: {' '.join(SCENES)}. Looks: {' '.join(LOOKS)}.")
        return FAILED
    failed = draw_scenes(folder, scenes or list(SCENES), looks or list(LOOKS), scale)
    if failed:
        print(f"At {scale} % these could not be drawn: {' '.join(failed)}", file=sys.stderr)
    return FAILED if failed else EQUAL


def compare(before: Path, after: Path) -> int:
    """List each picture that differs; what can be seen of it comes into AFTER/differences."""
    out = after / DIFFERENCES
    shutil.rmtree(out, ignore_errors=True)
    differences = compare_folders(before, after, out)
    for difference in differences:
        print(difference)
    count = len(list(after.glob("*.png")))
    if not count and not differences:
        print(f"{after} holds no pictures.", file=sys.stderr)
        return FAILED
    print(f"{len(differences)} of {count} pictures differ" + (f"; see {out}" if out.exists() else ""))
    return DIFFERENT if differences else EQUAL


def against(
    commit: str, scenes: Sequence[str] = (), looks: Sequence[str] = (), scales: Sequence[str] = ()
) -> int:
    """Draw that commit and the present folder with the same interpreter, and compare.

    Raises:
        subprocess.CalledProcessError: git has no such commit.
    """
    before, after = (OUT / "before").resolve(), (OUT / "after").resolve()
    shutil.rmtree(OUT, ignore_errors=True)
    choice = [*scenes, *(f"--look={look}" for look in looks), *(f"--scale={scale}" for scale in scales)]
    with tempfile.TemporaryDirectory(prefix="golden-pictures-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), commit], check=True)
        try:
            if not (tree / PACKAGE / "__main__.py").exists():
                print(f"{commit} has no golden pictures; the present scenes are played on its own fakes.")
                shutil.copytree(HERE, tree / PACKAGE, dirs_exist_ok=True)
            command = [sys.executable, "-m", "tests.golden_pictures", "write", str(before), *choice]
            drawn = subprocess.run(command, cwd=tree, check=False, timeout=LONGEST_DRAWING_S).returncode
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)
    # What one side could not draw is listed as a picture of the other.
    drawn = write(after, scenes, looks, scales) or drawn
    return compare(before, after) or drawn


if __name__ == "__main__":
    sys.exit(main())
