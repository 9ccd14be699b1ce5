"""Batch: steps for many devices, judged before anything is sent, and run.

Every change goes through `DocumentController`, so that it can be undone; the widgets only show its content.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.screens.batch.document import BatchDocument, DraftStep, secret_inputs
from app.screens.batch.document_controller import THE_BATCH, DocumentController
from app.screens.batch.document_io import DocumentIO
from app.screens.batch.expression_query import Asked, ExpressionQuery
from app.screens.batch.header import BatchHeader
from app.screens.batch.layout import BatchLayout, NoticeBox
from app.screens.batch.open_controller import OpenController
from app.screens.batch.plan_panel import CHANGE_FILTER, NO_DEVICE, PlanPanel
from app.screens.batch.plan_query import PLANNING, ExplainQuery, PlanQuery
from app.screens.batch.run_controller import RunController
from app.screens.batch.run_dialog import needs_question
from app.screens.batch.step_annotations import StepAnnotations
from app.screens.batch.step_form import StepForm, id_error, why_no_form
from app.screens.batch.step_source import StepSource, TextKind
from app.screens.batch.steps_panel import StepActions, StepsPanel
from app.screens.batch.target_matcher import TargetMatcher
from app.screens.batch.tool_catalog import ToolCatalog, ToolEntry
from app.screens.batch.tools_panel import ToolsPanel
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenBatch, OpenRun, OpenTool, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.action import Action
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import vbox
from app.widgets.redo_key import REDO_TOO
from core.batch.models import ExpressionTrials, Plan
from core.batch.templates import texts_with_expressions
from core.errors import BadInput
from core.schema_forms.json_values import UNSET
from core.schema_forms.json_values import Path as ValuePath

MOST_TRIED = 20
"""Arguments with expressions of which the values are shown."""
_FILTER = ("filter", "Change the filter", "edit")


class BatchScreen(Screen):
    """Tools, steps, form, text; the plan docked below."""

    name = "batch"
    title = "Batch"
    icon = "batch"
    undoes_in_fields = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "base")
        self.editor = DocumentController(self)
        self.shelf = ToolCatalog(self)
        self.planner, self.explainer = PlanQuery(self), ExplainQuery(self)
        self.expressions = ExpressionQuery(self)
        self._recovered = 0
        self.files = DocumentIO(self, self.editor, self._without_secrets)
        self.run_controller = RunController(self)
        self.notes = StepAnnotations(self)
        self.matching = TargetMatcher()
        self._plan: Plan | None = None
        self._make_actions()
        self.head = BatchHeader(self.open_act, self.save_act, self.plan_act, self.run_act)
        self._notices = NoticeBox()
        self.notice = self._notices.notice
        self.tools = ToolsPanel()
        self.steps = StepsPanel(self.steps_acts)
        self.step = StepForm()
        self.text = StepSource()
        self.dock = PlanPanel()
        self.panes_at = BatchLayout(self, self.tools, self.steps, self.step, self.text, self.dock)
        self.opening = OpenController(self, self.editor, self.files, self.head)
        self._build()
        self._connect()

    def _make_actions(self) -> None:
        stack = self.editor.undo_stack
        self.steps_acts = StepActions(
            tools=Action("Add a tool", "add", self._show_tools, "A"),
            ask=Action("Add an approval step", "approvals", self._add_approval, "Q"),
            undo=Action(
                "Undo", "undo", stack.undo, "Ctrl+Z",
                off=lambda: "" if stack.canUndo() else "There is nothing to undo.",
            ),
            redo=Action(
                "Redo", "redo", stack.redo, "Ctrl+Shift+Z",
                off=lambda: "" if stack.canRedo() else "Nothing was undone.",
            ),
            double=Action(
                "Double the step", "copy", self.editor.double, "Ctrl+D", label="Double", off=self._why_no_step
            ),
            recover=Action(
                "Recover the step above, or no longer", "undo", self.editor.recover, "R",
                off=self.editor.why_not_recover,
            ),
            group=Action(
                "Run in parallel with the next one, or no longer", "parallel", self.editor.group, "P",
                off=self.editor.why_not_group,
            ),
            switch=Action(
                "Switch the step off, or on", "pause", self.editor.switch, "X", off=self.editor.why_not_switch
            ),
            about=Action(
                "Inputs, waves and notes of the batch", "note", self._open_batch_form, "B",
                tip="Inputs, what follows a failure, waves, notes (B)",
            ),
        )  # fmt: skip
        self.save_act = Action("Save", "save", self._save, "Ctrl+S", tip="Save (Ctrl+S)")
        self.open_act = Action(
            "Open…", "open", self._ask_which, "Ctrl+O",
            tip="Open a saved batch or an example (Ctrl+O)",
        )  # fmt: skip
        self.plan_act = Action(
            "Plan; nothing is sent", "batch", self._plan_now, "F5", off=self._why_no_plan,
            tip="Ask the policy about every step on every device; nothing is sent (F5)",
        )  # fmt: skip
        self.run_act = Action(
            "Run…", "run", self._run, "Ctrl+Return", acts_at_once=True, off=self._why_no_run,
            tip="Run (Ctrl+Enter)",
        )  # fmt: skip

    def _build(self) -> None:
        vbox(self.head, self._notices, separator(), (self.panes_at.rows, 1), parent=self)

    def _connect(self) -> None:
        editor, head, view = self.editor, self.head, self.steps.view
        editor.changed.connect(self._show_content)
        editor.chosen_changed.connect(self._show_chosen)
        editor.replaced.connect(self._replaced)
        head.renamed.connect(editor.rename)
        head.targets_typed.connect(editor.set_targets)
        self.tools.add_wanted.connect(self._add)
        self.tools.typed.connect(self._add_by_key)
        self.tools.proposal_wanted.connect(self.opening.propose)
        self.tools.list.dragged.connect(lambda _name, at: view.tool_over(at))
        self.tools.list.dropped.connect(self._drop_tool)
        self.tools.list.drag_ended.connect(view.stop_dragging)
        self.shelf.changed.connect(self._show_offer)
        self.steps.serve(editor)
        for act in (self.steps_acts.group, self.steps_acts.recover, self.steps_acts.switch):
            act.refused.connect(lambda reason: self._notices.say(reason, "", "note"))
        view.add_wanted.connect(self.steps_acts.tools.trigger)
        view.opened.connect(self.step.focus_first)
        self.steps.example_wanted.connect(self.files.open_example)
        self.steps.recent_wanted.connect(self.files.open_saved)
        self.opening.recent_changed.connect(self._keep_recent)
        self._connect_form()
        self.notes.judged.connect(self._show_notes)
        self.text.edited.connect(editor.take_text)
        self.planner.planned.connect(self._show_plan)
        self.dock.acted.connect(lambda _key: self._change_filter())
        self.planner.stale.connect(self._show_no_plan)
        self.planner.failed.connect(self._show_no_plan)
        self.explainer.explained.connect(self.step.judgement.show_decision)
        self.explainer.quiet.connect(self.step.judgement.say)
        self.dock.step_chosen.connect(self._choose_planned)
        self.dock.copied.connect(lambda: self.nav.toast("Plan copied"))
        self.files.failed.connect(self._notices.say)
        self.opening.failed.connect(self._notices.say)
        self.opening.loaded.connect(self.step.focus_first)
        self.opening.proposed.connect(self._show_proposal)
        self.opening.tool_wanted.connect(self.panes_at.show_tools)
        self.opening.left.connect(self._focus_steps)
        self.files.saved.connect(lambda name: self.nav.toast(f"Saved as {name}"))
        self.run_controller.failed.connect(
            lambda what, how: self._notices.say(f"The run did not start. {what}", how)
        )
        self.run_controller.started.connect(lambda run: self.nav.open("runs", OpenRun(run)))
        self.run_controller.busy_changed.connect(self._show_run)

    def _connect_form(self) -> None:
        editor = self.editor
        self.step.parameters_typed.connect(self._type_parameters)
        self.step.id_typed.connect(lambda text: editor.change_current("id", id=text.strip()))
        self.step.id_settled.connect(editor.follow_id)
        self.step.timeout_typed.connect(lambda seconds: editor.change_current("timeout", timeout=seconds))
        self.step.flow.typed.connect(self._type_flow)
        self.step.flow.recovery_wanted.connect(self._want_recovery)
        self.step.batch.typed.connect(editor.set_settings)
        self.expressions.known.connect(self._show_expressions)
        self.step.problems_found.connect(lambda _words: self._show_notes())

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Bring back the draft, and follow devices and policy."""
        super().bind(state, link, nav)
        self.shelf.bind(link)
        self.planner.bind(link)
        self.explainer.bind(link)
        self.expressions.bind(link)
        self.run_controller.bind(link)
        self.opening.bind(link)
        self.tools.bind(link, lambda: self.editor.content.targets)
        state.devices_changed.connect(self._match)
        state.control_changed.connect(self._replan)
        state.reset.connect(self._start_anew)
        state.reset.connect(self._read_names)
        state.service_changed.connect(self._match)
        self.files.bind(link, Path(nav.layout_store.fileName()).parent)
        self.text.show_notation("yaml" if self.remembered("notation") == "yaml" else "json")
        self.text.choice.chosen.connect(lambda key: self.keep("notation", key))
        self.remember("columns", self.panes_at.columns)
        if str(self.remembered("folded", "")).lower() == "true":
            self.dock.set_folded(True)
        kept = self.remembered("recent", [])
        # An ini file gives a list of one name back as the name.
        self.opening.recent = [kept] if isinstance(kept, str) else [str(name) for name in kept or []]
        self.steps.empty.show_recent(self.opening.recent)
        self._show_content()
        self.opening.show_saved()

    def _keep_recent(self) -> None:
        self.keep("recent", self.opening.recent)
        self.steps.empty.show_recent(self.opening.recent)

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a batch or a tool's form; what is not saved is asked about first."""
        # What is opened may take the keyboard on.
        self._focus_steps()
        if isinstance(target, OpenTool):
            self.opening.open_tool(target)
        elif isinstance(target, OpenBatch):
            self.opening.open_batch(target)

    def home_of_keyboard(self) -> QWidget:
        """The steps; without any, what adds the first one."""
        return self.steps.view if self.editor.content.steps else self.steps.empty.first

    def _focus_steps(self) -> None:
        self.home_of_keyboard().setFocus(Qt.FocusReason.OtherFocusReason)

    def leave(self) -> None:
        """Ask nothing while another screen is in front; keep the draft."""
        self.planner.stop()
        self.explainer.stop()
        self.expressions.stop()
        self.panes_at.close_tools()
        self.files.keep_now()

    def save_layout(self) -> None:
        """Keep sizes, and the draft."""
        if not self.panes_at.narrow:
            super().save_layout()
        self.keep("folded", self.dock.is_folded)
        self.files.keep_now()

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of comp 03. Delete belongs to the list of steps."""
        acts, no_step = self.steps_acts, self._why_no_step
        return [
            acts.tools,
            Action("Move the step up", "up", lambda: self.editor.move(False), "Alt+Up", off=no_step),
            Action("Move the step down", "down", lambda: self.editor.move(True), "Alt+Down", off=no_step),
            acts.double,
            acts.ask,
            self.tools.propose_act,
            acts.about,
            acts.recover,
            acts.group,
            acts.switch,
            Shortcut("Delete", "Delete the step; in Open…, the saved batch"),
            Shortcut("F2", "In Open…: rename the saved batch"),
            Shortcut("Return", "Go on into the form"),
            acts.undo,
            acts.redo,
            Shortcut(REDO_TOO, "Redo, too", lambda _hand: acts.redo.trigger()),
            self.save_act,
            self.open_act,
            self.plan_act,
            self.run_act,
        ]

    def primary_filter(self) -> QWidget:
        """The search field of the tools; where they are a pop-up, it comes up."""
        if self.panes_at.narrow:
            self.panes_at.show_tools()
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
        if self.panes_at.close_tools() or (focus is not None and self.tools.isAncestorOf(focus)):
            self._focus_steps()
            return True
        if self._notices.isVisible():
            self._notices.hide()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Tools become a pop-up, the text a page of the form; the plan is 140 high."""
        self.panes_at.set_compact(narrow, low)

    def showEvent(self, event: QShowEvent) -> None:
        """Show what changed while another screen was in front."""
        super().showEvent(event)
        self.matching.forget()
        self._match()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep pop-up and plan in their places."""
        super().resizeEvent(event)
        self.panes_at.fit()

    # Tools

    def _show_tools(self) -> None:
        self.panes_at.show_tools()

    def _add(self, tool_name: str, place: int | None = None) -> None:
        of, self._recovered = self._recovered, 0
        if place is None and self.editor.content.place(of) >= 0:
            self.editor.add_recovery(tool_name, of)
        else:
            self.editor.add(tool_name, place)
        self.tools.search.clear()

    def _want_recovery(self) -> None:
        """The tool that is chosen next recovers the open step."""
        self._recovered = self.editor.chosen.current
        self.panes_at.show_tools()

    def _add_approval(self) -> None:
        self.editor.add_approval()
        self.step.focus_first()

    def _open_batch_form(self) -> None:
        self.editor.choose(THE_BATCH)
        self.step.focus_first()

    def _add_by_key(self, tool_name: str) -> None:
        """Add a step, and go on into its form: what is typed next is an argument, not another search."""
        self._add(tool_name)
        self.panes_at.close_tools()
        self.step.focus_first()

    def _drop_tool(self, tool_name: str, at: QPoint) -> None:
        if (place := self.steps.place_for(at)) is not None:
            self._add(tool_name, place)
            self.panes_at.close_tools()

    def _show_proposal(self, remarks: str) -> None:
        self.tools.search.clear()
        self.panes_at.close_tools()
        self._notices.say("Proposed from the search; nothing was sent.", remarks, "note")
        self._focus_steps()

    # Devices

    def _start_anew(self) -> None:
        self.shelf.forget()
        self.matching.forget()
        self._match()

    def _match(self) -> None:
        """Look again which devices the filter means; plans follow where they may have changed."""
        if not self.isVisible():
            return  # coming to the front looks
        matching = self.matching
        changed = matching.look(self.editor.content.targets, self.state.devices.values(), self.link.connected)
        self.head.show_devices(len(matching.devices), matching.production, matching.error)
        self.shelf.show_devices(matching.devices)
        if changed:
            self._replan()
        self._show_run()

    def _offered(self, step: DraftStep | None) -> ToolEntry | None:
        return self.shelf.offer.find(step.tool) if step is not None else None

    def _show_offer(self) -> None:
        self.tools.show_offer(self.shelf.offer)
        self._show_step()
        self._show_notes()
        self._explain()

    # Content

    def _replaced(self) -> None:
        self._plan = None
        self.matching.forget()
        self._notices.hide()

    def _show_content(self) -> None:
        content = self.editor.content
        self.head.show_batch(content.name, content.targets)
        self.steps.show_settings(content)
        self._show_notes()
        self._show_step()
        self.matching.forget()
        self._match()

    def _show_notes(self) -> None:
        """Cards with what schemas, form and plan say of them."""
        step = self.editor.current
        own = (step.key, self.step.problem()) if step is not None else (0, "")
        rows = self.notes.rows(self.editor.content.steps, self.shelf.offer, self._plan, own)
        view = self.steps.view
        if view.steps.show(rows):
            view.show_chosen(self.editor.chosen.current, self.editor.chosen.marked)
        self._say_lack()
        self.steps.show_count(len(rows))

    def _say_lack(self) -> None:
        """Beside the text of the step, say what its card says is wrong with it."""
        steps = self.steps.view.steps
        row = steps.item(steps.row_of(self.editor.chosen.current))
        self.text.say_lack(row.note.problem if row is not None else "")

    def _show_chosen(self) -> None:
        self.steps.view.show_chosen(self.editor.chosen.current, self.editor.chosen.marked)
        if self.editor.chosen.current != self._recovered:
            self._recovered = 0
        self._show_step()
        self._explain()
        self.dock.matrix.show_step(self.editor.content.place(self.editor.chosen.current))

    def _show_step(self) -> None:
        content, step = self.editor.content, self.editor.current
        if self.editor.chosen.current == THE_BATCH:
            self.step.show_id_error("")
            self.step.show_batch(content.settings)
            self.text.show_part(content.settings, _secret_defaults(content), TextKind.BATCH)
            return
        offered = self._offered(step)
        self.step.show_step(step, offered, why_no_form(step, offered, self.shelf.offer))
        if step is None:
            self.step.show_id_error("")
            self.text.show_part(UNSET, frozenset())
            return
        others = [one.id for one in content.steps if one.key != step.key]
        self.step.show_id_error(id_error(step, others))
        secrets = self.notes.secrets(step, offered)
        kind = TextKind.RECOVERY if step.recovers else TextKind.STEP
        self.text.show_part(step.as_file(), secrets, kind)
        self._say_lack()
        self._try_expressions()

    def _try_expressions(self) -> None:
        if (step := self.editor.current) is not None and self.isVisible():
            asked: list[Asked] = [(place, text) for _, place, text in self.step.flow.expressions()]
            asked += [("with", text) for _, text in self._argument_texts(step)]
            self.expressions.show_step(self.editor.content, step, asked)

    def _argument_texts(self, step: DraftStep) -> list[tuple[ValuePath, str]]:
        """The arguments that hold expressions, by their paths; of secret ones nothing is shown."""
        secrets = self.notes.secrets(step, self._offered(step))
        return [
            (path, text)
            for path, text in texts_with_expressions(step.parameters)
            if not secrets.intersection(path)
        ][:MOST_TRIED]

    def _show_expressions(self, trials: ExpressionTrials, asked: list[Asked]) -> None:
        if (step := self.editor.current) is not None:
            secret = secret_inputs(self.editor.content.settings)
            self.step.show_trials(self._argument_texts(step), trials, asked, secret)

    def _type_flow(self, flow: object) -> None:
        if (step := self.editor.current) is not None and isinstance(flow, dict):
            self.editor.set_flow(step.key, flow)

    def _read_names(self) -> None:
        self.notes.secret_names = self.state.secret_names

    def _without_secrets(self, step: DraftStep) -> DraftStep:
        """A step as the draft keeps it: what the tool calls a secret is typed again after a restart."""
        secrets = self.notes.secrets(step, self._offered(step))
        kept = {name: value for name, value in step.parameters.items() if name not in secrets}
        return replace(step, parameters=kept) if len(kept) < len(step.parameters) else step

    def _type_parameters(self, parameters: object) -> None:
        step = self.editor.current
        if step is not None and isinstance(parameters, dict):
            self.editor.set_parameters(step.key, parameters)
        self._show_notes()
        self._explain()

    def _explain(self) -> None:
        step = self.editor.current
        self.explainer.show_step(step, self._offered(step), self.matching.devices, self.step.problem())

    # The plan

    def _replan(self) -> None:
        content, matching = self.editor.content, self.matching
        problem = matching.error or ("" if content.steps else "Add a step to see what it would do.")
        if not problem and self.state.loaded and not matching.devices:
            problem = "No device matches the filter."
        if self.isVisible():
            self.planner.show_batch(content, len(matching.devices), problem)
            self._explain()

    def _plan_now(self) -> None:
        if self.dock.is_folded:
            self.dock.set_folded(False)
        self.planner.plan_now()

    def _show_plan(self, plan: Plan) -> None:
        self._plan = plan
        self.dock.show_plan(plan, self.editor.content.name)
        self.dock.matrix.show_step(self.editor.content.place(self.editor.chosen.current))
        self._show_notes()
        self._show_run()
        self.panes_at.fit()

    def _show_no_plan(self, words: str) -> None:
        if self._plan is not None and self.editor.content.steps and self.matching.devices:
            self.dock.say_old(words)
            return
        self._plan = None
        matched = len(self.matching.devices)
        if self.matching.error:
            self.dock.show_no_plan("The filter cannot be read.", self.matching.error, _FILTER)
        elif not self.editor.content.steps:
            line = "Add a step to see what it would do."
            self.dock.show_no_plan("No plan yet.", line, (self.steps_acts.tools, "Add a tool", "add"))
        elif self.state.loaded and not matched:
            self.dock.show_no_plan(NO_DEVICE, CHANGE_FILTER, _FILTER)
        elif words == PLANNING:
            self.dock.show_no_plan("Planning…", "Nothing is sent.")
        else:
            line = f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."
            self.dock.show_no_plan("No plan yet.", line, (self.plan_act, "Plan now", "refresh"))
        self.panes_at.fit()

    def _change_filter(self) -> None:
        self.head.targets.setFocus(Qt.FocusReason.OtherFocusReason)
        self.head.targets.selectAll()

    def _choose_planned(self, place: int) -> None:
        if self._plan is not None and place < len(self._plan.steps):
            self.editor.choose_id(self._plan.steps[place])

    # Saving, opening, running

    def _save(self) -> None:
        self._notices.hide()
        self.files.save()

    def _ask_which(self) -> None:
        self.opening.ask()

    def _why_no_step(self) -> str:
        return "" if self.editor.current is not None else "No step is chosen."

    def _why_no_plan(self) -> str:
        return self.matching.why_off(bool(self.editor.content.steps))

    def _why_no_run(self) -> str:
        return "A run is being started." if self.run_controller.busy else self._why_no_plan()

    def _show_run(self) -> None:
        asks = self.matching.asks or (self._plan is not None and needs_question(self._plan))
        self.head.show_run(len(self.matching.devices), asks)

    def _run(self) -> None:
        self._notices.hide()
        # What would be sent must be what is to be read on the screen.
        if problem := self.text.problem or self.step.unsent():
            self._notices.say(f"What was typed is not what would be sent: {problem}", "Correct it first.")
            return
        try:
            batch = self.editor.content.as_batch()
        except BadInput as error:
            self._notices.say(f"The batch cannot be run. {error.message}", "Correct the step that is named.")
            return
        self.run_controller.start(batch)


def _secret_defaults(content: BatchDocument) -> frozenset[str]:
    """The names whose values are masked in the text of the batch: the defaults of secret inputs."""
    inputs = content.settings.get("inputs")
    secret = isinstance(inputs, dict) and any(
        isinstance(one, dict) and one.get("secret") and one.keys() & {"default", "one_of"}
        for one in inputs.values()
    )
    return frozenset({"default", "one_of"} if secret else ())
