"""Where to listen, as settings.toml says it and as it is written there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import BadInput
from core.home import Home, Settings, split_address


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
        home.set_listen(address)
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
    before = home.settings()
    home.set_listen("0.0.0.0:5000")
    after = home.settings()
    assert after.listen == "0.0.0.0:5000"
    assert after.model_copy(update={"listen": before.listen}) == before
    for line in text.splitlines():
        if "listen" not in line:
            assert line in path.read_text().splitlines()


def test_a_broken_file_is_named_and_left_alone(home):
    path = home.path / "settings.toml"
    path.write_text("surprise = 1\n")
    with pytest.raises(BadInput, match="surprise"):
        home.set_listen("0.0.0.0:5000")
    assert path.read_text() == "surprise = 1\n"


def test_a_setting_that_is_no_address_is_named(home):
    (home.path / "settings.toml").write_text('listen = "everywhere"\n')
    with pytest.raises(BadInput, match="listen"):
        home.settings()


def test_a_new_file_is_the_owners_alone(home):
    home.set_listen("127.0.0.1:5001")
    if os.name == "posix":
        assert (home.path / "settings.toml").stat().st_mode & 0o077 == 0
