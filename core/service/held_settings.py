"""Defines, key by key, what settings.toml and this computer's device.toml change without a signature.

Any program of the user can write both files. A key that tightens holds at once, and stays: the service
records it in the journal. Where a file loosens a key, the value that was accepted last holds until an
operator has signed the file's value.

`SETTINGS_KEYS` and `DEVICE_KEYS` decide about every key of the two files; a test holds them complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from core.address import split_address
from core.aip.pairing import is_loopback
from core.device.config import CONFIG, DeviceConfig, Limits, PinnedOperator, Undo, load_config
from core.errors import BadInput
from core.home import Home
from core.settings import Settings

DEVICE = f"this-computer/{CONFIG}"
"""The key under which the accepted settings have the values of device.toml."""

Values = dict[str, Any]


class HeldKey(NamedTuple):
    """The decision about a key.

    `in_force` returns, from the file's value and the accepted one, the strictest value that both allow.
    """

    in_force: Callable[[Any, Any], Any]
    words: str = ""
    """The sentence about a file that loosens the key, with `{file}`; if empty, a general sentence."""


class FreeKey(NamedTuple):
    """The decision that a key cannot loosen anything, and why."""

    why: str


def reaches_beyond(address: str) -> bool:
    """Whether other machines can connect to a socket that listens at `host:port`."""
    return not is_loopback(split_address(address)[0])


def _all_of_both(file: Sequence[Any], accepted: Sequence[Any]) -> list[Any]:
    return [*file, *(item for item in accepted if item not in file)]


def _in_both(file: Sequence[Any], accepted: Sequence[Any]) -> list[Any]:
    return [item for item in file if item in accepted]


def _closed_in_both(file: Sequence[str], accepted: Sequence[str]) -> list[str]:
    return [*file, *(path for path in accepted if not _is_below_any(path, file))]


def _roots(file: list[str] | None, accepted: list[str] | None) -> list[str] | None:
    """The folders that are below the roots of both; the accepted roots if there are none.

    None stands for the default roots.
    """
    if file == accepted:
        return file
    default = _texts(DeviceConfig().roots)
    ours = default if file is None else file
    theirs = default if accepted is None else accepted
    if all(_is_below_any(root, theirs) for root in ours):
        return file
    if all(_is_below_any(root, ours) for root in theirs):
        return accepted
    common = [root for root in ours if _is_below_any(root, theirs)]
    common += [root for root in theirs if root not in common and _is_below_any(root, ours)]
    return common or accepted


def _is_below_any(path: str, folders: Sequence[str]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)


def _pinned(file: Sequence[Values], accepted: Sequence[Values]) -> list[Values]:
    """Whose approvals the device accepts: of those that were pinned, the ones that the file still has."""
    return list(file) if not accepted or (file and all(row in accepted for row in file)) else list(accepted)


SETTINGS_KEYS: dict[str, HeldKey | FreeKey] = {
    "listen": HeldKey(
        lambda file, accepted: file if file == accepted or not reaches_beyond(file) else accepted,
        "Devices could dial in at {file}, from other machines.",
    ),
    "this_computer_tags": HeldKey(
        lambda file, accepted: accepted,
        "This computer would have the tags {file}, which rules and profiles look at.",
    ),
    "ui_actions_on_this_computer": HeldKey(
        lambda file, accepted: file and accepted,
        "Software could click and type where this console's own window is.",
    ),
    # In-process tools run in the process that holds the journal's key.
    "this_computer": HeldKey(
        lambda file, accepted: file if file == "process" else accepted,
        "The tools of this computer would run in the service's own process.",
    ),
    "approval_expiry": HeldKey(min, "What waits for an operator could be approved for {file} s."),
    # A name that is taken away shows what was masked, and a new one hides an argument from who approves it.
    "secret_names": HeldKey(
        lambda file, accepted: accepted, "The arguments that are masked would be those named {file}."
    ),
    "heartbeat_s": FreeKey("It says how soon a silent device is shown, and lets nothing more run."),
    "connect_timeout_s": FreeKey("It bounds waits for devices that connect, whose number is bounded, too."),
}

_BOTH = HeldKey(lambda file, accepted: file and accepted)
_EITHER = HeldKey(lambda file, accepted: file or accepted)

DEVICE_KEYS: dict[str, HeldKey | FreeKey] = {
    "roots": HeldKey(_roots),
    "closed_paths": HeldKey(_closed_in_both),
    "private_paths": HeldKey(_closed_in_both),
    "tools_off": HeldKey(_all_of_both),
    **{f"limits.{name}": HeldKey(min) for name in Limits.model_fields},
    # Less is kept for undo: what an operator approved as reversible would not be.
    **{f"undo.{name}": HeldKey(max) for name in Undo.model_fields},
    "link.heartbeat_s": FreeKey("It says how often the device shows that it is there."),
    "link.connect_timeout_s": FreeKey("It bounds how long the device waits for its console."),
    "mcp_servers": FreeKey(
        "It starts programs as this user, as who writes it can do without it; their new tools ask, and "
        "changed tools wait for an operator."
    ),
    "servers_from_console": _BOTH,
    "require_signed_approval": _EITHER,
    "pinned_operators": HeldKey(_pinned),
    "approvers": HeldKey(max),
    # A name that is added here lets a console hide the argument from those who approve.
    "secret_names": HeldKey(_in_both),
}


def read_device_config(home: Home) -> DeviceConfig:
    """This computer's device.toml; without the file, the defaults.

    Raises:
        BadInput: the file is broken.
    """
    path = home.device_state / CONFIG
    if not path.exists():
        return DeviceConfig()
    config = load_config(path)
    # The file closes itself, which is not written in it; it lies in the home, which is closed.
    own = Path(os.path.realpath(path))
    return config.model_copy(
        update={"closed_paths": tuple(closed for closed in config.closed_paths if closed != own)}
    )


def readable_device_config(home: Home) -> DeviceConfig | None:
    """As `read_device_config`; None for a broken file, with which the device does not start."""
    try:
        return read_device_config(home)
    except BadInput:
        return None


def loosening_settings(settings: Settings, device: DeviceConfig | None = None) -> Values:
    """The values of the settings that can loosen security; of device.toml, too, if it is given."""
    values = settings.model_dump(mode="json", include=_held(SETTINGS_KEYS))
    return values if device is None else {**values, DEVICE: device_values(device)}


def device_values(config: DeviceConfig) -> Values:
    """The values of device.toml that are held, by their keys; None for the default roots."""
    data = config.model_dump(mode="json")
    flat = {key: value for key, value in data.items() if key in DEVICE_KEYS}
    for section in ("limits", "undo"):
        flat |= {f"{section}.{key}": value for key, value in data[section].items()}
    # Without `roots` in the file they are the default folders of the present environment.
    flat["roots"] = data["roots"] if "roots" in config.model_fields_set else None
    flat["tools_off"] = sorted(flat["tools_off"])
    # A file of servers is closed as well, which is not written in it.
    flat["closed_paths"] = [path for path in flat["closed_paths"] if path != data["mcp_servers"]]
    return {key: flat[key] for key in DEVICE_KEYS if key in _held(DEVICE_KEYS)}


def pending_settings(settings: Settings, accepted: Values, device: DeviceConfig | None = None) -> list[str]:
    """Sentences about what the files would loosen beyond the accepted settings."""
    values = loosening_settings(settings, device)
    sentences = [
        _words(SETTINGS_KEYS[key], "settings.toml", key, values[key], accepted[key])
        for key in _differing(SETTINGS_KEYS, values, accepted)
    ]
    if DEVICE in values:
        before = _accepted_device(accepted)
        sentences += [
            _words(DEVICE_KEYS[key], DEVICE, key, values[DEVICE][key], before[key])
            for key in _differing(DEVICE_KEYS, values[DEVICE], before)
        ]
    return sentences


def settings_in_force(settings: Settings, accepted: Values, begun: bool = True) -> Settings:
    """The file's settings, with the accepted values in place of loosening values that were not accepted.

    `begun`: whether the home has, or had, an operator.
    """
    values = loosening_settings(settings)
    return settings.model_copy(update=_strictest(SETTINGS_KEYS, values, as_found(values, accepted, begun)))


def device_in_force(device: DeviceConfig, accepted: Values) -> DeviceConfig:
    """As `settings_in_force`, for this computer's device.toml."""
    values = _strictest(DEVICE_KEYS, device_values(device), _accepted_device(accepted))
    roots = DeviceConfig().roots if values["roots"] is None else _paths(values["roots"])
    closed = {*_texts(device.closed_paths), *values["closed_paths"]}
    return device.model_copy(
        update={
            **{name: value for name, value in values.items() if "." not in name},
            "roots": roots,
            "closed_paths": _paths(sorted(closed)),
            "private_paths": _paths(values["private_paths"]),
            "tools_off": frozenset(values["tools_off"]),
            "limits": Limits(**_section(values, "limits.")),
            "undo": Undo(**_section(values, "undo.")),
            "pinned_operators": tuple(map(PinnedOperator.model_validate, values["pinned_operators"])),
            "secret_names": tuple(values["secret_names"]),
        }
    )


