"""A Python process in which our code finds what it would find on Windows, as far as Linux can show that.

It shows what is imported, and that no name is used meanwhile that Windows' standard library lacks. Whether
those of Windows do what they promise is for `tests/wine`.

The standard library and installed packages have chosen their system when they were imported. So they are
imported first, as on Linux, and stay alive; then `sys.platform` is changed, and what only POSIX has is taken
away. `os.name` stays: `pathlib` would make paths that cannot exist here.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

ROOT = Path(__file__).parents[2]
_POSIX_MODULES = ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog")
# The standard library's modules that have other names on other systems.
_DIFFERENT = ("os", "signal", "socket", "select", "time", "subprocess", "asyncio", "mmap")
# Below it is the desktop of Linux. Its libraries are not installed elsewhere; `local_desktop` chooses.
_LINUX_FOLDER = "linux"


def condition_of(module: Path) -> str | None:
    """The condition under which a module of core can be imported, as Python; None where it always can.

    A module is for some systems only if it says so: by an assertion about `sys.platform` at its top level, at
    which mypy ends too, or by the folder that it is in.
    """
    if _LINUX_FOLDER in module.parent.parts:
        return "sys.platform == 'linux'"
    for line in ast.parse(module.read_text("utf-8")).body:
        if isinstance(line, ast.Assert) and ast.unparse(line.test).startswith("sys.platform"):
            return ast.unparse(line.test)
    return None


def modules_of_core(platform: str) -> dict[str, bool]:
    """Every module of core, and whether it can be imported on a platform."""
    known = {"sys": SimpleNamespace(platform=platform)}
    found = {}
    for path in sorted((ROOT / "core").rglob("*.py")):
        condition = condition_of(path)
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = condition is None or bool(eval(condition, known))
    return found


def run_like_windows(source: str) -> subprocess.CompletedProcess[str]:
    """Run Python source in such a process."""
    start = "from tests.fakes import like_windows; like_windows.change_this_process()"
    return subprocess.run(
        [sys.executable, "-c", f"{start}\n{source}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def change_this_process() -> None:
    """Make this process like one of Windows; nothing of core may be imported yet."""
    assert not any(name.partition(".")[0] == "core" for name in sys.modules)
    _import_all_but_ours()
    import ctypes

    from tests.fakes.msvcrt_double import FakeMsvcrt

    real = ctypes.CDLL

    class NoLibraryOfThisProcess(real):  # type: ignore[misc, valid-type]
        def __init__(self, name: str | None, *more: object, **options: object) -> None:
            if name is None:
                raise TypeError("argument of type 'NoneType' is not iterable")
            super().__init__(name, *more, **options)

    ctypes.CDLL = NoLibraryOfThisProcess  # type: ignore[misc]
    for name in _DIFFERENT:
        _change_names(sys.modules[name])
    sys.modules["msvcrt"] = FakeMsvcrt()
    for name in _POSIX_MODULES:
        # Python's own way to say that there is no such module.
        sys.modules[name] = None  # type: ignore[assignment]
    sys.platform = "win32"


def _import_all_but_ours() -> None:
    """Import everything else that core imports anywhere, in functions too."""
    names = set(_DIFFERENT)
    for path in (ROOT / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
    for name in sorted(names):
        above = name.rpartition(".")[0]
        # After its module, which is sorted before it: a name in a module that is no package is no module.
        is_one = not above or above not in sys.modules or hasattr(sys.modules[above], "__path__")
        if is_one and name.partition(".")[0] not in ("core", "sandbox_init"):
            try:
                importlib.import_module(name)
            except ImportError:
                # Of another system, or a name in a package.
                continue


def _change_names(module: ModuleType) -> None:
    """Remove the names that a module has on Linux alone, and add those on Windows alone that are numbers.

    Which those are is read in typeshed, the description of the standard library that mypy carries.
    """
    here, there = _described(module.__name__, "linux"), _described(module.__name__, "win32")
    for name in here.keys() - there.keys():
        if name != "path":
            module.__dict__.pop(name, None)
    for name in there.keys() - here.keys():
        if isinstance(value := there[name], int):
            setattr(module, name, value)


def _described(module: str, platform: str) -> dict[str, object]:
    """The names that a module has on a platform, with their values where typeshed says these."""
    import mypy

    library = Path(mypy.__file__).parent / "typeshed" / "stdlib"
    stub = library / f"{module}.pyi"
    if not stub.exists():
        stub = library / module / "__init__.pyi"
    return _names(ast.parse(stub.read_text("utf-8")).body, platform)


def _names(body: list[ast.stmt], platform: str) -> dict[str, object]:
    """The names that a stub defines on a platform, with their values where it has these."""
    known = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info)}
    found: dict[str, object] = {}
    for line in body:
        if isinstance(line, ast.If):
            holds = eval(ast.unparse(line.test), known)
            found |= _names(line.body if holds else line.orelse, platform)
        elif isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[line.name] = None
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            value = line.value
            found[line.target.id] = value.value if isinstance(value, ast.Constant) else None
        elif isinstance(line, ast.Assign):
            found |= {target.id: None for target in line.targets if isinstance(target, ast.Name)}
        elif isinstance(line, ast.ImportFrom) and line.module == "_winapi":
            values = _described(line.module, platform)
            found |= {alias.asname or alias.name: values.get(alias.name) for alias in line.names}
        elif isinstance(line, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name: None for alias in line.names}
    return found
