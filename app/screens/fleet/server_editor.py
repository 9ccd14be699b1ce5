"""The form for one more MCP server on a device, filled by hand or from pasted `mcpServers` JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.forms import SchemaForm
from app.screens.fleet.hosted_servers import ADD, TRY, ServerCall, entries_in, known_part
from app.text import one_line
from app.widgets.buttons import Button, IconButton
from app.widgets.fields import DropDown, Field
from app.widgets.focus import in_reading_order, put_in_tab_order
from app.widgets.json_edit import JsonEdit
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.util import ScrollArea
from core.errors import BadInput
from core.json_comments import blank_comments
from core.schema_forms.json_values import UNSET, JsonProblem, NotJson, parse_json
from core.schema_forms.validator import FieldError
from core.text import at_place, some_names

# A text and whether it names something else than an object, whose own names are looked at; one without an end
# goes to the end, so that all is looked at once.
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"?(\s*:(?!\s*\{))?')
_MOST_PASTED = 1024 * 1024
# Names whose values are no secrets; of any other name in pasted text the value is not drawn.
_OPEN_NAMES = frozenset(
    {"mcp", "mcpServers", "servers", "command", "args", "cwd", "type", "url", "env", "headers", "disabled"}
)
_HELP = "It goes into the fields below. Values of env and headers are secrets: they are kept, and not shown."


class _PastedServers(JsonEdit):
    """JSON as other hosts have it, comments and trailing commas included."""

    def read(self, text: str) -> Any:
        """What the text says."""
        if len(text) > _MOST_PASTED:
            raise NotJson(JsonProblem(1, 1, f"it is longer than {_MOST_PASTED:,} characters"))
        return parse_json(blank_comments(text))


class ServerEditor(QWidget):
    """Asks for the name and the entry of a server. Nothing of it is kept on this computer.

    Signals:
        called(call): the operator wants this server tried, or added.
        closed: back to the list.
    """

    called = Signal(object)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._device = ""
        self._drafts: dict[str, tuple[Any, dict[str, dict[str, Any]]]] = {}
        self._schema: Mapping[str, Any] = {}
        self._taken: frozenset[str] = frozenset()
        self._pasted: dict[str, dict[str, Any]] = {}
        back = IconButton("left", "Back to the servers", key="Esc")
        back.clicked.connect(self.closed)
        self._back = back
        self.title = Label("", "head", wrap=True)
        self.paste = _PastedServers(compact=True)
        self.paste.setAccessibleName("Paste mcpServers JSON")
        self.paste.setPlaceholderText('{"mcpServers": {"tickets": {"command": "npx", …}}}')
        self.pasting = Field("Paste mcpServers JSON", self.paste, help_text=_HELP)
        self.paste.edited.connect(self._read_pasted)
        self.chooser = DropDown("Pasted server")
        self.chooser.activated.connect(lambda place: self._take(str(self.chooser.itemData(place))))
        self._choosing = Field("Which of them", self.chooser)
        self.note = Label("", "meta", "warn", wrap=True)
        self.form = SchemaForm()
        self.form.setContentsMargins(0, 0, 0, 0)
        self.try_out = Button("Try it")
        self.add = Button("Add the server", "primary", icon="add")
        self.try_out.clicked.connect(lambda: self._call(TRY))
        self.add.clicked.connect(lambda: self._call(ADD))
        self.problem = Label("", "meta", "fail", wrap=True)
        self._build()
        self.clear()

    def _build(self) -> None:
        inner = QWidget()
        inner.setProperty("clear", "true")
        vbox(
            self.pasting,
            self._choosing,
            self.note,
            self.form,
            STRETCH,
            parent=inner,
            margins=(12, 4, 12, 12),
            spacing=10,
        )
        set_surface(self, "base")
        self._fields = ScrollArea(inner, "The new server")
        head = hbox(self._back, (self.title, 1), margins=(8, 8, 12, 4), spacing=6)
        foot = vbox(
            self.problem,
            hbox(self.add, self.try_out, STRETCH, spacing=8),
            margins=(12, 8, 12, 8),
            spacing=8,
        )
        vbox(head, (self._fields, 1), separator(), foot, parent=self)

    def set_device(self, device: str, schema: Mapping[str, Any], taken: frozenset[str]) -> None:
        """Ask for a server of this device, by the schema of its tool; `taken` are the names of its servers.

        What was typed for a device is there again when the device is.
        """
        self._taken = taken
        if device == self._device and schema == self._schema:
            return
        if self._device:
            self._drafts[self._device] = self.form.value(), self._pasted
        self.clear()
        self._device, self._schema = device, schema
        self.title.setText(f"Add an MCP server to {one_line(device)}")
        value, self._pasted = self._drafts.pop(device, ({}, {}))
        self.form.set_schema(schema, value)
        self._show_pasted()

    def set_off(self, why: str) -> None:
        """Take no call while there is a reason."""
        self.add.set_off(why)
        self.try_out.set_off(why)

    def clear(self) -> None:
        """Forget what was typed and pasted, secrets with it."""
        self._pasted = {}
        self._forget_text()
        self._show_pasted()
        self.note.setText("")
        self.note.hide()
        self._say("")
        if self._schema:
            self.form.set_schema(self._schema)

    def was_added(self, server: str) -> bool:
        """Go on with the next of the pasted servers; False when there is none, and the form is empty."""
        self._pasted.pop(server, None)
        rest = dict(self._pasted)
        self.clear()
        self._pasted = rest
        self._show_pasted()
        if rest:
            self._take(next(iter(rest)))
        return bool(rest)

    def showEvent(self, event: QShowEvent) -> None:
        """The keyboard begins where JSON is pasted."""
        super().showEvent(event)
        self.paste.setFocus(Qt.FocusReason.OtherFocusReason)

    def focusNextPrevChild(self, to_next: bool) -> bool:
        """Tab goes through the fields, which come and go, before it comes to the buttons."""
        put_in_tab_order(self._back, [*in_reading_order(self._fields), self.add, self.try_out])
        return super().focusNextPrevChild(to_next)

    # What is pasted

    def _read_pasted(self) -> None:
        text = self.paste.text()
        # Also while it cannot be read: whatever it is, it may be a secret.
        names = {found[1] for found in _TEXT.finditer(text[:_MOST_PASTED]) if found[2]}
        self.paste.mask_values(names - _OPEN_NAMES)
        self.pasting.set_error("")
        if not text.strip():
            return
        if (problem := self.paste.problem) is not None:
            self.pasting.set_error(at_place(f"{problem.message}.", problem.column, problem.line))
            return
        try:
            self._pasted = entries_in(self.paste.read(text))
        except (BadInput, NotJson) as error:
            self.pasting.set_error(str(error))
            return
        self._forget_text()
        self._show_pasted()
        self._take(next(iter(self._pasted)))

    def _forget_text(self) -> None:
        self.paste.set_text("")
        # "Undo" in the field would bring the secrets back.
        self.paste.document().clearUndoRedoStacks()
        self.paste.value = UNSET
        self.pasting.set_error("")

    def _show_pasted(self) -> None:
        self.chooser.clear()
        for name in self._pasted:
            self.chooser.addItem(one_line(name), name)
        self._choosing.setVisible(len(self._pasted) > 1)

    def _take(self, name: str) -> None:
        """Put one of the pasted servers into the fields."""
        entry, unknown = known_part(self._pasted[name], self._schema)
        self.form.set_value({**({"name": name} if name else {}), "entry": entry})
        left_out = f"Left out, as the device does not know it: {one_line(some_names(unknown))}."
        self.note.setText(left_out if unknown else "")
        self.note.setVisible(bool(unknown))
        self._say("")

    # The call

    def _call(self, tool: str) -> None:
        self._say("")
        if self.paste.text().strip():
            self._say("Nothing was sent: the pasted text cannot be read. Correct it, or take it out.")
            self.paste.setFocus()
            return
        self.form.when_checked(lambda problems: self._checked(tool, problems), self._changed_meanwhile)

    def _checked(self, tool: str, problems: list[FieldError]) -> None:
        value: dict[str, Any] = self.form.value()
        name = str(value.get("name", ""))
        if not problems and tool == ADD and name in self._taken:
            words = "A server of this name is there already. Remove that one first, or choose another name."
            problems = [FieldError(("name",), words)]
            self.form.set_errors(problems)
        entry = value.get("entry") or {}
        if not problems and ("command" in entry) == ("url" in entry):
            problems = [FieldError(("entry",), "It needs either a command or a url.")]
            self.form.set_errors(problems)
        if problems:
            self.form.focus_path(problems[0].path)
            self._say("Nothing was sent: a field needs another value.")
            return
        self.called.emit(ServerCall(tool, name, value))

    def _changed_meanwhile(self) -> None:
        self._say("Nothing was sent: the fields are others than when they were to be checked.")

    def _say(self, words: str) -> None:
        self.problem.setText(words)
        self.problem.setVisible(bool(words))
