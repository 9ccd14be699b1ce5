"""Findings in UI actions (clicks, key presses, typed text), by their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.models.tools import Risk
from core.policy.analysis.arguments import RawFinding, snake

_KEYS = ("key", "keys", "shortcut", "hotkey", "combo")
_CONTROLS = ("name", "control_name", "label", "button_name", "element", "element_name", "title")
_UI_TOOL = re.compile(
    r"(?:^|_)(?:click|press|tap|key|hotkey|element|control|button|keypress|activate|type|input)(?:$|_)"
)
_TYPING_TOOL = re.compile(r"(?:^|_)(?:type|input|enter|keyboard)(?:$|_)")
_KEY_EFFECTS: tuple[tuple[frozenset[frozenset[str]], str, Risk], ...] = tuple(
    (frozenset(frozenset(combination.split("+")) for combination in keys.split()), text, risk)
    for keys, text, risk in (
        ("delete shift+delete backspace ctrl+d cmd+backspace", "Presses a key that deletes", Risk.HIGH),
        ("alt+f4 ctrl+w ctrl+q cmd+q cmd+w ctrl+f4 ctrl+shift+w", "Closes what has the focus", Risk.HIGH),
        ("ctrl+alt+delete ctrl+alt+backspace power sleep", "Reaches the session itself", Risk.CRITICAL),
        ("ctrl+enter cmd+enter ctrl+s cmd+s", "Sends or saves in many programs", Risk.HIGH),
        ("super+l super+r cmd+space alt+f2 ctrl+alt+t", "Leaves the program it is meant for", Risk.HIGH),
    )
)
_SAME_KEY = {
    "control": "ctrl", "del": "delete", "command": "cmd", "meta": "super", "win": "super", "windows": "super",
    "return": "enter", "option": "alt", "kp_delete": "delete", "kp_enter": "enter",
}  # fmt: skip
_CONTROL_LABELS: tuple[tuple[re.Pattern[str], str, Risk], ...] = tuple(
    (re.compile(rf"\b(?:{label_pattern})", re.IGNORECASE), text, risk)
    for label_pattern, text, risk in (
        (
            r"format|wipe|erase|factory|reset all|shred|purge|destroy|formatier|alles l[öo]schen",
            "Presses what wipes or formats",
            Risk.CRITICAL,
        ),
        (
            r"pay\b|pay now|buy\b|purchase|place order|order now|checkout|transfer|donate|bezahl|kaufen|"
            r"überweis|"
            r"payer|acheter|virement|pagar|comprar|transferir",
            "Presses what pays or orders",
            Risk.CRITICAL,
        ),
        (
            r"shut ?down|restart|reboot|power off|log ?out|sign out|herunterfahren|neu starten|abmelden|"
            r"éteindre|"
            r"redémarrer|apagar|reiniciar",
            "Presses what ends the session",
            Risk.CRITICAL,
        ),
        (
            r"delete|remove|trash|discard|uninstall|unlink|clear|empty|revoke|drop\b|lösch|entfern|verwerf|"
            r"supprim|enlever|vider|elimin|borrar|quitar",
            "Presses what deletes",
            Risk.HIGH,
        ),
        (
            r"send|submit|post\b|publish|share|reply|tweet|upload|merge|deploy|release|push\b|senden|abschick|"
            r"veröffentlich|envoyer|publier|enviar|publicar",
            "Presses what sends or publishes",
            Risk.HIGH,
        ),
        (
            r"approve|accept|allow|agree|confirm|authori[sz]e|grant|trust|sign\b|install|enable|yes\b|genehmig|"
            r"erlaub|zustimm|bestätig|accepter|autoriser|confirmer|aceptar|permitir|confirmar",
            "Presses what agrees to something",
            Risk.HIGH,
        ),
    )
)


def findings_in_ui_action(tool_name: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, RawFinding]]:
    """The findings, as (argument, finding), in a call of a tool that uses keys, pointer or controls."""
    tool = snake(tool_name)
    if not _UI_TOOL.search(tool):
        return
    for name, value in parameters.items():
        snake_name = snake(name)
        if snake_name in _KEYS:
            for key in value if isinstance(value, list) else [value]:
                yield from ((name, finding) for finding in _findings_in_key(key))
            if isinstance(value, list):
                yield from ((name, finding) for finding in _findings_in_key("+".join(map(str, value[:9]))))
        elif snake_name in _CONTROLS and isinstance(value, str):
            yield from ((name, finding) for finding in _findings_in_control(value))
        elif (
            snake_name == "text"
            and isinstance(value, str)
            and _TYPING_TOOL.search(tool)
            and re.search(r"[\r\n]", value)
        ):
            yield name, ("Types Enter as well: what was typed may be sent or run", Risk.HIGH, None)


def _findings_in_key(value: object) -> Iterator[RawFinding]:
    if not isinstance(value, str):
        return
    parts = [part.strip().lower() for part in re.split(r"[+\s-]+", value) if part.strip()]
    pressed = frozenset(_SAME_KEY.get(part, part) for part in parts)
    for keys, effect, risk in _KEY_EFFECTS:
        if pressed in keys:
            yield effect, risk, None


def _findings_in_control(value: str) -> Iterator[RawFinding]:
    for pattern, effect, risk in _CONTROL_LABELS:
        if match := pattern.search(value[:2_000]):
            yield f"{effect}: “{match.group()}”", risk, match.span()
