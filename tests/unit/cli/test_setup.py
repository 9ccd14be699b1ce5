"""What `make setup` runs, with a stand-in for Python: it gets over what an interrupted one left behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SETUP = Path(__file__).parents[3] / "packaging" / "setup.sh"
# Says what it was asked, and makes "virtual environments" of itself.
PYTHON = """#!/bin/sh
echo "$*" >> "$0.asked"
[ "$2" != venv ] || { mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; }
"""


def test_a_virtual_environment_without_pip_is_made_anew(tmp_path: Path) -> None:
    tools, half = tmp_path / "tools", tmp_path / "half made"
    tools.mkdir()
    # Neither dpkg-query nor anything else that would look at this machine.
    for name in ("sh", "dirname", "mkdir", "cp"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (half / "bin").mkdir(parents=True)
    for path, text in ((tools / "python", PYTHON), (half / "bin" / "python", "#!/bin/sh\nexit 1\n")):
        path.write_text(text)
        path.chmod(0o755)
    subprocess.run(
        [tools / "sh", SETUP, "python", half, "the.lock"], env={"PATH": str(tools)}, check=True, timeout=60
    )
    asked = (half / "bin" / "python.asked").read_text().splitlines()
    assert asked[-2].endswith("--require-hashes -r the.lock")
    # The two programs come last, from what lies here and nowhere else.
    assert "--no-index --no-deps" in asked[-1]
    assert "--editable" in asked[-1]
