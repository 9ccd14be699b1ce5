"""policy.toml is written in one step, for its owner's eyes, with the rest of it as its author wrote it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.errors import BadInput
from core.policy.models import Profile
from core.policy.policy_file import read_policy, write_profile

MINE = '# mine\nprofile = "guarded"\n\n[[profiles]]\nprofile = "observe"\ntag = "prod"  # never\n'


def test_setting_the_profile_changes_its_line_and_nothing_else(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(MINE)
    write_profile(path, Profile.TRUSTED)
    assert path.read_text() == MINE.replace('profile = "guarded"', 'profile = "trusted"')
    assert read_policy(path).profile is Profile.TRUSTED


def test_nobody_else_can_read_it_whatever_the_umask_or_a_crash_left(tmp_path: Path):
    path = tmp_path / "policy.toml"
    left = path.with_suffix(".new")
    left.write_text("half a fi")
    left.chmod(0o666)
    before = os.umask(0)
    try:
        write_profile(path, Profile.OBSERVE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["policy.toml"]


def test_what_lies_where_the_fresh_file_is_made_is_not_written_through(tmp_path: Path):
    path, other = tmp_path / "policy.toml", tmp_path / "other"
    other.write_text("precious")
    path.with_suffix(".new").symlink_to(other)
    write_profile(path, Profile.OBSERVE)
    assert other.read_text() == "precious"
    assert not path.is_symlink()


def test_a_broken_file_is_not_written_over(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text("profile = ")
    with pytest.raises(BadInput, match="not TOML"):
        write_profile(path, Profile.TRUSTED)
    assert path.read_text() == "profile = "
