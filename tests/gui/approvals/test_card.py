"""The card shows all that would be sent, as plain text: nothing hidden, nothing interpreted."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QPainter
from PySide6.QtWidgets import QLabel, QWidget

from app.screens.approvals.request_payload import DigestCheck, request_payload
from app.screens.targets import OpenAgent, OpenApproval, OpenRun
from app.theme.theme import Theme
from app.widgets import code_view
from app.widgets.code_view import FindingGutter
from app.widgets.labels import Label, Link
from app.widgets.line_breaks import breakable, whole
from core.canonical_json import canonical_bytes
from core.models.tools import Risk
from core.policy.models import Finding, Reason
from core.text import right_to_left_letters
from tests.fakes.approvals_desk import DeskWith, find_in, make_approval
from tests.fakes.work import most_calls

CARD_CALLS = 35_000
TRICK = "echo safe \u202e# mr\u2066\u200b \x1b[2J"


def words_of(widget: QWidget) -> str:
    """Every text of every label, spoken names and tooltips included."""
    # Without the places that the window itself made for lines to end.
    texts = [
        whole(text) if (text := one.text()) == breakable(whole(text)) else text
        for one in widget.findChildren(QLabel)
    ]
    for one in widget.findChildren(QWidget):
        texts += [one.accessibleName(), one.toolTip()]
    return "\n".join(texts)


async def test_characters_that_hide_or_reorder_are_shown_by_name_everywhere(desk_with: DeskWith) -> None:
    tricky = make_approval(
        1,
        device="lab\u202e01",
        actor="agent:\u200bclerk",
        summary=f"Runs {TRICK}",
        parameters={"command": TRICK, "working_directory": "/tmp/\u202egpj.exe"},
        findings=[Finding(text="Turns \u202e text round", risk=Risk.HIGH, detail="\u2066x")],
        reasons=[Reason(text="a\u200bb", origin="c\u202ed")],
        said="Trust \u202eme",
        risk="high",
        production=True,
    )

    async with desk_with(requests=[tricky]) as desk:
        await desk.guard_over()
        card = desk.screen.card
        for seen in (words_of(desk.screen), card.bytes.box.toPlainText(), card.rest.box.toPlainText()):
            for hidden in ("\u202e", "\u2066", "\u200b", "\x1b"):
                assert hidden not in seen
        assert "U+202E" in card.bytes.box.toPlainText()
        assert "U+202E" in card.rest.box.toPlainText()
        assert "4 hidden characters" in card.bytes.facts.text()
        assert "[U+202E]" in card.header.device.text()
        assert "[U+202E]" in card.said.words.text()
        spoken = desk.screen.queue.model.index(0, 0).data(Qt.ItemDataRole.DisplayRole)
        assert "\u202e" not in spoken


async def test_right_to_left_letters_stand_in_the_order_of_the_bytes_on_the_whole_card(
    desk_with: DeskWith,
) -> None:
    line = "rsync --delete \u05de\u05e7 \u05d9\u05e2; rm -rf \u05d0 /1/2/3 \u05d1"
    finding = Finding(text="Contains 6 right-to-left letters", risk=Risk.MEDIUM, detail=line)
    request = make_approval(
        1,
        device="lab-\u05d0 1 \u05d1",
        summary=f"Deletes \u201c{line}\u201d, 2 times",
        parameters={"command": line},
        findings=[finding],
        said=line,
    )
    async with desk_with(requests=[request]) as desk:
        await desk.guard_over()
        card = desk.screen.card
        shown = [QLabel.text(one) for one in desk.screen.findChildren(QLabel)]
        shown += card.bytes.box.toPlainText().split("\n")
        turned = [words for text in shown for words in text.split("\n") if right_to_left_letters(words)]
        assert len(turned) >= 4
        assert all(words.startswith("\u202d") for words in turned)
        assert "6 right-to-left letters, in the order of the bytes" in card.bytes.facts.text()


async def test_markup_in_a_request_is_text_and_nothing_else(desk_with: DeskWith) -> None:
    markup = '<b>bold</b><img src="x"><a href="https://example.invalid">safe</a>'
    dressed = make_approval(
        1,
        device=markup,
        actor=f"agent:{markup}",
        summary=markup,
        parameters={"command": markup, "note": markup},
        findings=[Finding(text=markup, risk=Risk.HIGH, detail=markup)],
        reasons=[Reason(text=markup, origin=markup)],
        said=markup,
        undo=markup,
        run="r-1<i>",
    )

    async with desk_with(requests=[dressed]) as desk:
        await desk.guard_over()
        card = desk.screen.card
        for label in desk.screen.findChildren(QLabel):
            assert label.textFormat() == Qt.TextFormat.PlainText, label.text()
        for widget in desk.screen.findChildren(QWidget):
            tip = widget.toolTip()
            assert "<b>" not in tip
            assert "<img" not in tip
        assert card.header.summary.text() == markup
        assert card.bytes.box.toPlainText() == markup
        assert card.said.words.text() == f"“{markup}”"


@pytest.mark.parametrize("shape", ["one line", "many lines"])
async def test_20_kb_of_arguments_are_shown_whole_in_few_calls(desk_with: DeskWith, shape: str) -> None:
    text = ("x = 'abcdefgh' " * 1400)[:20_000]
    if shape == "many lines":
        text = text.replace("' ", "'\n")
    request = make_approval(1, tool="write_file", parameters={"file_path": "/srv/x", "content": text})

    async with desk_with(requests=[request]) as desk:
        await desk.guard_over()
        card = desk.screen.card
        with most_calls(CARD_CALLS):
            card.show_request(request, "linux", None)
            card.grab()
        assert card.bytes.box.exact_bytes == text.encode()
        assert card.bytes.box.toPlainText() == text
        assert not card.end_was_seen
        assert "20.0 kB" in card.bytes.facts.text()


async def test_the_bytes_that_are_copied_are_the_exact_ones(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, parameters={"command": TRICK})]) as desk:
        await desk.guard_over()
        desk.screen.card.bytes.copy.click()
        assert desk.nav.toasts == ["Copied the exact bytes"]
        data = QGuiApplication.clipboard().mimeData().data("application/octet-stream").data()
        assert bytes(data) == TRICK.encode()


async def test_a_finding_is_numbered_in_the_bytes_and_below(desk_with: DeskWith) -> None:
    line = "sudo rm -rf ~/ä && ls"
    findings = [find_in(line, "rm -rf", "high", "Deletes recursively"), find_in(line, "ls", "low", "Lists")]

    async with desk_with(
        requests=[make_approval(1, parameters={"command": line}, findings=findings)]
    ) as desk:
        await desk.guard_over()
        card = desk.screen.card
        data = card.bytes.box.exact_bytes
        assert card.sent is not None
        cut = [(data[place.start : place.end], place.number) for place in card.sent.main.places]
        assert cut == [(b"rm -rf", 1), (b"ls", 2)]
        card.next_finding()
        card.next_finding()
        assert card.bytes.box.textCursor().position() == line.index("ls")


async def test_a_long_name_of_an_agents_program_fits_beside_what_the_agent_says(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, said="It is routine.", program="W" * 100)]) as desk:
        await desk.guard_over()
        who = desk.screen.card.said.who
        assert whole(who.text()).endswith(f"(calls itself {'W' * 100})")
        assert who.minimumSizeHint().width() < who.fontMetrics().horizontalAdvance("W" * 30)


async def test_a_card_names_the_agent_and_what_its_program_calls_itself(desk_with: DeskWith) -> None:
    some = [make_approval(1, said="It is routine.", program="Stu\u202edio 2.0"), make_approval(2)]
    async with desk_with(requests=some) as desk:
        await desk.guard_over()
        card = desk.screen.card
        words = "agent:clerk (calls itself Stu[U+202E]dio 2.0)"
        assert card.header.actor.text() == words
        assert card.said.who.text() == words
        desk.screen.open_card("a-0002")
        assert card.header.actor.text() == "agent:clerk"


async def test_what_the_asker_says_is_a_quotation_with_its_own_title(desk_with: DeskWith) -> None:
    some = [
        make_approval(1, said="It is routine."),
        make_approval(2, said="It is routine.", actor="operator:anna"),
        make_approval(3),
    ]
    async with desk_with(requests=some) as desk:
        await desk.guard_over()
        said = desk.screen.card.said
        assert said.title.text() == "The agent says (not checked)"
        assert said.words.font().italic()
        desk.screen.open_card("a-0002")
        assert said.title.text() == "The asker says (not checked)"
        desk.screen.open_card("a-0003")
        assert not said.isVisible()


@pytest.mark.parametrize(
    ("changes", "look", "fact"),
    [
        ({"reversible": True, "undo": "Can be undone: the device keeps it."}, "can_undo", "Can be undone."),
        ({"undo": "Cannot be undone: it is gone."}, "cannot_undo", "Cannot be undone."),
        ({"undo": ""}, "no_undo", "No undo is recorded."),
    ],
)
async def test_the_undo_box_says_which_of_three(
    desk_with: DeskWith, changes: dict[str, Any], look: str, fact: str
) -> None:
    async with desk_with(requests=[make_approval(1, **changes)]) as desk:
        await desk.guard_over()
        assert desk.screen.card.undo.look == look
        assert desk.screen.card.undo.accessibleName().startswith(fact)


async def test_the_run_is_a_link_and_the_facts_name_contract_and_signer(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, run="r-0007", step="clean")]) as desk:
        await desk.guard_over()
        facts = desk.screen.card.facts
        facts.value("Run").click()  # type: ignore[union-attr]  # the value of this line is a link
        assert desk.nav.opened == [("runs", OpenRun("r-0007"))]
        assert facts.value("Contract").text() == "shell_execute@c0ff"
        assert facts.value("Signs with").text() == f"harbour  …{desk.nav.keys.fingerprint}"
        assert facts.value("Approvers").text() == "1 of 1"


async def test_who_asks_is_a_link_to_the_page_of_the_agent_and_an_operator_is_none(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2, actor="operator:anna")]) as desk:
        await desk.guard_over()
        actor = desk.screen.card.facts.value("Actor")
        assert isinstance(actor, Link)
        actor.click()
        assert desk.nav.opened == [("agents", OpenAgent("clerk"))]
        desk.screen.enter(OpenApproval("a-0002"))
        await desk.guard_over()
        assert not isinstance(desk.screen.card.facts.value("Actor"), Link)


async def test_the_time_left_runs_down_on_the_card(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        desk.screen.leave()
        header = desk.screen.card.header
        one = desk.shown().model_copy(update={"paused": False})
        header.show_time(one, 271.4)
        assert header.time_left.text() == "4:31 left"
        assert header.time_left.property("tone") == "text2"
        header.show_time(one, 42)
        assert header.time_left.text() == "0:42 left"
        assert header.time_left.property("tone") == "warn"
        header.show_time(one.model_copy(update={"paused": True}), 42)
        assert header.time_left.text() == "0:42 left, paused while you read"


async def test_a_target_opens_its_card_also_when_it_is_decided(desk_with: DeskWith) -> None:
    done = make_approval(3).model_copy(update={"state": "denied", "decided_by": "anna", "reason": "No."})

    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        desk.screen.enter(OpenApproval("a-0002"))
        assert desk.shown().id == "a-0002"
        desk.console.queue[done.id] = done
        desk.screen.enter(OpenApproval("a-0003"))
        await desk.until(lambda: desk.shown().id == "a-0003")
        assert "Denied by anna" in desk.screen.card.end_banner.words()
        assert desk.screen.bar.next.isVisible()


@pytest.mark.parametrize("size", [(1440, 830), (1228, 650), (1024, 594)])
async def test_nothing_scrolls_sideways_at_any_size(desk_with: DeskWith, size: tuple[int, int]) -> None:
    path = "/srv/" + "very_long_name_without_any_space/" * 12
    long = make_approval(
        1,
        summary=f"Reads {path}",
        parameters={"command": "cat " + path, "path": path},
        device="d" * 40,
        said=path,
    )

    async with desk_with(requests=[long], size=size) as desk:
        await desk.guard_over()
        screen = desk.screen
        screen.set_compact(size[0] < 1360, size[1] < 700)
        await desk.until(lambda: screen.card.middle.viewport().width() > 0)
        body = screen.card.middle.widget()
        assert screen.width() == size[0]
        assert body is not None
        assert body.width() <= screen.card.middle.viewport().width()
        assert screen.bar.approve.visibleRegion().boundingRect().width() == screen.bar.approve.width()
        assert screen.card.header.device.width() >= screen.card.header.device.sizeHint().width()


async def test_every_control_has_an_accessible_name(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, run="r-1", said="x")]) as desk:
        await desk.guard_over()
        for widget in desk.screen.findChildren(QWidget):
            if widget.isVisible() and widget.focusPolicy() != Qt.FocusPolicy.NoFocus:
                owner = widget.parentWidget()
                named = widget.accessibleName() or isinstance(widget, Label)
                assert named or (owner is not None and owner.accessibleName()), widget


# What is sent, without a window


def test_canonical_json_is_shown_when_no_argument_is_read_as_such() -> None:
    parameters = {"z": 1, "control": {"name": "Post"}, "a": "x\ny"}
    sent = request_payload(make_approval(1, tool="click", parameters=parameters).request, [])
    assert sent.main.data == canonical_bytes(parameters)
    assert sent.others is None
    assert sent.digest is DigestCheck.FITS


def test_findings_are_found_again_inside_canonical_json() -> None:
    parameters = {"b": 'say "ä"\nrm -rf /', "a": 1, "ü": "rm -rf"}
    value = parameters["b"]
    assert isinstance(value, str)
    at = value.index("rm -rf")
    findings = [
        Finding(text="x", risk=Risk.HIGH, argument="b", start=at, end=at + 6),
        Finding(text="y", risk=Risk.LOW, argument="ü", start=0, end=6),
        Finding(text="outside", risk=Risk.LOW, argument="b", start=900, end=9),
        Finding(text="no place", risk=Risk.LOW, argument="a"),
    ]
    main = request_payload(make_approval(1, tool="t", parameters=parameters).request, findings).main
    assert [(main.data[p.start : p.end], p.number) for p in main.places] == [(b"rm -rf", 1), (b"rm -rf", 2)]


def test_an_empty_line_is_shown_as_the_json_around_it() -> None:
    sent = request_payload(make_approval(1, parameters={"command": ""}).request, [])
    assert sent.main.data == b'{"command":""}'


def test_every_other_argument_is_shown() -> None:
    parameters = {"command": "ls", "timeout": 5, "env": {"A": "b"}, "od\u202ed": "\u200b", "n": None}
    others = request_payload(make_approval(1, parameters=parameters).request, []).others
    assert others is not None
    lines = others.data.decode().split("\n")
    assert [line.split("  ")[0].strip() for line in lines] == ["env", "n", '"od\u202ed"', "timeout"]
    assert '{"A":"b"}' in lines[0]


def test_a_text_that_looks_like_a_masked_secret_is_not_taken_for_one() -> None:
    fake = '{"$secret":"abcd"}'
    sent = request_payload(make_approval(1, tool="t", parameters={"a": fake}).request, [])
    assert sent.masked == 0
    assert sent.main.data == canonical_bytes({"a": fake})
    assert sent.digest is DigestCheck.FITS


def test_a_line_with_a_secret_in_it_is_shown_around_the_secret_with_findings_in_their_places() -> None:
    line = {"$secret": ["curl -H 'X: ", {"$secret": "ab" * 32}, "' http://h/; rm -rf /srv"]}
    request = make_approval(1, parameters={"command": line, "password": {"$secret": "cd" * 32}}).request
    shown = "curl -H 'X: •••' http://h/; rm -rf /srv"
    start = shown.index("rm")
    finding = Finding(text="Deletes", risk=Risk.HIGH, argument="command", start=start, end=len(shown))
    sent = request_payload(request, [finding])
    assert sent.main.data == shown.encode()
    [place] = sent.main.places
    assert sent.main.data[place.start : place.end] == b"rm -rf /srv"
    assert (sent.masked, sent.main_masked) == (2, 1)
    assert sent.digest is DigestCheck.FITS


def test_arguments_without_a_canonical_form_never_fit_a_digest() -> None:
    request = make_approval(1).request
    broken = request.model_copy(update={"parameters": {"command": "x\ud800", "n": float("nan")}})
    sent = request_payload(broken, [])
    assert sent.digest is DigestCheck.DIFFERS
    assert sent.main.data


async def test_every_finding_has_its_number_beside_the_line_also_four_of_one(
    desk_with: DeskWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "echo a\nsudo rm -rf /srv/a && sudo systemctl restart nginx"
    parts = ("sudo rm", "rm -rf", "sudo systemctl", "systemctl")
    findings = [find_in(command, part, "high", f"Does {part}") for part in parts]
    painted: dict[int, QRectF] = {}
    real = code_view.paint_finding_number

    def paint(painter: QPainter, rect: QRectF, number: int, risk: str, theme: Theme) -> None:
        painted[number] = rect
        real(painter, rect, number, risk, theme)

    monkeypatch.setattr(code_view, "paint_finding_number", paint)

    async with desk_with(
        requests=[make_approval(1, parameters={"command": command}, findings=findings, risk="high")]
    ) as desk:
        await desk.guard_over()
        [gutter] = desk.screen.card.bytes.box.findChildren(FindingGutter)
        painted.clear()
        gutter.grab()
        assert sorted(painted) == [1, 2, 3, 4]
        assert all(gutter.rect().toRectF().contains(rect) for rect in painted.values())
