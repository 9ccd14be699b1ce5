"""`device.toml`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from core.device import DeviceConfig, load_config
from core.errors import BadInput


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "device.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_roots_are_home_and_the_temporary_folder() -> None:
    assert set(load_config(None).roots) == {Path.home().resolve(), Path(tempfile.gettempdir()).resolve()}


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is POSIX's")
def test_a_temporary_folder_in_the_home_is_no_root_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So it is on Windows, where the home is named once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "AppData" / "Local" / "Temp"))
    assert load_config(None).roots == (tmp_path.resolve(),)


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is POSIX's")
@pytest.mark.parametrize("home", ["", "/", "relative"])
def test_the_whole_disk_is_no_root_because_there_is_no_home(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    assert load_config(None).roots == (Path(tempfile.gettempdir()).resolve(),)


def test_a_full_disk_does_not_keep_the_device_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    assert load_config(None).roots == (Path.home().resolve(),)


def test_a_file_sets_limits_and_closes_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path = written(
        tmp_path,
        f'roots = ["{tmp_path}/link"]\ntools_off = ["EXEC_CLI"]\n'
        "[limits]\nmax_argument_bytes = 4096\n[undo]\ndays = 1\n",
    )
    config = load_config(path)
    assert config.roots == (tmp_path / "real",)
    assert config.tools_off == {"EXEC_CLI"}
    assert config.limits.max_argument_bytes == 4096
    assert config.undo.days == 1
    assert config.closed_paths == (path,)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("roots = [", "device.toml cannot be used"),
        ('root = ["/tmp"]', "root: "),
        ("[limits]\nmax_arguments = 1", "limits.max_arguments: "),
        ("[limits]\nmax_processes = 0", "limits.max_processes: "),
        ("[limits]\nmax_output_bytes = 1e12", "limits.max_output_bytes: "),
        ("[limits]\nmax_processes = true", "limits.max_processes: "),
        ('[undo]\nmax_bytes = "5"', "undo.max_bytes: "),
        ('roots = ["~no-such-user/x"]', "roots: "),
        ('closed_paths = ["~no-such-user/x"]', "closed_paths: "),
        ('mcp_servers = "~no-such-user/x"', "mcp_servers: "),
        ("roots = []", "roots: "),
        ('roots = ["relative"]', "not an absolute path"),
        ('roots = "/"', "roots: "),
        ("require_signed_approval = true", "pinned_operators"),
        ('require_signed_approval = "yes please"', "require_signed_approval: "),
        ('[[pinned_operators]]\nname = "o"\npublic_key = "abc"', "pinned_operators.0.public_key: "),
        ('[[pinned_operators]]\nname = "o"', "pinned_operators.0.public_key: "),
        (f'[[pinned_operators]]\nname = ""\npublic_key = "{"a" * 64}"', "pinned_operators.0.name: "),
        (f'[[pinned_operators]]\nname = "o"\npublic_key = "{"A" * 64}"', "pinned_operators.0.public_key: "),
        (f'[[pinned_operators]]\nname = "o"\npublic_key = "{"a" * 64}"\n' * 2, "same public_key twice"),
    ],
)
def test_a_broken_file_is_an_error_that_names_the_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_config(written(tmp_path, text))
    assert named in caught.value.message


def test_operators_are_pinned_and_then_approvals_can_be_wanted(tmp_path: Path) -> None:
    key = "ab" * 32
    config = load_config(
        written(
            tmp_path,
            f'require_signed_approval = true\n[[pinned_operators]]\nname = "o"\npublic_key = "{key}"\n',
        )
    )
    assert config.require_signed_approval
    assert [(one.name, one.public_key) for one in config.pinned_operators] == [("o", key)]


def test_a_missing_or_unreadable_file_is_an_error_and_never_the_defaults(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(BadInput, match="cannot be used"):
            load_config(path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="cannot be used"):
        load_config(tmp_path / "bytes.toml")


def test_limits_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        DeviceConfig().roots = (Path("/"),)  # type: ignore[misc]  # the attack itself
