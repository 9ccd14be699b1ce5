"""policy.toml: which profile holds where.

Missing: the built-in default. Broken: everything asks; it is never open.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path

from pydantic import Field, ValidationError

from core.errors import BadInput
from core.fleet.models import Device, Plain
from core.home import write_private
from core.policy.models import Profile


class ProfileFor(Plain):
    """A profile for the devices whose name or tag matches (`*` and `?` as in file names)."""

    profile: Profile
    device: str | None = None
    tag: str | None = None

    def covers(self, device: Device) -> bool:
        """Whether this line speaks of the device; a line that names nothing covers nothing."""
        by_name = self.device is not None and fnmatch.fnmatchcase(device.name, self.device)
        by_tag = self.tag is not None and any(fnmatch.fnmatchcase(tag, self.tag) for tag in device.tags)
        return by_name or by_tag


class PolicyFile(Plain):
    """The file as a whole; unknown keys are errors."""

    profile: Profile = Profile.GUARDED
    profiles: list[ProfileFor] = Field(default_factory=list)

    def profile_for(self, device: Device) -> tuple[Profile, str]:
        """The profile that holds for a device, and where it comes from."""
        for number, line in enumerate(self.profiles, 1):
            if line.covers(device):
                return line.profile, f"policy.toml, profiles entry {number}"
        return self.profile, "built-in profile" if self == PolicyFile() else "policy.toml"


def read_policy(path: Path) -> PolicyFile:
    """Read policy.toml; without the file, the built-in default.

    Raises:
        BadInput: the file is there but cannot be read or understood; says where.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return PolicyFile()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"policy.toml cannot be read: {error}") from error
    try:
        return PolicyFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"policy.toml is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"policy.toml: {key}: {first['msg']}") from error


_PROFILE_LINE = re.compile(r"^profile\s*=.*$", re.MULTILINE)


def write_profile(path: Path, profile: Profile) -> None:
    """Set the profile for everything without its own, leaving the rest of the file as its author wrote it.

    Raises:
        BadInput: the file as it is now is broken, or it cannot be written.
    """
    read_policy(path)
    text = path.read_text("utf-8") if path.exists() else ""
    line = f'profile = "{profile.value}"'
    head, bracket, tables = text.partition("[[")
    head = _PROFILE_LINE.sub(line, head, count=1) if _PROFILE_LINE.search(head) else f"{line}\n{head}"
    try:
        write_private(path, head + bracket + tables)
    except OSError as error:
        raise BadInput(f"policy.toml cannot be written: {error.strerror}.") from error
