"""The card of one request: its head, what would be sent and do, why it asks, what an approval binds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

from app.records.asker import Quote, asker_words, is_agent
from app.records.decision import FindingsSection, ReasonsSection, UndoBox
from app.records.tool_facts import scope_properties
from app.screens.approvals.bytes_section import BytesSection
from app.screens.approvals.checks_section import ChecksSection
from app.screens.approvals.content_section import ContentSection
from app.screens.approvals.edited_section import EditedSection
from app.screens.approvals.group_section import GroupSection
from app.screens.approvals.preview_section import SCREEN_TOOLS, PreviewData, ProgramSection, ScreenSection
from app.screens.approvals.question_section import QuestionSection
from app.screens.approvals.request_header import RequestHeader
from app.screens.approvals.request_payload import DigestCheck, RequestPayload, request_payload
from app.screens.approvals.text import unproved_words
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.banner import Banner
from app.widgets.labels import Link, separator, set_surface
from app.widgets.layouts import STRETCH, vbox
from app.widgets.property_list import Property, PropertyList, short_digest, show_facts
from app.widgets.section import Section
from app.widgets.util import ScrollArea
from core.approvals.models import Approval, ApprovalState
from core.approvals.preview_models import Helper, Preview
from core.approvals.request_groups import differ
from core.fleet.models import ToolDescription
from core.models.tool_names import CLOSE_APPLICATION
from core.models.tools import Contract
from core.policy.models import Reason

RIGHT = 296
RIGHT_NARROW = 272
_DIGEST_NOTES = {
    DigestCheck.FITS: "digest fits the bytes",
    DigestCheck.DIFFERS: "digest does not fit the bytes",
}


_SIGNED = "Exactly what is signed; nothing is sent"


class RequestView(QWidget):
    """Everything above the bar. `approval` is exactly what is shown, and what would be signed.

    Signals:
        end_seen: every byte box was seen to its end.
        copied: bytes are on the clipboard.
        run_wanted(run), agent_wanted(name): the operator followed the link to the run, or to who asks.
        undo_wanted(approval): the operator followed the link to the undo of the run of this request.
    """

    end_seen = Signal()
    copied = Signal()
    run_wanted = Signal(str)
    agent_wanted = Signal(str)
    undo_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Request")
        self.approval: Approval | None = None
        self.sent: RequestPayload | None = None
        self.others: tuple[Approval, ...] = ()
        # The links of the facts that are connected.
        self._links: dict[str, Link] = {}
        self._agent_paused = False
        self._finding = 0
        self._stacked = False
        self._side = RIGHT
        self.header = RequestHeader()
        self.banner = Banner()
        self.end_banner = Banner()
        self._make_parts()
        self.middle = _Middle(self._body())
        vbox(self.header, separator(), self.end_banner, self.banner, (self.middle, 1), parent=self)

    def _make_parts(self) -> None:
        self.group = GroupSection()
        self.question = QuestionSection()
        self.edited = EditedSection()
        self.target = ScreenSection()
        self.program = ProgramSection()
        self.bytes = ContentSection("Exactly what will be sent")
        self.findings = FindingsSection()
        self.rest = BytesSection("Other arguments", exact=False)
        self.undo = UndoBox()
        self.undo.acted.connect(lambda: self.undo_wanted.emit(self.approval))
        self.helpers = ChecksSection()
        self.reasons = ReasonsSection("Why you are asked")
        self.said = Quote()
        self.facts = PropertyList(84, "Request")
        self.scope = PropertyList(84, "Scope of the tool")
        self._scope = Section("What it needs and reaches")
        self._scope.add(self.scope)
        for part in (self.bytes, self.rest):
            part.end_seen.connect(self._part_seen)
            part.copied.connect(self.copied)
        self.group.end_seen.connect(self._part_seen)
        self.findings.pressed.connect(self.reveal)

    def _body(self) -> QWidget:
        left = QWidget()
        vbox(
            self.group,
            self.question,
            self.edited,
            self.target,
            self.program,
            self.bytes,
            self.findings,
            self.rest,
            self.undo,
            self.helpers,
            STRETCH,
            parent=left,
            margins=(SPACE.pane, SPACE.section, SPACE.pane, SPACE.pane),
            spacing=SPACE.section,
        )
        self._right = QWidget()
        side = vbox(
            parent=self._right,
            margins=(SPACE.side_panel, SPACE.section, SPACE.side_panel, SPACE.pane),
            spacing=SPACE.section,
        )
        request = Section("Request")
        request.add(self.facts)
        for widget in (self.reasons, self.said, request, self._scope):
            side.addWidget(widget)
        side.addStretch(1)
        body = QWidget()
        set_surface(body, "base")
        self._line = separator(Qt.Orientation.Vertical)
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight, body)
        self._columns.setContentsMargins(0, 0, 0, 0)
        self._columns.setSpacing(0)
        self._columns.addWidget(left, 1)
        self._columns.addWidget(self._line)
        self._columns.addWidget(self._right)
        self._right.setFixedWidth(RIGHT)
        return body

    # What it shows

    def show_request(
        self,
        approval: Approval,
        platform: str,
        contract: Contract | None,
        others: tuple[Approval, ...] = (),
        production: Collection[str] = (),
    ) -> None:
        """Show a request from its beginning, with those of a group that one act answers with it.

        `production` are the names of all production devices.
        """
        self.approval = approval
        self.question.show_request(approval, production)
        asks = not self.question.isHidden()
        self.sent = sent = request_payload(approval.request, approval.decision.findings)
        self._finding = 0
        self.show_others(others)
        self.header.show_request(approval, platform, others)
        self.edited.hide()
        self.target.setVisible(approval.request.tool_name in SCREEN_TOOLS)
        if not self.target.isHidden():
            self.target.show_waiting(approval)
        self.program.setVisible(approval.request.tool_name == CLOSE_APPLICATION)
        self.program.show_waiting()
        self.bytes.show_part(sent.main, sent.main_masked)
        self.rest.setVisible(sent.others is not None)
        if sent.others is not None:
            self.rest.show_part(sent.others, sent.masked - sent.main_masked)
        placed = {place.number for part in (sent.main, sent.others) if part for place in part.places}
        self.findings.show_findings(approval.decision.findings, placed)
        # A question sends nothing: there is nothing to find in it, and nothing to undo.
        for part in (self.findings, self.undo):
            part.setVisible(not asks)
        self.undo.show_undo(approval.decision, "Undo in Runs…" if approval.run else "")
        self.reasons.show_reasons(approval.decision, _more_reasons(approval), approval.approvers)
        self.said.show_said(approval.said, approval.actor, approval.program)
        self.show_facts(contract, "")
        self._scope.hide()
        self.middle.verticalScrollBar().setValue(0)
        self._set_tab_order()
        self.end_banner.hide()
        to_one = f" to {one_line(approval.request.device)}" if differ((approval, *others)) else ""
        self.bytes.set_title(_SIGNED if asks else f"Exactly what will be sent{to_one}")
        self._show_banner(sent, approval)

    def show_helpers(self, helpers: list[Helper]) -> None:
        """Offer what can be read before deciding."""
        self.helpers.show_helpers(helpers)
        self._set_tab_order()

    def _set_tab_order(self) -> None:
        """Tab goes as one reads: what is made again for each request is else behind the bar."""
        parts = (self.group, self.edited, self.target, self.bytes, self.findings, self.rest, self.helpers)
        stops: list[QWidget] = []
        for part in (*parts, self._right):
            stops += [
                one for one in part.findChildren(QWidget) if one.focusPolicy() & Qt.FocusPolicy.TabFocus
            ]
        for before, after in pairwise(stops):
            QWidget.setTabOrder(before, after)

    def _show_banner(self, sent: RequestPayload, approval: Approval) -> None:
        if sent.digest is DigestCheck.DIFFERS:
            self.banner.say(
                "fail",
                "This is not what an approval would be about.",
                "The digest does not fit the bytes; nothing is signed. Stop all, look at the service.",
            )
        elif approval.edited_from:
            self.banner.say(
                "info",
                "An operator changed the arguments.",
                "It needs an approval of its own.",
            )
        elif self._agent_paused:
            self.banner.say(
                "warn", "This agent is paused.", "What you approve is held until the agent may go on."
            )
        else:
            self.banner.hide()

    def show_agent_paused(self, paused: bool) -> None:
        """Say whether the agent that asks is paused, on this request and those shown next."""
        if paused != self._agent_paused:
            self._agent_paused = paused
            if self.approval is not None and self.sent is not None:
                self._show_banner(self.sent, self.approval)

    def show_others(self, others: tuple[Approval, ...]) -> None:
        """The members of the group are others now: one was answered elsewhere."""
        self.others = others
        if self.approval is not None:
            self.group.show_members([self.approval, *others])
            self.header.show_devices(self.approval, others)

    def show_fates(self, fates: Mapping[str, str]) -> None:
        """Say for each request of a group what became of it; by id, in words."""
        if self.approval is not None:
            self.group.show_members([self.approval, *self.others], fates)

    def show_looked(self, looked: PreviewData) -> None:
        """Show what is there now, beside what would be."""
        if self.approval is None:
            return
        if not self.target.isHidden():
            self.target.show_looked(looked, self.approval)
        elif looked.preview.kind == "program":
            self.program.show_looked(looked.preview)
        elif looked.diff is not None:
            self.bytes.show_change(looked, self.approval.request.device, alone=not self.others)
            if looked.whole and not self.others:
                self.header.show_change(looked.diff.words())
        elif looked.preview.problem and looked.preview.kind != "nothing":
            self.say_no_preview(looked.preview.problem)

    def say_no_preview(self, problem: str) -> None:
        """Say why there is nothing to compare with."""
        if not self.target.isHidden() and self.approval is not None:
            nothing = Preview(kind="screen", problem=problem)
            self.target.show_looked(PreviewData(self.approval.id, nothing), self.approval)
        elif not self.program.isHidden():
            self.program.show_looked(Preview(kind="program", problem=problem))
        else:
            self.bytes.say_no_change(problem)

    def show_edited(self, before: Approval) -> None:
        """Show what the edit changed that this request came from."""
        if self.approval is not None:
            after = self.approval.request.parameters
            self.edited.show_versions(before.request.parameters, after)

    def update_request(self, approval: Approval) -> None:
        """Take over the newest state of the request that is shown already."""
        self.approval = approval
        if approval.state is not ApprovalState.WAITING:
            asked = "Exactly what was asked" if not self.question.isHidden() else "Exactly what was asked for"
            self.bytes.set_title(asked)

    def show_facts(self, contract: Contract | None, signer: str) -> None:
        """Show what the approval binds; the contract's source is known once it has been read."""
        approval, sent = self.approval, self.sent
        if approval is None or sent is None:
            return
        request = approval.request
        effect = approval.decision.effect.value
        source = f" ({contract.effect.source.value})" if contract is not None else ""
        asked_by = asker_words(approval.actor, approval.program)
        rows = [Property("Actor", asked_by, link="agent" if is_agent(approval.actor) else "")]
        if approval.run:
            step = f", step {one_line(approval.step)}" if approval.step else ""
            rows.append(Property("Run", f"{one_line(approval.run)}{step}", link="run"))
        tool = f"{one_line(request.tool_name)}@{request.contract[:4]}"
        tone = "fail" if sent.digest is DigestCheck.DIFFERS else "text"
        if self.question.isHidden():
            rows += [
                Property("Contract", tool, mono=True, full=request.contract),
                Property("Effect", f"{effect}{source}"),
            ]
        rows += [
            Property("Digest", short_digest(request.digest), mono=True, tone=tone, full=request.digest),
            Property("Checked", _DIGEST_NOTES[sent.digest], tone="fail" if tone == "fail" else "text3"),
            Property("Signs with", signer or "no key is unlocked", tone="text" if signer else "text3"),
            Property("Approvers", approvers_words(approval)),
        ]
        self.facts.show_facts(rows)
        self._connect_links()

    def show_scope(self, described: ToolDescription) -> None:
        """Show what the tool needs and reaches, if it is still the one that the approval binds."""
        if self.approval is not None and self.approval.request.contract == described.tool.contract.digest:
            show_facts(self.scope, scope_properties(described.scope))
            self._scope.show()

    def _connect_links(self) -> None:
        run = self.approval is not None and self.approval.run
        for title, follow in (("Actor", self._follow_agent), *([("Run", self._follow_run)] if run else [])):
            link = self.facts.value(title)
            if isinstance(link, Link) and link is not self._links.get(title):
                link.clicked.connect(lambda *_, follow=follow: follow())
                self._links[title] = link

    def _follow_run(self) -> None:
        if self.approval is not None and self.approval.run:
            self.run_wanted.emit(self.approval.run)

    def _follow_agent(self) -> None:
        if self.approval is not None and is_agent(self.approval.actor):
            self.agent_wanted.emit(self.approval.actor.partition(":")[2])

    # Reading

    @property
    def end_was_seen(self) -> bool:
        """True when every box of bytes was seen to its end."""
        if self.sent is None:
            return False
        rest = self.sent.others is None or self.rest.end_was_seen
        return self.bytes.end_was_seen and rest and self.group.end_was_seen

    def unseen(self) -> tuple[str, QWidget] | None:
        """The first box whose end was not on the screen, in words and as a widget; None for none."""
        if self.sent is None:
            return None
        if not self.group.end_was_seen:
            return "the list of devices", self.group.box
        if not self.bytes.end_was_seen:
            return "what will be sent", self.bytes.reader
        if self.sent.others is not None and not self.rest.end_was_seen:
            return "the other arguments", self.rest.box
        return None

    @property
    def has_several_boxes(self) -> bool:
        """Whether more than one box has an end that is to be seen."""
        return self.sent is not None and (bool(self.others) or self.sent.others is not None)

    def _part_seen(self) -> None:
        if self.end_was_seen:
            self.end_seen.emit()

    def reveal(self, number: int) -> None:
        """Bring one finding into sight, in whichever box it lies."""
        self.bytes.show_bytes_view()
        for part in (self.bytes, self.rest):
            if part.isVisible() and part.box.reveal(number):
                self.middle.ensureWidgetVisible(part.box)

    def _found_in_bytes(self) -> list[int]:
        parts = (self.sent.main, self.sent.others) if self.sent is not None else ()
        return sorted({place.number for part in parts if part for place in part.places})

    def why_no_finding(self) -> str:
        """Why there is no finding to go to; empty when there is one."""
        return "" if self._found_in_bytes() else "No finding has a place in the bytes."

    def next_finding(self) -> None:
        """Go to the next finding that has a place in the bytes."""
        if numbers := self._found_in_bytes():
            self._finding = next((one for one in numbers if one > self._finding), numbers[0])
            self.reveal(self._finding)

    # Layout

    def set_side_width(self, narrow: bool) -> None:
        """The right column is 272 in the compact layout."""
        self._side = RIGHT_NARROW if narrow else RIGHT
        self._arrange()

    def set_stacked(self, stacked: bool) -> None:
        """Below 1200 px the right column goes under the left one."""
        self._stacked = stacked
        self.header.set_stacked(stacked)
        self._arrange()

    def _arrange(self) -> None:
        direction = QBoxLayout.Direction
        self._columns.setDirection(direction.TopToBottom if self._stacked else direction.LeftToRight)
        self._line.setVisible(not self._stacked)
        if self._stacked:
            self._right.setMinimumWidth(0)
            self._right.setMaximumWidth(16777215)
            self._right.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        else:
            self._right.setFixedWidth(self._side)


def _more_reasons(approval: Approval) -> list[Reason]:
    """Why more operators must approve than the policy wants."""
    more = unproved_words(approval)
    return [Reason(text=more, origin=f"the policy wants {approval.decision.approvers}")] if more else []


def approvers_words(approval: Approval) -> str:
    """`1 of 2: harbour`."""
    words = f"{len(approval.approved_by)} of {approval.approvers}" if approval.approvers > 1 else "1 of 1"
    names = ", ".join(map(one_line, approval.approved_by))
    return f"{words}: {names}" if names and approval.approvers > 1 else words


class _Middle(ScrollArea):
    """What scrolls between head and bar; its body is always as wide as the view, so never sideways."""

    def __init__(self, body: QWidget) -> None:
        super().__init__(body)
        self._body = body
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._body.setMaximumWidth(max(1, self.viewport().width()))
