"""The read-only shell's command line, and whether this machine keeps what it promises."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import platformdirs

from core.device.sandbox import inner, process_limit, seccomp

_INNER = Path(inner.__file__)
_SELF_TEST_S = 10.0
# Programs find their files with these; everything else may hold a secret, or lead to a daemon.
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "COLUMNS")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Whoever reads a trace of the kernel's takes it from the tracer; drivers do as they like when they are read.
_KERNELS_OWN = ("/sys/kernel/debug", "/sys/kernel/tracing")
# NixOS keeps every program of its PATH below /run.
_NEEDED_BELOW_HIDDEN = ("/run/current-system", "/run/wrappers")
_OPEN_FILES = 1024

# Prints what it managed to do; nothing is what is wanted.
_PROBE = """
import os, socket
def tried(name, deed):
    try:
        deed()
    except OSError:
        return
    print(name)
tried("write to a file", lambda: open("there", "w"))
tried("append to a file", lambda: open("there", "a"))
tried("make a file", lambda: open("new", "w"))
tried("make a folder", lambda: os.mkdir("folder"))
tried("change a mode", lambda: os.chmod("there", 0o777))
tried("change times", lambda: os.utime("there", (1, 1)))
tried("delete a file", lambda: os.unlink("there"))
tried("write to a FIFO", lambda: os.open("fifo", os.O_RDWR | os.O_NONBLOCK))
tried("open a Unix socket", lambda: socket.socket(socket.AF_UNIX))
tried("open a network socket", lambda: socket.socket(socket.AF_INET))
print("done")
"""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why this machine has no sandbox, and what a person can do about it."""

    reason: str
    how_to_fix: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the command may use: seconds, bytes for each process, processes."""

    seconds: float
    memory_bytes: int
    processes: int

    def limits(self) -> dict[str, int]:
        """The same as resource limits. No file can be written, so none can grow either."""
        return {
            "CPU": max(1, int(self.seconds) + 1),
            "DATA": self.memory_bytes,
            # Programs map far more than they use.
            "AS": 8 * self.memory_bytes,
            "NPROC": self.processes,
            "NOFILE": _OPEN_FILES,
            "FSIZE": 0,
            "CORE": 0,
        }


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `bwrap` that passed the self-test. `closed` is hidden, `roots` stay visible below what is hidden."""

    program: str
    closed: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()

    def command(self, inside: Sequence[str], folder: Path, bounds: Bounds, filter_at: int = 3) -> list[str]:
        """The command line that runs `inside` in `folder`; descriptor `filter_at` must be `filter_file`'s."""
        files = [str(path) for path in self.closed if path.is_file()]
        return [
            self.program,
            *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--as-pid-1"),
            *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *self._mounts(folder),
            *("--remount-ro", "/dev", "--chdir", str(folder), "--seccomp", str(filter_at), "--"),
            *(_python(), "-I", "-S", str(_INNER), inner.write_limits(bounds.limits())),
            *(str(len(files)), *files, *inside),
        ]

    def _mounts(self, folder: Path) -> list[str]:
        """Empty folders over what is hidden, then back what must be seen below it, then the closed paths."""
        hidden = hidden_folders()
        words = [word for path in hidden for word in ("--tmpfs", str(path))]
        python = (Path(sys.base_prefix), Path(sys.prefix), _INNER)
        needed = (*map(Path, _NEEDED_BELOW_HIDDEN), *python, *self.roots, folder)
        shown = [
            path
            for path in sorted({Path(os.path.realpath(one)) for one in needed})
            if any(path != over and path.is_relative_to(over) for over in hidden) and path.exists()
        ]
        words += [word for path in shown for word in ("--ro-bind", str(path), str(path))]
        words += [word for path in hidden for word in ("--remount-ro", str(path))]
        for path in self.closed:
            is_hidden = any(path.is_relative_to(over) for over in hidden)
            if is_hidden and not any(path.is_relative_to(one) for one in shown):
                continue
            if path.is_dir():
                words += ["--tmpfs", str(path), "--remount-ro", str(path)]
            elif path.exists():
                words += ["--ro-bind", os.devnull, str(path)]
        return words


