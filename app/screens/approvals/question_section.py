"""The question of an approval step: what a batch asks before it goes on, for a whole wave at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.text import one_line, plural
from app.theme.tokens import SPACE
from app.widgets.badges import ProductionTag
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import Section
from core.approvals.models import Approval
from core.approvals.request_groups import summary_of_all
from core.batch.questions import is_question
from core.statements import Request
from core.text import escape_hidden

MOST_NAMED = 60


@dataclass(frozen=True, slots=True)
class AskedOf:
    """What stands in the request of a question; parts that it does not have are empty."""

    question: str
    batch: str
    wave: int
    devices: tuple[str, ...]

    @property
    def where(self) -> str:
        """Which wave, and how many devices."""
        return f"wave {self.wave} of {one_line(self.batch)}, {plural(len(self.devices), 'device')}"


def question_of(request: Request) -> AskedOf | None:
    """The question that a request is; None for a command."""
    if not is_question(request):
        return None
    said = request.parameters
    wave, devices = said.get("wave"), said.get("devices")
    return AskedOf(
        str(said.get("question", "")),
        str(said.get("batch", "")),
        wave if isinstance(wave, int) else 1,
        tuple(map(str, devices)) if isinstance(devices, list) else (),
    )


def summary_words(approval: Approval, members: Sequence[Approval] = ()) -> str:
    """What a request, or a group of `members`, would do, on one line; of a question its words."""
    words = summary_of_all(members) if members else approval.decision.summary
    return one_line(" ".join(words.split()) if is_question(approval.request) else words)


class QuestionSection(Section):
    """The words whole, and for which devices the answer counts; hidden for a command."""

    def __init__(self) -> None:
        super().__init__("The question")
        self.words = Label("", "large", wrap=True, selectable=True)
        self.production = ProductionTag(0)
        self.then = Label("", "body", "text2", wrap=True)
        self.devices = PropertyList(84, "Where the answer counts")
        self.add(self.words)
        self.body.addLayout(hbox(self.production, STRETCH, spacing=SPACE.small))
        self.add(self.devices)
        self.add(self.then)
        self.hide()

    def show_request(self, approval: Approval, production: Collection[str]) -> None:
        """Show the question of a request; `production` are the names of all production devices."""
        asked = question_of(approval.request)
        self.setVisible(asked is not None)
        if asked is None:
            return
        self.words.setText(escape_hidden(asked.question, keep_lines=True))
        self.production.set_count(sum(device in production for device in asked.devices))
        shown = ", ".join(map(one_line, asked.devices[:MOST_NAMED]))
        more = len(asked.devices) - MOST_NAMED
        self.devices.show_facts(
            [
                Property("Batch", one_line(asked.batch)),
                Property("Wave", str(asked.wave)),
                Property("Devices", f"{shown} and {more} more" if more > 0 else shown),
            ]
        )
        self.then.setText(
            "Approved, the batch goes on with its next step on these devices, whose commands are decided one "
            "by one. Denied, they stop here."
        )
