"""The bubblewrap command line of the read-only shell, and the self-test of the sandbox on this machine."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import platformdirs

from core.device.private_places import SCRATCH_FOLDERS, is_below, outermost
from core.device.sandbox import cgroup, sandbox_init, seccomp
from core.device.sandbox.interface import Missing, clean_environment
from core.device.sandbox.sight import Sight

assert sys.platform == "linux"

_INNER = Path(sandbox_init.__file__)
# Imported as a module, so that it is not compiled again for each command.
_START = f"import sys; sys.path.insert(0, {str(_INNER.parent)!r}); import sandbox_init; sandbox_init.run()"
_SELF_TEST_S = 10.0
# Reading a kernel trace removes it from the tracer's buffer; reading a debugfs file may have side effects.
_KERNELS_OWN = ("/sys/kernel/debug", "/sys/kernel/tracing")
# NixOS has every program of its PATH below /run.
_NEEDED_BELOW_HIDDEN = ("/run/current-system", "/run/wrappers")
# bubblewrap creates these itself, so that they contain nothing of the machine's own.
_OWN_MOUNTS = ("/dev", "/proc")
_OPEN_FILES = 1024
# All concurrent commands together may take 1/2 of the user's pools, in equal shares.
_SHARE_OF_POOLS = 2
_PAGES_OF_PIPE = 16
_LEAST_PIPES, _MOST_PIPES = 16, 64
_LEAST_WATCHES, _MOST_WATCHES = 64, 4096
_SIGNALS = 128

# Prints each forbidden operation that succeeded, then "done". In a working sandbox it prints only "done".
_PROBE = """
import os, socket, sys
os.chdir(sys.argv[1])
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
def looked(path):
    if not (os.listdir(path) if os.path.isdir(path) else open(path, "rb").close() is None):
        raise OSError(path)
for path in sys.argv[2:]:
    tried(f"read {path}, which is closed", lambda: looked(path))
print("done")
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a command: CPU seconds, bytes for each process, number of processes.

    `commands`: how many commands may run at once; they share the user's kernel pools.
    """

    seconds: float
    memory_bytes: int
    processes: int
    commands: int = 8

    def limits(self) -> dict[str, int]:
        """The bounds as resource limits (setrlimit(2)). FSIZE is 0 because no file can be written."""
        return {
            "CPU": max(1, int(self.seconds) + 1),
            "DATA": self.memory_bytes,
            # Programs map far more memory than they use.
            "AS": 8 * self.memory_bytes,
            "NPROC": self.processes,
            "NOFILE": _OPEN_FILES,
            "FSIZE": 0,
            "CORE": 0,
            # The kernel counts both for all programs of the user together.
            "SIGPENDING": _SIGNALS,
            "MSGQUEUE": 0,
        }

    def shares(self) -> str:
        """The command's shares of pipes and epoll watches, in the form that `sandbox_init` takes.

        Beyond `fs.pipe-user-pages-soft` (pages, 0 for no limit) the kernel makes new pipes of the user small;
        beyond `fs.epoll.max_user_watches` the user's programs can add no epoll watch (pipe(7), epoll(7)).
        """
        commands = _SHARE_OF_POOLS * self.commands
        pipes = (_setting("fs/pipe-user-pages-soft") or sys.maxsize) // _PAGES_OF_PIPE // commands
        watches = (_setting("fs/epoll/max_user_watches") or sys.maxsize) // commands
        return sandbox_init.write_shares(
            max(_LEAST_PIPES, min(pipes, _MOST_PIPES)),
            max(_LEAST_WATCHES, min(watches, _MOST_WATCHES)),
            seccomp.epoll_ctl(),
        )


def _setting(name: str) -> int:
    """A number from /proc/sys; 0 where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys", name).read_text("ascii"))
    return 0


