"""The wheel: everything the programs need, nothing the device must not need, from any folder."""

from __future__ import annotations

import configparser
import email
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from core.batch.batch_file import read_batch

ROOT = Path(__file__).resolve().parents[3]
NO_QT = "import sys; sys.modules.update(dict.fromkeys(('PySide6', 'shiboken6', 'qasync')))"

pytest.importorskip("setuptools", "77", reason="older ones cannot read this project's license")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without any network from a copy: building leaves files in the source folder."""
    source = tmp_path_factory.mktemp("source")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("app", "core", "resources", "packaging"):
        shutil.copytree(ROOT / folder, source / folder, ignore=skip)
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source / name)
    (source / "README.md").touch()
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--no-index", "--disable-pip-version-check", "--wheel-dir", str(folder), str(source)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip installs it, with its programs; what it depends on comes from this environment."""
    prefix = tmp_path_factory.mktemp("prefix")
    # Without --ignore-installed, pip removes this environment's own installation of the project.
    words = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--ignore-installed"]
    words += ["--prefix", str(prefix)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words, str(wheel)], check=True, timeout=120)
    return prefix


def source_files(*folders: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def metadata(unpacked: Path) -> Message:
    (folder,) = unpacked.glob("*.dist-info")
    return email.message_from_string((folder / "METADATA").read_text("utf-8"))


def run_away_from_the_source(
    command: list[str], packages: Path, cwd: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("QUARTERDECK")}
    return subprocess.run(
        command,
        env={**kept, "PYTHONPATH": str(packages), **more},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_its_installation_elsewhere_leaves_the_one_of_this_environment(installed):
    assert (installed / "bin" / "quarterdeck").exists()
    # In safe mode neither the working folder nor PYTHONPATH leads to the sources.
    apart = [sys.executable, "-P", "-c", "import app.__main__; print(app.__main__.__file__)"]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = subprocess.run(apart, env=kept, cwd=installed, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(ROOT / "app" / "__main__.py")


def test_every_module_and_every_resource_is_in_it(names):
    wanted = {name for name in source_files("app", "core") if name.endswith(".py")}
    shown_on_the_web = {name for name in source_files("resources") if name.startswith("resources/pictures/")}
    assert wanted | (source_files("resources") - shown_on_the_web) <= names
    assert not shown_on_the_web & names


def test_what_the_read_only_shell_tells_apt_is_in_it(names):
    assert "core/device/sandbox/apt.conf" in names


def test_nothing_else_is_in_it(names):
    tops = {name.split("/")[0] for name in names}
    assert {one for one in tops if not one.endswith((".dist-info", ".data"))} == {"app", "core", "resources"}
    assert not [name for name in names if "test" in name.lower() or name.endswith(".pyc")]
    # What builds it is not in it; an example for its users is.
    assert not [name for name in names if name.endswith(".toml") and not name.startswith("resources/")]


def test_the_device_alone_needs_no_qt_and_the_window_says_that_it_does(unpacked):
    needs = metadata(unpacked).get_all("Requires-Dist") or []
    qt = [one for one in needs if one.lower().startswith(("pyside6", "qasync", "shiboken"))]
    assert qt
    assert all("extra == 'window'" in one.replace('"', "'") for one in qt)
    assert metadata(unpacked).get_all("Provides-Extra") is not None


def test_both_programs_are_named(unpacked):
    (folder,) = unpacked.glob("*.dist-info")
    programs = configparser.ConfigParser()
    programs.read(folder / "entry_points.txt")
    assert set(programs["console_scripts"]) == {"quarterdeck", "quarterdeck-device"}


def test_an_unpacked_copy_finds_its_style_sheet_and_batches(unpacked, tmp_path):
    code = (
        "from app.theme.theme import STYLE_SHEET, Theme; import core; from pathlib import Path; "
        "batches = Path(core.__file__).resolve().parents[1] / 'resources' / 'batches'; "
        "print(STYLE_SHEET); print(len(Theme().style_sheet()) > 1000); print(batches)"
    )
    done = run_away_from_the_source(
        [sys.executable, "-P", "-c", code], unpacked, tmp_path, QT_QPA_PLATFORM="offscreen"
    )
    assert done.returncode == 0, done.stderr
    style, filled, batches = done.stdout.splitlines()
    assert Path(style).is_relative_to(unpacked)
    assert filled == "True"
    shipped = sorted(Path(batches).glob("*.yaml"))
    assert [path.name for path in shipped] == sorted(p.name for p in (ROOT / "resources/batches").iterdir())
    for path in shipped:
        assert read_batch(path.read_text("utf-8"), path.name).steps


def test_the_device_client_runs_from_it_where_qt_is_missing(unpacked, tmp_path):
    code = f"{NO_QT}; from core.device.__main__ import main; sys.exit(main(['--check']))"
    done = run_away_from_the_source([sys.executable, "-P", "-c", code], unpacked, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shell_execute" in done.stdout + done.stderr


def test_the_installed_programs_work_from_a_folder_that_offers_other_modules(installed, tmp_path):
    (packages,) = installed.glob("lib*/python3*/site-packages")
    trap = tmp_path / "trap"
    for name in ("core", "app"):
        (trap / name).mkdir(parents=True)
        (trap / name / "__init__.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    home = tmp_path / "home"
    program = [str(installed / "bin" / "quarterdeck"), "--home", str(home)]
    for words, expected in (
        (["version"], "quarterdeck "),
        (["call", "this-computer", "get_system_info", "info_type=memory"], "total_bytes"),
        (["service", "start"], ""),
        (["devices"], "online"),
        (["service", "stop", "--cancel-work"], ""),
        (["audit", "verify"], "The journal verifies"),
    ):
        done = run_away_from_the_source([*program, *words], packages, trap)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert expected in done.stdout
    device = run_away_from_the_source(
        [str(installed / "bin" / "quarterdeck-device"), "--check"], packages, trap
    )
    assert device.returncode == 0, device.stderr
    assert not (tmp_path / "sprung").exists()


def test_a_desktop_finds_the_program_and_its_icon(installed):
    entry = configparser.ConfigParser(interpolation=None)
    entry.optionxform = str  # type: ignore[assignment,method-assign]  # keys of desktop files have case
    assert entry.read(installed / "share" / "applications" / "quarterdeck.desktop")
    desktop = entry["Desktop Entry"]
    assert desktop["Type"] == "Application"
    assert (installed / "bin" / desktop["Exec"]).exists()
    icon = installed / "share" / "icons" / "hicolor" / "scalable" / "apps" / f"{desktop['Icon']}.svg"
    drawing = ElementTree.parse(icon).getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert 'setDesktopFileName("quarterdeck")' in (ROOT / "app" / "main.py").read_text("utf-8")


def test_the_device_client_can_be_a_service_and_start_with_a_session(installed):
    assert (installed / "share" / "systemd" / "user" / "quarterdeck-device.service").is_file()
    autostart = installed / "share" / "quarterdeck" / "autostart" / "quarterdeck-device.desktop"
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(autostart)
    assert (installed / "bin" / entry["Desktop Entry"]["exec"]).exists()
