"""The core runs where there is no Qt."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
NO_QT = "import sys; sys.modules.update(dict.fromkeys(('PySide6', 'shiboken6', 'qasync')))"


def modules_under(package: str) -> list[str]:
    """Every module of a package; `__main__` modules are programs, importing them is running them."""
    paths = sorted((ROOT / package).rglob("*.py"))
    dotted = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in dotted]


def test_every_core_module_imports_where_qt_is_missing():
    # One process for all: a hundred interpreters would take a minute.
    lines = "; ".join(f"import {name}" for name in modules_under("core"))
    done = subprocess.run(
        [sys.executable, "-c", f"{NO_QT}; {lines}"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_no_module_leads_back_to_itself_by_its_imports():
    """Imports for types and imports within functions count: what they need cannot be understood alone."""
    graph = grimp.build_graph("core")
    TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    ).prepare()


@pytest.fixture(scope="module")
def layers() -> set[str]:
    """The modules to which the contract about packages gives a place."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [contract] = [one for one in contracts if one["name"] == "no arrow between packages runs back up"]
    return {name.strip() for layer in contract["layers"] for name in layer.split("|")}


def test_every_package_has_a_place_in_the_order_of_packages(layers: set[str]):
    packages = {f"core.{path.parent.name}" for path in (ROOT / "core").glob("*/__init__.py")}
    without_code = {f"core.{path.parent.name}" for path in (ROOT / "core").glob("*/*.py")} - packages
    assert packages - layers == set()
    assert without_code == set(), "a folder of modules is a package"


def test_the_modules_at_the_root_stand_below_every_package(layers: set[str]):
    graph = grimp.build_graph("core")
    roots = {f"core.{path.stem}" for path in (ROOT / "core").glob("*.py")} - {"core.__init__"} - layers
    imports = {name: graph.find_modules_directly_imported_by(name) - roots for name in roots}
    assert {name: found for name, found in imports.items() if found} == {}


def loaded_with(*modules: str) -> set[str]:
    """Every module that a process has loaded once it has imported these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded_by_the_device() -> set[str]:
    """Every module that the device client has loaded once it could connect."""
    return loaded_with("core.device.client", "core.device.router")


@pytest.fixture(scope="module")
def loaded_by_a_command() -> set[str]:
    """Every module that the command line has loaded before it talks to a service."""
    return loaded_with("core.cli.app")


@pytest.mark.parametrize(
    "heavy",
    [
        "core.audit",
        "core.commands",
        "core.dispatch",
        "core.policy",
        "core.service",
        "jsonschema.cli",
        "typer",
        "rich",
        "PIL",
    ],
)
def test_the_device_client_does_not_load_the_console(loaded_by_the_device: set[str], heavy: str):
    assert heavy not in loaded_by_the_device
    assert "core.device.router" in loaded_by_the_device


@pytest.mark.parametrize("heavy", ["core.service.service", "jsonschema", "mcp", "rich", "PIL"])
def test_a_command_does_not_load_what_only_the_service_needs(loaded_by_a_command: set[str], heavy: str):
    assert heavy not in loaded_by_a_command
    assert "core.service.rpc.client" in loaded_by_a_command