@dataclass(frozen=True, slots=True)
class Place:
    """A folder's path, and its device and inode numbers (stat(2)) when it was checked."""

    path: Path
    identity: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `bwrap` program and its paths: `roots` are never hidden, `closed` paths always, also below roots."""

    program: str
    closed: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    def sight(self, folder: str) -> Sight:
        """The parts of the disk that a command line sees if it starts in this folder. Blocks on the disk."""
        closed = self._all_closed()
        layers = self._layers(closed, folder)
        home = os.environ.get("HOME") or os.path.expanduser("~")
        hidden = [layer.path for layer in layers if not layer.is_shown and layer.path not in _OWN_MOUNTS]
        hidden += [path for path in outermost(closed) if _is_seen(path, layers)]
        shown = [layer.path for layer in layers if layer.is_shown]
        return Sight(folder, home, tuple(hidden), tuple(shown))

    def command(self, inside: Sequence[str], start: Place, bounds: Bounds) -> Start:
        """The sandboxed form of the command `inside`, to start in a folder that has been checked.

        The command does not run if the folder has been replaced since the check. Blocks on the disk.
        """
        closed = outermost([*all_names(self._all_closed(), read_mounts())])
        layers = self._layers(closed, str(start.path))
        # A closed path in a hidden folder does not exist in the sandbox.
        closed = [path for path in closed if _is_seen(path, layers)]
        walls = (
            self.program,
            *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--as-pid-1"),
            *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *_mounts(layers, closed),
            *("--remount-ro", "/dev", "--chdir", str(start.path)),
        )
        limits, rules = sandbox_init.write_limits(bounds.limits()), seccomp.counting_program()
        plan = sandbox_init.write_plan(limits, bounds.shares(), rules, start.identity, closed)
        return Start(walls, tuple(inside), plan)

    def _all_closed(self) -> list[str]:
        """The closed paths, and other programs' private paths in scratch folders that are roots."""
        folders = [root for root in self.roots if root in SCRATCH_FOLDERS]
        return [*self.closed, *(path for root in folders for path in private_in(root, self.roots))]

    def _layers(self, closed: Sequence[str], folder: str) -> list[Layer]:
        hidden = hidden_folders()
        wanted = [path for path in (*self.roots, folder) if not _is_in(path, closed)]
        # A scratch folder is hidden because of other programs' private files. Where the folder is a root,
        # only those files are closed.
        roots = [path for path in self.roots if path in SCRATCH_FOLDERS and path in wanted]
        return _layers([path for path in hidden if path not in roots], _shown(wanted))


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder that is shown or hidden with everything below it, unlike the folder around it."""

    path: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Start:
    """A command and its sandbox. The plan is not an argument, because every user can read arguments."""

    walls: tuple[str, ...]
    inside: tuple[str, ...]
    plan: bytes

    def line(self, files: Files | None = None) -> list[str]:
        """The command line that uses these descriptors; 3, 4 and 5 by default."""
        rules, report, plan = (3, 4, 5) if files is None else files
        first = (_python(), "-I", "-S", "-c", _START, str(report), str(plan))
        return [*self.walls, "--seccomp", str(rules), "--", *first, *self.inside]

    @contextlib.contextmanager
    def files(self) -> Iterator[Files]:
        """The in-memory files that the command line inherits, each positioned at its beginning."""
        with contextlib.ExitStack() as made:
            descriptors = []
            for name, content in (("rules", seccomp.filter_program()), ("report", b""), ("plan", self.plan)):
                descriptor = os.memfd_create(name)
                made.callback(os.close, descriptor)
                os.write(descriptor, content)
                os.lseek(descriptor, 0, os.SEEK_SET)
                descriptors.append(descriptor)
            yield Files(*descriptors)


class Files(NamedTuple):
    """Descriptors of the first filter, and of the report and plan of `sandbox_init`."""

    rules: int
    report: int
    plan: int

    def said(self) -> bytes:
        """The sandbox's first process's report so far, a byte for each message; empty if it never began."""
        return os.pread(self.report, 16, 0)


def _shown(wanted: Sequence[str]) -> list[str]:
    """The paths that must be visible even below a hidden folder."""
    needed = [resolved(path) for path in (*_NEEDED_BELOW_HIDDEN, sys.base_prefix, sys.prefix)]
    # Wanted paths were resolved when they were checked. A path that is a symlink now was replaced since.
    needed += [resolved(str(_INNER.parent)), *(path for path in wanted if not os.path.islink(path))]
    # The sandbox has its own /dev and /proc even where a root lies in them.
    return [path for path in needed if os.path.exists(path) and not _is_devices(path)]


def _is_devices(path: str) -> bool:
    return _is_in(path, _OWN_MOUNTS) and not is_below(path, "/dev/shm")


def _layers(hidden: Sequence[str], shown: Sequence[str]) -> list[Layer]:
    """Layers, outermost first. A path in both `hidden` and `shown` is hidden."""
    kinds = dict.fromkeys(shown, True) | dict.fromkeys((*hidden, *_OWN_MOUNTS), False)
    layers: list[Layer] = []
    # Sorted by path components, so that a folder precedes its contents.
    for path in sorted(kinds, key=lambda path: path.split(os.sep)):
        if _is_seen(path, layers) is not kinds[path]:
            layers.append(Layer(path, kinds[path]))
    return layers


def _is_seen(path: str, layers: Sequence[Layer]) -> bool:
    """Whether a path is shown, as decided by the innermost layer that contains it."""
    return next((layer.is_shown for layer in reversed(layers) if is_below(path, layer.path)), True)


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def _mounts(layers: Sequence[Layer], closed: Sequence[str]) -> list[str]:
    """bwrap arguments: an empty folder over each hidden one, binds of shown folders, empty closed folders.

    A closed file gets no mount. Landlock makes it unreadable, so that a program gets an error instead of an
    empty file.
    """
    words: list[str] = []
    hidden = [layer.path for layer in layers if not layer.is_shown and layer.path not in _OWN_MOUNTS]
    for layer in layers:
        if layer.is_shown:
            words += ["--ro-bind", layer.path, layer.path]
        elif layer.path in hidden:
            words += ["--tmpfs", layer.path]
    # Read-only only now, because bwrap creates the mount points of shown folders below the hidden ones.
    words += [word for path in hidden for word in ("--remount-ro", path)]
    for path in closed:
        if os.path.isdir(path) and not os.path.islink(path):
            words += ["--tmpfs", path, "--remount-ro", path]
    return words


def _python() -> str:
    """The Python executable in its resolved folder, because a link to that folder may lie in a hidden one."""
    return str(Path(os.path.realpath(os.path.dirname(sys.executable)), os.path.basename(sys.executable)))


def hidden_folders() -> list[str]:
    """Folders with daemons' sockets, programs' scratch files, kernel traces, or the console's data."""
    wanted = ["/run", "/tmp", "/var/tmp", *_KERNELS_OWN, os.environ.get("XDG_RUNTIME_DIR", "")]
    wanted += [os.environ.get("QUARTERDECK_HOME", "")]
    wanted += [platformdirs.user_data_dir("quarterdeck", appauthor=False)]
    return sorted({resolved(path) for path in wanted if path and os.path.isdir(path)})


