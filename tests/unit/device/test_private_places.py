"""The private places: the policy asks before each of them, the device knows where they are on its machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from core.device.config import DeviceConfig, load_config
from core.device.guard import Guard
from core.device.private_places import outermost, private_places, shown_place
from core.device.tool import OBSERVES, Contract, Tool, ToolCall, object_schema
from core.errors import Refused
from core.home import Home
from core.policy.models import Answer
from core.private_paths import IN_HOME, IN_HOME_ON, ON_SYSTEM, names_private_place
from tests.fakes.rig import DEVICE, open_rig

EVERYWHERE = (*IN_HOME, *(place for places in IN_HOME_ON.values() for place in places))
HOMES = ("~", "/home/someone", "$HOME", "/root", "/Users/someone", "C:\\Users\\someone")
OPEN = (
    "~/notes",
    "/home/u/.sshd",
    "/srv/shadow",
    "~/.config/app",
    "/etc/passwd",
    "~/.docker-notes",
    "a.ssh/x",
)


async def test_the_policy_asks_before_each_private_place_in_whatever_spelling(home: Home) -> None:
    async with open_rig(home) as rig:

        def unasked(paths: list[str]) -> list[str]:
            answers = (
                rig.dispatcher.explain(DEVICE, "read_file", {"file_path": one}).answer for one in paths
            )
            return [path for path, answer in zip(paths, answers, strict=True) if answer is not Answer.ASK]

        below_home = [f"{start}/{place}" for place in EVERYWHERE for start in ("~", "/home/someone")]
        spelled = [f"{start}/.config//x/./../gcloud/creds" for start in HOMES]
        spelled += [
            "~\\.ssh\\id_rsa",
            "/HOME/someone/.SSH/ID_RSA",
            "//etc/shadow",
            "/etc/./shadow",
            ".ssh/id",
        ]
        assert unasked([*below_home, *(f"{path}/inner" for path in below_home)]) == []
        assert unasked([*ON_SYSTEM, *spelled]) == []
        assert len(unasked(list(OPEN))) == len(OPEN)


def test_what_only_looks_like_a_private_place_is_none() -> None:
    assert [path for path in OPEN if names_private_place(path)] == []


def test_the_places_are_below_this_users_home_and_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one{os.pathsep}{tmp_path}/two{os.pathsep}relative")
    # A home that is called private as a whole would leave nothing to be seen.
    monkeypatch.setenv("GNUPGHOME", str(tmp_path / "home"))
    config = DeviceConfig(roots=(tmp_path / "root",), private_paths=(tmp_path / "own",))
    places = set(private_places(config))
    for wanted in ("home/.ssh", "home/.config/gcloud", "settings/gcloud", "one", "two", "own"):
        assert str(tmp_path / wanted) in places
    assert str(tmp_path / "home") not in places
    assert all(os.path.isabs(place) for place in places)
    assert shown_place(str(tmp_path / "home" / ".ssh")) == "~/.ssh"
    assert shown_place(str(tmp_path / "own")) == str(tmp_path / "own")


@pytest.mark.skipif(sys.platform == "win32", reason="the accounts of a Unix system")
def test_root_sees_no_other_persons_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    for name in ("own", "anna", "bert", "daemon"):
        (tmp_path / name).mkdir()

    def account(name: str, uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, uid, "", str(tmp_path / name), "/bin/sh"))

    accounts = [account("own", 0), account("anna", 1000), account("bert", 1001), account("daemon", 2)]
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: accounts[0])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    # What the device's owner names as a root is for the console, but for the keys in it.
    places = private_places(DeviceConfig(roots=(tmp_path / "bert" / "project",)))
    assert str(tmp_path / "anna") in places
    assert str(tmp_path / "bert") not in places
    assert str(tmp_path / "bert" / ".ssh") in places
    assert not [place for place in places if place.startswith(str(tmp_path / "daemon"))]
    assert "/etc/shadow" in places
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert str(tmp_path / "anna") not in private_places(DeviceConfig(roots=(tmp_path,)))


def test_of_paths_below_each_other_the_outermost_stay() -> None:
    assert outermost(["/a/b", "/a", "/a-b", "/a/b/c", "/c/d", "/c/d", "/ab"]) == ["/a", "/a-b", "/ab", "/c/d"]
    assert outermost(["/x", "/"]) == ["/"]


def test_device_toml_names_more_private_paths(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "way").symlink_to("keys")
    file = tmp_path / "device.toml"
    file.write_text(f'private_paths = ["{tmp_path}/way", "~/vault"]\n')
    assert load_config(file).private_paths == (tmp_path / "keys", Path.home() / "vault")


async def _nothing(call: ToolCall) -> None:
    return None


def a_tool(kind: str) -> Tool:
    contract = OBSERVES if kind == "data_collection" else Contract("change", "medium", True, True)
    schema = object_schema({})
    return Tool("x", "X", kind, "", schema, schema, contract, _nothing, path_arguments=("path",))  # type: ignore[arg-type]


def test_a_tool_that_looks_is_refused_a_private_path_under_any_name_and_an_action_is_the_policys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("key")
    (tmp_path / ".netrc").write_text("key")
    (tmp_path / "open").write_text("open")
    (tmp_path / "link").symlink_to(".ssh")
    os.link(tmp_path / ".netrc", tmp_path / "hard")
    guard, looks = Guard(DeviceConfig(roots=(tmp_path,))), a_tool("data_collection")
    for name in (".ssh", ".ssh/id", "link/id", "link", ".ssh/none-yet", ".aws/none-yet", ".netrc", "hard"):
        given = {"path": str(tmp_path / name)}
        with pytest.raises(Refused, match="is private: it is shown only to a call that an operator approved"):
            guard.hold_paths(looks, given, approved=False)
        assert guard.hold_paths(looks, given, approved=True)
        assert guard.hold_paths(a_tool("action"), given, approved=False)
    assert guard.hold_paths(looks, {"path": str(tmp_path / "open")}, approved=False)