def _python() -> str:
    """Our Python where its prefix really is: a link to it may lie in a folder that is hidden."""
    return str(Path(os.path.realpath(os.path.dirname(sys.executable)), os.path.basename(sys.executable)))


def hidden_folders() -> tuple[Path, ...]:
    """Folders with daemons' sockets, programs' scratch files or the kernel's traces, outermost ones only."""
    wanted = ["/run", "/tmp", "/var/tmp", *_KERNELS_OWN, os.environ.get("XDG_RUNTIME_DIR", "")]
    wanted += [os.environ.get("QUARTERDECK_HOME", "")]
    wanted += [platformdirs.user_data_dir("quarterdeck", appauthor=False)]
    found = sorted({Path(os.path.realpath(one)) for one in wanted if one and os.path.isdir(one)})
    return tuple(
        path for path in found if not any(path != over and path.is_relative_to(over) for over in found)
    )


def clean_environment() -> dict[str, str]:
    """What the command sees of the device client's environment."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return {"PATH": _PATH, **kept, "TERM": "dumb", "TMPDIR": "/tmp"}


@contextlib.contextmanager
def filter_file() -> Iterator[int]:
    """The seccomp filter as a descriptor to read from its beginning."""
    if sys.platform != "linux":
        raise OSError("seccomp is Linux's")
    descriptor = os.memfd_create("seccomp")
    try:
        os.write(descriptor, seccomp.filter_program())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@lru_cache(maxsize=4)
def find(program: str | None) -> str | Missing:
    """The `bwrap` to use, after it has been seen to forbid what it must; `program` is what PATH has."""
    if program is None:
        return Missing("bubblewrap is not installed", "Install it: apt install bubblewrap")
    if not seccomp.is_known():
        machine = platform.machine()
        return Missing(f"There is no seccomp filter for {machine}", "Use x86_64 or aarch64")
    if inner.landlock_version() < 1:
        return Missing(
            "The kernel has no Landlock", "Boot Linux 5.13 or newer with landlock in its lsm= parameter"
        )
    if process_limit.is_needed() and process_limit.parent() is None:
        return Missing(
            "The kernel does not limit the processes of root, and there is no control group that would",
            "Run quarterdeck-device as an ordinary user",
        )
    return _self_test(program) or program


def on_path() -> str | None:
    """Where `bwrap` is."""
    return shutil.which("bwrap")


def _self_test(program: str) -> Missing | None:
    """Try inside what must be forbidden; None when nothing of it worked."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-probe-") as made, filter_file() as descriptor:
        folder = Path(os.path.realpath(made))
        (folder / "there").write_text("x")
        os.mkfifo(folder / "fifo")
        bounds = Bounds(_SELF_TEST_S, 1 << 30, 16)
        probe = [_python(), "-I", "-S", "-c", _PROBE]
        try:
            done = subprocess.run(
                Bubblewrap(program).command(probe, folder, bounds, descriptor),
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=clean_environment(),
                timeout=_SELF_TEST_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Missing(f"bubblewrap does not run: {error}", _how_to_fix())
    *managed, last = done.stdout.splitlines() or [""]
    if last != "done":
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Missing(f"bubblewrap does not run here: {said}", _how_to_fix())
    if managed:
        return Missing(f"The sandbox lets a command {', '.join(managed)}", "Update the kernel and bubblewrap")
    return None


def _how_to_fix() -> str:
    """The usual causes, each with what it takes."""
    switches = {
        "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
        "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
        "kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "give bwrap an AppArmor profile that allows userns, "
            "or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }
    for name, (bad, fix) in switches.items():
        with contextlib.suppress(OSError):
            if Path("/proc/sys", name).read_text().strip() == bad:
                return f"Allow user namespaces: {fix}"
    return "Run `bwrap --unshare-user --ro-bind / / true` to see why; containers often forbid it"