@lru_cache(maxsize=4)
def find(sandbox: Bubblewrap | None) -> Missing | None:
    """Why this sandbox is not available; None after the self-test has passed with exactly this sandbox.

    `sandbox` is None where PATH has no `bwrap`.
    """
    if sandbox is None:
        return Missing("bubblewrap is not installed", "Install it: apt install bubblewrap")
    if not seccomp.is_known():
        machine = platform.machine()
        return Missing(f"There is no seccomp filter for {machine}", "Use x86_64 or aarch64")
    if sandbox_init.landlock_version() < 1:
        return Missing(
            "The kernel has no Landlock", "Boot Linux 5.13 or newer with landlock in its lsm= parameter"
        )
    if cgroup.is_needed() and cgroup.parent() is None:
        return Missing(
            "The kernel does not limit the processes of root, and there is no control group that would",
            "Run quarterdeck-device as an ordinary user",
        )
    return _self_test(sandbox)


def on_path() -> str | None:
    """The path of `bwrap`; None where PATH has none."""
    return shutil.which("bwrap")


def _self_test(sandbox: Bubblewrap) -> Missing | None:
    """Try forbidden operations in the sandbox that calls use; None when every operation failed."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-probe-") as made:
        folder = Path(os.path.realpath(made))
        (folder / "there").write_text("x")
        os.mkfifo(folder / "fifo")
        # Start where a call without a folder starts. A missing root is reported to that call, not here.
        first = next((path for path in sandbox.roots if os.path.isdir(path)), str(folder))
        start = Path(first)
        facts = start.stat()
        seen = replace(sandbox, roots=(*sandbox.roots, str(folder)))
        probe = [_python(), "-I", "-S", "-c", _PROBE, str(folder), *sandbox.closed]
        place = Place(start, (facts.st_dev, facts.st_ino))
        begun = seen.command(probe, place, Bounds(_SELF_TEST_S, 1 << 30, 16))
        try:
            with begun.files() as files:
                done = subprocess.run(
                    begun.line(files),
                    pass_fds=files,
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
    """Advice for the usual causes: kernel settings that forbid user namespaces."""
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


_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo: folder `root` of the file system on `device` is mounted at `point`."""

    device: str
    root: str
    point: str


