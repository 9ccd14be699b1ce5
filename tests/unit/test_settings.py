"""What settings.toml may say, how its faults are named, and how `listen` is written there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.address import split_address
from core.errors import BadInput
from core.home import Home
from core.settings import Settings, set_listen


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


def test_out_of_the_box_it_is_port_5000_of_this_computer():
    assert Settings().listen == "127.0.0.1:5000"


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:5000", ("127.0.0.1", 5000)),
        ("[::1]:0", ("::1", 0)),
        ("console.example:65535", ("console.example", 65535)),
        (" 0.0.0.0:80 ", ("0.0.0.0", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    ["", ":5000", "host", "host:", "::1:5000", "host:65536", "host:-1", "host:x", 'a"b:1', "a b:1", "a\nb:1"],
)
def test_anything_else_is_none(home, address):
    with pytest.raises(BadInput):
        split_address(address)
    with pytest.raises(BadInput):
        set_listen(home.settings, address)
    assert not (home.path / "settings.toml").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n",
        'this_computer = "in-process"  # because\n',
        'listen = "127.0.0.1:1"\napproval_expiry = 60\n',
        'approval_expiry = 60\n  listen   = "127.0.0.1:1" # old\n',
        'this_computer_tags = [\n  "desk",\n]\n',
    ],
)
def test_writing_it_changes_nothing_else(home, text):
    path = home.path / "settings.toml"
    path.write_text(text)
    before = Settings.read(home.settings)
    set_listen(home.settings, "0.0.0.0:5000")
    after = Settings.read(home.settings)
    assert after.listen == "0.0.0.0:5000"
    assert after.model_copy(update={"listen": before.listen}) == before
    for line in text.splitlines():
        if "listen" not in line:
            assert line in path.read_text().splitlines()


def test_a_broken_file_is_named_and_left_alone(home):
    path = home.path / "settings.toml"
    path.write_text("surprise = 1\n")
    with pytest.raises(BadInput, match="surprise"):
        set_listen(home.settings, "0.0.0.0:5000")
    assert path.read_text() == "surprise = 1\n"


def test_a_setting_that_is_no_address_is_named(home):
    (home.path / "settings.toml").write_text('listen = "everywhere"\n')
    with pytest.raises(BadInput, match="listen"):
        Settings.read(home.settings)


def test_a_new_file_is_the_owners_alone(home):
    set_listen(home.settings, "127.0.0.1:5001")
    if os.name == "posix":
        assert (home.path / "settings.toml").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("this_computer = ", "settings.toml"),
        ('this_computer = "moon"', "this_computer"),
        ("approval_expiry = -1", "approval_expiry"),
        ("approval_expiry = nan", "approval_expiry"),
        ('surprise = "key"', "surprise"),
        ("this_computer_tags = 7", "this_computer_tags"),
    ],
)
def test_what_is_wrong_is_named(home, text, named):
    (home.path / "settings.toml").write_text(text + "\n")
    with pytest.raises(BadInput, match=named):
        Settings.read(home.settings)


def test_bytes_that_are_no_text_are_said_so(home):
    (home.path / "settings.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read"):
        Settings.read(home.settings)