def as_found(values: Values, accepted: Values, begun: bool) -> Values:
    """The accepted settings, and of a home without an operator also the values of its files.

    The first operator needs no signature, so that until then no signature keeps a program from anything. What
    opens the home to other machines, and to software at its window, is held even then.
    """
    return accepted if begun else {**accepted, **{key: values[key] for key in _AS_FOUND if key in values}}


_AS_FOUND = ("this_computer", "approval_expiry", "secret_names", DEVICE)


def tightened(values: Values, accepted: Values, begun: bool) -> Values:
    """The accepted settings after files with these values were read, which no operator signed.

    Values that cannot be read, as of an entry that no service wrote, change nothing.
    """
    try:
        accepted = as_found(values, accepted, begun)
        values = {**accepted, **values}
        before = _accepted_device(accepted)
        device = _strictest(DEVICE_KEYS, {**before, **values.get(DEVICE, {})}, before)
        return {**_strictest(SETTINGS_KEYS, values, accepted), DEVICE: device}
    except (TypeError, ValueError, AttributeError, BadInput):
        return accepted


def _accepted_device(accepted: Values) -> Values:
    """The accepted values of device.toml; those of a device without the file, if none were accepted."""
    return {**device_values(DeviceConfig()), **accepted.get(DEVICE, {})}


def _strictest(keys: Mapping[str, HeldKey | FreeKey], values: Values, accepted: Values) -> Values:
    return {
        key: held.in_force(values[key], accepted[key])
        for key, held in keys.items()
        if isinstance(held, HeldKey)
    }


def _differing(keys: Mapping[str, HeldKey | FreeKey], values: Values, accepted: Values) -> list[str]:
    return [key for key, value in _strictest(keys, values, accepted).items() if value != values[key]]


def _held(keys: Mapping[str, HeldKey | FreeKey]) -> set[str]:
    return {key for key, held in keys.items() if isinstance(held, HeldKey)}


def _words(held: HeldKey | FreeKey, file: str, key: str, value: Any, accepted: Any) -> str:
    written = " ".join(value) or "none" if key == "this_computer_tags" else _shown(value)
    if isinstance(held, HeldKey) and held.words:
        return held.words.format(file=written)
    return f"{file} would set {key} to {written}; accepted is {_shown(accepted)}."


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    if value is None:
        return "the default"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _section(values: Values, prefix: str) -> Values:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _texts(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]


def _paths(texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(text) for text in texts)