def read_mounts() -> list[Mount]:
    """The mounts that this process sees, oldest first; empty where /proc cannot be read (proc(5))."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    rows = [os.fsdecode(line).split(" ")[2:5] for line in lines]
    return [Mount(device, _plain(root), _plain(point)) for device, root, point in rows]


def all_names(paths: Iterable[str], mounts: list[Mount]) -> Iterator[str]:
    """The names of each path, as absolute paths whose parent folders are resolved.

    These are the path itself, its target if it is a symlink, and its names below other mounts. None of them
    need exist.
    """
    folders: dict[str, str] = {}
    times = Counter(mount.device for mount in mounts)
    is_shown_twice = max(times.values(), default=0) > 1
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = resolved(folder)
        plain = real = os.path.join(folders[folder], name)
        yield plain
        if os.path.islink(plain):
            # The symlink is returned as well as its target, because another symlink may replace it.
            real = resolved(plain)
            yield real
        if is_shown_twice:
            yield from _other_names(real, mounts)


def resolved(path: str) -> str:
    """A path without symlinks; unchanged where it cannot be resolved because it changes meanwhile."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _other_names(path: str, mounts: list[Mount]) -> Iterator[str]:
    above = [mount for mount in mounts if is_below(path, mount.point)]
    if not above:
        return
    # Of several mounts at the same point, only the last is visible.
    own = max(reversed(above), key=lambda mount: len(mount.point))
    place = os.path.normpath(os.path.join(own.root, os.path.relpath(path, own.point)))
    for mount in mounts:
        if mount.device != own.device or mount is own:
            continue
        if is_below(place, mount.root):
            yield os.path.normpath(os.path.join(mount.point, os.path.relpath(place, mount.root)))
        elif is_below(mount.root, place):
            yield mount.point


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), field)


# Closed even where they do not exist: every entry of the folder then gets a rule of its own
# (`sandbox_init.forbid_changes`), and entries created while a command runs are not readable.
_ALWAYS = (".X11-unix", ".ICE-unix")
# Sockets of agents and desktops, private folders of services (also root's), and shared memory of browsers.
_PRIVATE = (
    *(".XIM-unix", ".font-unix", ".Test-unix", "ssh-*", "gpg-*", "tmux-*", "tmate-*", "screens", "uscreens"),
    *("keyring-*", "dbus-*", "pulse-*", "ksocket-*", "kde-*", "orbit-*", "gdm*", "sddm*", "emacs[0-9]*"),
    *("systemd-private-*", "snap-private-tmp", "snap.*", "vscode-ipc-*", "vscode-ssh-auth-*"),
    *(".org.chromium.*", ".com.google.Chrome.*"),
)


def private_in(folder: str, roots: Iterable[str]) -> Iterator[str]:
    """The entries of a scratch folder that no command sees, approved or not. Blocks on the disk.

    Excludes entries that are a root or contain one.
    """
    names = dict.fromkeys(_ALWAYS)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if any(fnmatchcase(entry.name, pattern) for pattern in _PRIVATE) or _is_for_sockets(entry):
                    names[entry.name] = None
    except OSError:
        # The command cannot list such a folder either.
        pass
    own = tuple(roots)
    for name in names:
        path = os.path.join(folder, name)
        if not any(is_below(root, path) for root in own):
            yield path


def _is_for_sockets(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a socket or a folder that contains only sockets; agents create both."""
    try:
        facts = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            return stat.S_ISSOCK(facts.st_mode)
        with os.scandir(entry.path) as inside:
            first = next(inside, None)
            return first is not None and _is_socket(first) and all(map(_is_socket, inside))
    except OSError:
        # The entry has gone, or this user, and so the command, may not read it.
        return False


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
