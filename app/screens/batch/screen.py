"""Batch: steps for many devices, judged before anything is sent, and run.

Every change goes through `BatchEditor`, so that it can be undone; the widgets only show its content.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from app.components.banner import Notice
from app.components.label import rule, surface
from app.link import ConsoleLink
from app.screens.base import Navigator, OpenBatch, OpenRun, OpenTool, Screen, Shortcut, Target
from app.screens.batch.content import DEFAULT_TARGETS, Content, DraftStep, free_id
from app.screens.batch.editor import BatchEditor
from app.screens.batch.field_keys import FieldKeys
from app.screens.batch.files import EXAMPLES, Files
from app.screens.batch.head import BatchHead
from app.screens.batch.notes import Notes
from app.screens.batch.open_sheet import EXAMPLE, NEW, SAVED, OpenSheet
from app.screens.batch.plan_dock import HEAD, PlanDock
from app.screens.batch.planning import Explainer, Planner
from app.screens.batch.run_sheet import needs_question
from app.screens.batch.running import Runner
from app.screens.batch.step_pane import StepPane, id_error
from app.screens.batch.step_text import StepText, step_value
from app.screens.batch.steps_pane import StepsPane
from app.screens.batch.tools import OfferedTool, ToolShelf
from app.screens.batch.tools_pane import ToolsPane
from app.state import AppState
from core.batch.models import Plan
from core.errors import BadInput, QuarterdeckError
from core.fleet.filter import parse_filter
from core.fleet.models import Device
from core.schema_forms.json_values import UNSET

TOOLS, STEPS, TEXT = 204, 376, 312
POPUP_HEIGHT = 420


class BatchScreen(Screen):
    """Tools, steps, form, text; the plan docked below."""

    name = "batch"
    title = "Batch"
    icon = "batch"

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        surface(self, "base")
        self.editor = BatchEditor(self)
        self.shelf = ToolShelf(self)
        self.planner, self.explainer = Planner(self), Explainer(self)
        self.files = Files(self, self.editor)
        self.runner = Runner(self)
        self.notes = Notes()
        self.matched: list[Device] = []
        self.filter_error = ""
        self._compact = self._low = False
        self._plan: Plan | None = None
        self._asking_name = False
        self._height_is_chosen = False
        self._signature: object = None
        self.head = BatchHead()
        self.notice = Notice("fail", "", "", "Close")
        self.notice.hide()
        self.tools = ToolsPane()
        self.steps = StepsPane()
        self.step = StepPane()
        self.text = StepText()
        self.dock = PlanDock()
        self._build()
        self._connect()
        self._keys = FieldKeys(self, self.editor.undo_stack)

    def _build(self) -> None:
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self.columns.setChildrenCollapsible(False)
        self.columns.setHandleWidth(1)
        for pane, least in ((self.tools, 170), (self.steps, 300), (self.step, 260), (self.text, 220)):
            pane.setMinimumWidth(least)
            self.columns.addWidget(pane)
        self.columns.setStretchFactor(2, 1)
        self.columns.setSizes([TOOLS, STEPS, 372, TEXT])
        self.rows = QSplitter(Qt.Orientation.Vertical)
        self.rows.setChildrenCollapsible(False)
        self.rows.setHandleWidth(1)
        self.rows.addWidget(self.columns)
        self.rows.addWidget(self.dock)
        self.rows.setStretchFactor(0, 1)
        self.rows.setStretchFactor(1, 0)
        self.columns.setMinimumHeight(160)
        self.dock.setMinimumHeight(HEAD + 1)
        holder = QVBoxLayout()
        holder.setContentsMargins(16, 0, 16, 8)
        holder.addWidget(self.notice)
        self._notice_box = QWidget()
        self._notice_box.setLayout(holder)
        self._notice_box.hide()
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.head)
        whole.addWidget(self._notice_box)
        whole.addWidget(rule())
        whole.addWidget(self.rows, 1)

    def _connect(self) -> None:
        editor, head, view = self.editor, self.head, self.steps.view
        editor.changed.connect(self._show_content)
        editor.chosen_changed.connect(self._show_chosen)
        editor.saved_changed.connect(self._show_saved)
        editor.replaced.connect(self._replaced)
        head.renamed.connect(editor.rename)
        head.targets_typed.connect(editor.set_targets)
        head.save_wanted.connect(self._save)
        head.open_wanted.connect(self._ask_open)
        head.plan_wanted.connect(self._plan_now)
        head.run_wanted.connect(self._run)
        head.name.entered.connect(self._name_entered)
        head.name.editingFinished.connect(self._name_left)
        self.tools.add_wanted.connect(self._add)
        self.tools.list.dragged.connect(lambda _name, at: view.tool_over(at))
        self.tools.list.dropped.connect(self._drop_tool)
        self.tools.list.drag_ended.connect(view.stop_dragging)
        self.shelf.changed.connect(self._show_offer)
        view.chosen.connect(editor.choose)
        view.move_wanted.connect(editor.move_to)
        view.delete_wanted.connect(editor.remove)
        view.switch_wanted.connect(editor.switch)
        view.group_wanted.connect(editor.group)
        view.double_wanted.connect(editor.double)
        view.add_wanted.connect(self._show_tools)
        view.opened.connect(self.step.focus_first)
        self.steps.undo_wanted.connect(editor.undo_stack.undo)
        self.steps.redo_wanted.connect(editor.undo_stack.redo)
        self.steps.tools_wanted.connect(self._show_tools)
        self.steps.example_wanted.connect(self.files.open_example)
        self.step.parameters_typed.connect(self._type_parameters)
        self.step.id_typed.connect(lambda text: self._change("id", id=text.strip()))
        self.step.timeout_typed.connect(lambda seconds: self._change("timeout", timeout=seconds))
        self.step.problems_found.connect(lambda _words: self._show_notes())
        self.text.edited.connect(self._take_text)
        self.planner.planned.connect(self._show_plan)
        self.planner.stale.connect(self._show_no_plan)
        self.planner.failed.connect(self._show_no_plan)
        self.explainer.explained.connect(self.step.judgement.show_decision)
        self.explainer.quiet.connect(self.step.judgement.say)
        self.dock.step_chosen.connect(self._choose_planned)
        self.dock.folded.connect(lambda _folded: self._fit_dock())
        self.dock.copied.connect(lambda: self.nav.toast("Plan copied"))
        self.rows.splitterMoved.connect(lambda *_: self._dock_was_dragged())
        self.files.failed.connect(self._say_failed)
        self.files.saved.connect(lambda name: self.nav.toast(f"Saved as {name}"))
        self.files.name_wanted.connect(self._ask_name)
        self.runner.failed.connect(lambda what, how: self._say_failed(f"The run did not start. {what}", how))
        self.runner.started.connect(lambda run: self.nav.open("runs", OpenRun(run)))
        self.runner.busy_changed.connect(self._show_run)
        self.notice.acted.connect(self._close_notice)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Bring back the draft, and follow devices and policy."""
        super().bind(state, link, nav)
        self.shelf.bind(link)
        self.planner.bind(link)
        self.explainer.bind(link)
        self.runner.bind(link)
        state.devices_changed.connect(self._match)
        state.control_changed.connect(self._replan)
        state.reset.connect(self._start_anew)
        state.service_changed.connect(self._match)
        self.files.bind(link, Path(nav.layout_store.fileName()).parent)
        self.text.show_notation("yaml" if self.remembered("notation") == "yaml" else "json")
        self.text.choice.chosen.connect(lambda key: self.keep("notation", key))
        self.remember("columns", self.columns)
        if str(self.remembered("folded", "")).lower() == "true":
            self.dock.set_folded(True)
        self._show_content()
        self._show_saved()

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a batch or a tool's form; what is not saved is asked about first."""
        if isinstance(target, OpenTool):
            self.files.replace_with(lambda: self._load_tool(target))
        elif isinstance(target, OpenBatch) and target.name:
            self.files.open_saved(target.name)
        elif isinstance(target, OpenBatch):
            self._open_new(target.targets)
        self._signature = None
        self._match()
        if target is None or not self.isAncestorOf(self.focusWidget() or self):
            self._focus_steps()

    def _load_tool(self, target: OpenTool) -> None:
        step = DraftStep(
            free_id(target.tool_name.removeprefix("get_"), ()), target.tool_name, dict(target.parameters)
        )
        name = f"{target.tool_name} on {target.device}"
        self.editor.load(Content(name=name, targets=f"name:{_quoted(target.device)}", steps=(step,)))
        self.step.focus_first()

    def _open_new(self, targets: str) -> None:
        if not self.editor.content.steps and not self.editor.saved_as:
            self.editor.set_targets(targets or DEFAULT_TARGETS)
            return
        self.files.replace_with(lambda: self.editor.load(Content(targets=targets or DEFAULT_TARGETS)))

    def _focus_steps(self) -> None:
        has_steps = bool(self.editor.content.steps)
        (self.steps.view if has_steps else self.steps.empty.first).setFocus(Qt.FocusReason.OtherFocusReason)

    def leave(self) -> None:
        """Ask nothing while another screen is in front; keep the draft."""
        self.planner.stop()
        self.explainer.stop()
        self._close_tools()
        self.files.keep_now()

    def save_layout(self) -> None:
        """Keep sizes, and the draft."""
        if not self._compact:
            super().save_layout()
        self.keep("folded", self.dock.is_folded)
        self.files.keep_now()

    def shortcuts(self) -> list[Shortcut]:
        """The keys of comp 03. Delete, X and P belong to the list of steps."""
        stack = self.editor.undo_stack
        return [
            Shortcut("A", "Add a tool", self._show_tools),
            Shortcut("Alt+Up", "Move the step up", lambda: self.editor.move(False)),
            Shortcut("Alt+Down", "Move the step down", lambda: self.editor.move(True)),
            Shortcut("Ctrl+D", "Double the step", self.editor.double),
            Shortcut("P", "Run in parallel with the next one, or no longer"),
            Shortcut("X", "Switch the step off, or on"),
            Shortcut("Delete", "Delete the step"),
            Shortcut("Return", "Go on into the form"),
            Shortcut("Ctrl+Z", "Undo", stack.undo),
            Shortcut("Ctrl+Shift+Z", "Redo", stack.redo),
            Shortcut("Ctrl+S", "Save", self._save),
            Shortcut("Ctrl+O", "Open…", self._ask_open),
            Shortcut("F5", "Plan; nothing is sent", self._plan_now),
            Shortcut("Ctrl+Return", "Run…", self._run),
        ]

    def primary_filter(self) -> QWidget:
        """The search field of the tools; where they are a pop-up, it comes up."""
        if self._compact:
            self._show_tools()
        return self.tools.search

    def panes(self) -> list[QWidget]:
        """Left to right, the plan last."""
        return [self.head, self.tools, self.steps, self.step, self.text, self.dock]

    def escape(self) -> bool:
        """Stop a drag, close the tools' pop-up, then the notice."""
        if self.tools.list.stop_dragging() or self.steps.view.stop_dragging():
            return True
        if self.tools.search.text() and self.tools.isVisible():
            self.tools.search.clear()
            return True
        focus = self.focusWidget()
        if self._close_tools() or (focus is not None and self.tools.isAncestorOf(focus)):
            self._focus_steps()
            return True
        if self._notice_box.isVisible():
            self._close_notice()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Tools become a pop-up, the text a page of the form; the plan is 140 high."""
        self._low = low
        self._height_is_chosen = False
        if narrow != self._compact:
            self._compact = narrow
            self.steps.set_compact(narrow)
            if narrow:
                self.tools.setParent(self)
                self.tools.hide()
                self.step.set_compact_text(self.text)
            else:
                self.step.set_compact_text(None)
                self.columns.insertWidget(0, self.tools)
                self.columns.addWidget(self.text)
                self.tools.show()
                self.text.show()
                self.columns.setSizes([TOOLS, STEPS, max(260, self.width() - TOOLS - STEPS - TEXT), TEXT])
            self.tools.set_floating(narrow)
        self._fit_dock()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep pop-up and plan in their places."""
        super().resizeEvent(event)
        self._place_tools()
        self._fit_dock()

    # The pop-up of tools

    def _show_tools(self) -> None:
        if self._compact:
            self._place_tools()
            self.tools.show()
            self.tools.raise_()
        self.tools.focus_search()

    def _place_tools(self) -> None:
        if self._compact:
            corner = self.steps.mapTo(self, QPoint(8, 36))
            self.tools.setGeometry(
                corner.x(), corner.y(), 280, min(POPUP_HEIGHT, self.height() - corner.y() - 8)
            )

    def _close_tools(self) -> bool:
        if not self._compact or not self.tools.isVisible():
            return False
        self.tools.hide()
        return True

    def _add(self, tool_name: str, place: int | None = None) -> None:
        self.editor.add(tool_name, place)
        self.tools.search.clear()

    def _drop_tool(self, tool_name: str, at: QPoint) -> None:
        view = self.steps.view
        place = view.tool_dropped(at)
        if place is None and not view.isVisible():
            inside = self.steps.rect().contains(self.steps.mapFromGlobal(at))
            place = 0 if inside else None
        if place is not None:
            self._add(tool_name, place)
            self._close_tools()

    # Devices

    def _start_anew(self) -> None:
        self.shelf.forget()
        self._signature = None
        self._match()

    def _match(self) -> None:
        """Look anew which devices the filter means; plans follow where they may have changed."""
        text = self.editor.content.targets
        try:
            wanted = parse_filter(text)
        except BadInput as error:
            self.filter_error, self.matched = error.message, []
        else:
            self.filter_error = ""
            self.matched = [one for one in self.state.devices.values() if wanted.matches(one)]
        production = sum(one.production for one in self.matched)
        self.head.show_devices(len(self.matched), production, self.filter_error)
        self.shelf.show_devices(self.matched)
        signature = (
            self.link.connected,
            self.filter_error,
            [(one.name, one.health, one.profile, one.production, *one.changed_tools) for one in self.matched],
        )
        if signature != self._signature:
            self._signature = signature
            self._replan()
        self._show_run()

    def _offered(self, step: DraftStep | None) -> OfferedTool | None:
        return self.shelf.offer.find(step.tool) if step is not None else None

    def _show_offer(self) -> None:
        self.tools.show_offer(self.shelf.offer)
        self._show_step()
        self._show_notes()
        self._explain()

    # Content

    def _replaced(self) -> None:
        self._plan = None
        self._signature = None
        self._close_notice()
        self.steps.show_undo(self.editor.undo_stack)

    def _show_content(self) -> None:
        content = self.editor.content
        self.head.show_batch(content.name, content.targets)
        self._show_notes()
        self._show_step()
        self._signature = None
        self._match()

    def _show_notes(self) -> None:
        """Cards with what schemas, form and plan say of them."""
        step = self.editor.current
        own = (step.key, self.step.problem()) if step is not None else (0, "")
        rows = self.notes.rows(self.editor.content.steps, self.shelf.offer, self._plan, own)
        view = self.steps.view
        if view.steps.show(rows):
            view.show_chosen(self.editor.chosen.current, self.editor.chosen.marked)
        self.steps.show_count(len(rows))

    def _show_chosen(self) -> None:
        self.steps.view.show_chosen(self.editor.chosen.current, self.editor.chosen.marked)
        self._show_step()
        self._explain()
        self.dock.matrix.show_step(self.editor.content.place(self.editor.chosen.current))

    def _show_step(self) -> None:
        step, offered = self.editor.current, self._offered(self.editor.current)
        self.step.show_step(step, offered, self._why_no_form(step, offered))
        if step is None:
            self.step.show_id_error("")
            self.text.show_step(UNSET, frozenset())
            return
        others = [one.id for one in self.editor.content.steps if one.key != step.key]
        self.step.show_id_error(id_error(step, others))
        secrets = self.notes.secrets(offered)
        self.text.show_step(step_value(step), secrets)

    def _why_no_form(self, step: DraftStep | None, offered: OfferedTool | None) -> str:
        if step is None or offered is not None:
            if offered is not None and offered.tool.changed:
                return "This tool's definition changed; calls are blocked until it is reviewed in Fleet."
            return ""
        if self.shelf.offer.reading or not self.shelf.offer.matched:
            return ""
        return f"No matched device offers {step.tool} now. Its arguments can be edited as JSON."

    def _type_parameters(self, parameters: object) -> None:
        step = self.editor.current
        if step is not None and isinstance(parameters, dict):
            self.editor.set_parameters(step.key, parameters)
        self._show_notes()
        self._explain()

    def _change(self, what: str, **changes: object) -> None:
        step = self.editor.current
        if step is not None:
            self.editor.change(step.key, (what,), **changes)

    def _take_text(self, value: dict[str, object]) -> None:
        self._change(
            "text",
            id=value["id"],
            tool=value["tool"],
            parameters=value.get("with", {}),
            timeout=value.get("timeout"),
            enabled=value.get("enabled", True),
        )

    def _explain(self) -> None:
        step = self.editor.current
        self.explainer.show_step(step, self._offered(step), self.matched, self.step.problem())

    # The plan

    def _replan(self) -> None:
        content = self.editor.content
        problem = self.filter_error or ("" if content.steps else "Add a step to see what it would do.")
        if not problem and self.state.loaded and not self.matched:
            problem = "No device matches the filter."
        self._show_run()
        if self.isVisible():
            self.planner.show_batch(content, len(self.matched), problem)
            self._explain()

    def _plan_now(self) -> None:
        if self.dock.is_folded:
            self.dock.set_folded(False)
        self.planner.plan_now()

    def _show_plan(self, plan: Plan) -> None:
        self._plan = plan
        self.dock.show_plan(plan, self.editor.content.name, "" if plan.devices else "No device matches.")
        self.dock.matrix.show_step(self.editor.content.place(self.editor.chosen.current))
        self._show_notes()
        self._show_run()
        self._fit_dock()

    def _show_no_plan(self, words: str) -> None:
        if self._plan is not None and self.editor.content.steps and self.matched:
            self.dock.say_old(words)
            return
        self._plan = None
        self.dock.show_plan(None, "", words)
        self._fit_dock()

    def _choose_planned(self, place: int) -> None:
        steps = self.editor.content.steps
        if self._plan is not None and place < len(self._plan.steps):
            step_id = self._plan.steps[place]
            key = next((one.key for one in steps if one.id == step_id), 0)
            if key:
                self.editor.choose(key)

    def _dock_was_dragged(self) -> None:
        self._height_is_chosen = not self.dock.is_folded

    def _fit_dock(self) -> None:
        folded = self.dock.is_folded
        self.dock.setMaximumHeight(HEAD + 1 if folded else 16_777_215)
        if self._height_is_chosen and not folded:
            return
        wanted = min(self.dock.wanted_height(self._low), max(HEAD + 1, self.rows.height() - 260))
        self.rows.setSizes([max(160, self.rows.height() - wanted - 1), wanted])

    # Saving, opening, running

    def _show_saved(self) -> None:
        editor = self.editor
        new = bool(editor.content.steps) and not editor.saved_as
        self.head.show_saved(editor.dirty or new, self._asking_name)
        self.steps.show_undo(editor.undo_stack)

    def _save(self) -> None:
        self._close_notice()
        self.files.save()

    def _ask_name(self) -> None:
        self._asking_name = True
        self._show_saved()
        self.head.name.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.head.name.selectAll()

    def _name_entered(self) -> None:
        if self._asking_name and self.editor.content.name.strip():
            self._asking_name = False
            self._show_saved()
            self.files.save()
        self._focus_steps()

    def _name_left(self) -> None:
        if self._asking_name:
            self._asking_name = False
            self.files.forget_wish()
            self._show_saved()

    def _ask_open(self) -> None:
        self.link.ask(
            lambda console: console.batches(), self._choose_open, self._cannot_list, what="list the batches"
        )

    def _cannot_list(self, error: QuarterdeckError) -> None:
        self._say_failed(f"The saved batches cannot be listed. {error.message}", error.info.next)

    def _choose_open(self, saved: list[str]) -> None:
        sheet = OpenSheet(self.window(), saved)
        sheet.finished.connect(self._open_chosen)
        sheet.open(focus=sheet.search)

    def _open_chosen(self, answer: str) -> None:
        if answer.startswith(SAVED):
            self.files.open_saved(answer.removeprefix(SAVED))
        elif answer.startswith(EXAMPLE):
            self.files.open_example(EXAMPLES / answer.removeprefix(EXAMPLE))
        elif answer == NEW:
            self.files.replace_with(lambda: self.editor.load(Content(targets=self.editor.content.targets)))

    def _show_run(self) -> None:
        off = ""
        if self.runner.busy:
            off = "A run is being started."
        elif not self.editor.content.steps:
            off = "Add a step first."
        elif self.filter_error:
            off = "Correct the filter of the devices first."
        elif not self.matched:
            off = "No device matches the filter."
        asks = len(self.matched) != 1 or self.matched[0].production
        if not asks and self._plan is not None:
            asks = needs_question(self._plan)
        self.head.show_run(len(self.matched), asks, off)
        self.head.plan.set_off("" if off in ("", "A run is being started.") else off)

    def _run(self) -> None:
        if not self.head.run.isEnabled():
            return
        self._close_notice()
        problem = self.text.problem
        if problem:
            self._say_failed(
                f"The text of the step is not what would be sent: {problem}.", "Correct it first."
            )
            return
        if self.step.timeout_field.error:
            self._say_failed("The step's timeout is no number of seconds.", "Correct it first.")
            return
        try:
            batch = self.editor.content.as_batch()
        except BadInput as error:
            self._say_failed(f"The batch cannot be run. {error.message}", "Correct the step that is named.")
            return
        self.runner.start(batch)

    # Errors, shown where they belong

    def _say_failed(self, what: str, how: str) -> None:
        self.notice.say("fail", what, how, "Close")
        self.notice.show()
        self._notice_box.show()

    def _close_notice(self) -> None:
        self.notice.hide()
        self._notice_box.hide()


def _quoted(name: str) -> str:
    """A device's name as a filter's value; quoted where it would mean something else."""
    plain = not any(sign.isspace() or sign in ":,!\"'*?" for sign in name)
    return name if plain else f'"{name}"' if '"' not in name else f"'{name}'"
