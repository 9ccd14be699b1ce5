"""policy.toml: another profile leaves the rest as its author wrote it; it is believed if it is ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import BadInput
from core.policy.models import Profile
from core.policy.policy_file import parse_policy, read_policy_text, with_profile

MINE = '# mine\nprofile = "guarded"\n\n[[profiles]]\nprofile = "observe"\ntag = "prod"  # never\n'


def test_setting_the_profile_changes_its_line_and_nothing_else():
    text = with_profile(MINE, Profile.TRUSTED)
    assert text == MINE.replace('profile = "guarded"', 'profile = "trusted"')
    assert parse_policy(text).profile is Profile.TRUSTED


def test_a_broken_text_is_not_changed():
    with pytest.raises(BadInput, match="not TOML"):
        with_profile("profile = ", Profile.TRUSTED)


@pytest.mark.parametrize("text", ['"profile" = "guarded"\n', "'profile'='observe'\n"])
def test_a_text_whose_profile_cannot_be_changed_here_is_left_alone(text: str):
    with pytest.raises(BadInput):
        with_profile(text, Profile.TRUSTED)


class TestWhoseFile:
    """A file is believed when nobody but this user (or root) can have written it; reading never waits."""

    def test_what_is_not_there_is_no_fault(self, tmp_path: Path):
        assert read_policy_text(tmp_path / "policy.toml") is None

    @pytest.mark.parametrize(
        ("what", "says"),
        [
            ("link", "leads nowhere"),
            ("loop", "cannot be read"),
            ("fifo", "not a regular file"),
            ("folder", "cannot be read|not a regular file"),
            ("world", "written by other users"),
            ("group", "written by other users"),
            ("linked", "written by other users"),
            ("binary", "not UTF-8"),
        ],
    )
    def test_what_another_could_have_written_or_what_would_hang_is_refused(
        self, tmp_path: Path, what: str, says: str
    ):
        path, other = tmp_path / "policy.toml", tmp_path / "other"
        match what:
            case "link":
                path.symlink_to(other)
            case "loop":
                path.symlink_to(path)
            case "fifo":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "world" | "group":
                path.write_text(MINE)
                os.chown(path, os.getuid(), os.getgid() if what == "world" else 1)
                path.chmod(0o666 if what == "world" else 0o660)
            case "linked":
                other.write_text(MINE)
                other.chmod(0o666)
                path.symlink_to(other)
            case "binary":
                path.write_bytes(b"\xff\xfe")
        with pytest.raises(BadInput, match=says):
            read_policy_text(path)

    @pytest.mark.skipif(os.getuid() != 0, reason="giving a file away takes root")
    def test_a_file_of_another_user_is_refused(self, tmp_path: Path):
        path = tmp_path / "policy.toml"
        path.write_text(MINE)
        os.chown(path, 54321, 54321)
        with pytest.raises(BadInput, match="belongs to another user"):
            read_policy_text(path)

    def test_a_link_to_a_file_of_ours_is_read(self, tmp_path: Path):
        path, other = tmp_path / "policy.toml", tmp_path / "other"
        other.write_text(MINE)
        path.symlink_to(other)
        assert read_policy_text(path) == MINE
