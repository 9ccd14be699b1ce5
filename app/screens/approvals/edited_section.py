"""Two versions of a request: what was asked for, and what an operator made of it."""

from __future__ import annotations

import json
from typing import Any

from app.text import one_line
from app.widgets.diff_view import DiffView
from app.widgets.section import Section
from app.widgets.text_diff import diff_of


class EditedSection(Section):
    """What an edit changed; hidden where nothing was edited."""

    def __init__(self, title: str = "What was changed") -> None:
        super().__init__(title)
        self.view = DiffView()
        self.add(self.view)
        self.hide()

    def show_versions(self, before: dict[str, Any], after: dict[str, Any], hint: str = "") -> None:
        """Show both versions of the arguments."""
        found = diff_of(arguments_text(before), arguments_text(after))
        self.view.show_diff(found)
        changed = changed_names(before, after)
        words = ", ".join(map(one_line, changed)) if changed else "nothing changes"
        self.head.set_hint(f"{words}   {hint}".strip())
        self.show()


def changed_names(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The arguments that are not the same in both."""
    names = sorted({*before, *after})
    return [name for name in names if name not in before or name not in after or before[name] != after[name]]


def arguments_text(parameters: dict[str, Any]) -> str:
    """Arguments as lines: long texts line by line below their names, all else as JSON."""
    lines: list[str] = []
    for name in sorted(parameters):
        value = parameters[name]
        if isinstance(value, str) and "\n" in value:
            lines.append(f"{name}:")
            lines += [f"  {line}" for line in value.split("\n")]
        else:
            lines.append(f"{name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}")
    return "".join(f"{line}\n" for line in lines)
