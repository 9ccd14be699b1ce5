"""The pages of the gallery: every widget with content that stretches it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QHBoxLayout, QTabWidget, QVBoxLayout, QWidget

from app.items.table_view import Cell, Column, Kind, Row, TableView
from app.theme.icons import ICONS
from app.theme.state_looks import CELLS, HEALTHS, PLANS, RISKS
from app.theme.tokens import TYPE
from app.widgets.badges import (
    Chip,
    CountPill,
    HealthBadge,
    PlanBadge,
    ProductionBand,
    ProductionStrip,
    ProductionTag,
    RiskBadge,
    SecretChip,
    VerdictBadge,
)
from app.widgets.banner import Banner, Notice
from app.widgets.buttons import Button, IconButton, Segmented
from app.widgets.code_view import CodeView, Highlight
from app.widgets.empty_state import EmptyState
from app.widgets.fields import CheckBox, DropDown, Field, SearchField, TextField
from app.widgets.image_view import ImageView
from app.widgets.labels import Label, Link, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.progress import Progress, Spinner
from app.widgets.property_list import Property, PropertyList, short_digest
from app.widgets.section import Card, ScreenHead, Section
from app.widgets.shortcut_label import ShortcutLabel


def _page() -> tuple[QWidget, QVBoxLayout]:
    page = set_surface(QWidget(), "base")
    column = vbox(parent=page, margins=16, spacing=14)
    return page, column


def _row(*widgets: QWidget) -> QHBoxLayout:
    return hbox(*widgets, STRETCH, spacing=8)


def _off(button: Button) -> Button:
    button.set_off("Nothing is chosen")
    return button


def buttons() -> QWidget:
    """Buttons, segments, icons."""
    page, column = _page()
    column.addLayout(
        _row(
            Button("Deny…", "danger", "deny", "D", large=True),
            Button("Edit, then approve…", "normal", "edit", "E", large=True),
            Button("Approve for…", menu_mark=True, large=True),
            Button("Approve once", "primary", "approve", "Ctrl+Enter", large=True),
        )
    )
    column.addLayout(
        _row(
            Button("Pair a device", "primary", "add"),
            Button("Run on 24…", icon="run"),
            Button("Save"),
            Button("Stop all", "danger", "stop_all", "Ctrl+Shift+X"),
            Button("Entries", "ghost", "journal"),
            IconButton("more", "More", framed=True),
            IconButton("close", "Close"),
        )
    )
    column.addLayout(
        _row(
            _off(Button("Approve once", "primary", "approve")),
            _off(Button("Undo…", icon="undo")),
            _off(Button("Deny…", "danger", "deny")),
            _off(Button("Entries", "ghost", "journal")),
        )
    )
    column.addLayout(
        _row(
            Segmented([("table", "Table", "table"), ("wall", "Wall", "wall")], "View"),
            Segmented([("a", "Unified"), ("b", "Side by side"), ("c", "Bytes")], "Diff"),
            Segmented([("a", "Result"), ("b", "Output"), ("c", "Entries 9")], "Part", in_bar=True),
            Link("Verify again"),
            ShortcutLabel("Ctrl+Enter", "approve"),
        )
    )
    names = sorted(ICONS)
    for start in range(0, len(names), 24):
        column.addLayout(_row(*[IconButton(name, name) for name in names[start : start + 24]]))
    column.addStretch(1)
    return page


def badges() -> QWidget:
    """Risk, verdict, health, plan, production, type roles."""
    page, column = _page()
    column.addWidget(ProductionStrip("build-lnx-03"))
    column.addLayout(_row(*[RiskBadge(risk) for risk in RISKS], *[RiskBadge(r, boxed=False) for r in RISKS]))
    states = list(CELLS)
    column.addLayout(_row(*[VerdictBadge(state) for state in states[:8]]))
    column.addLayout(_row(*[VerdictBadge(state) for state in states[8:]]))
    column.addLayout(_row(*[HealthBadge(health) for health in HEALTHS]))
    column.addLayout(_row(*[PlanBadge(state) for state in PLANS]))
    chosen = Chip("Needs a look 4", checkable=True)
    chosen.setChecked(True)
    column.addLayout(
        _row(
            CountPill(3),
            CountPill(11),
            CountPill(1204),
            Chip("All 42", checkable=True),
            chosen,
            Chip("tag:lab"),
            SecretChip(),
            ProductionTag(),
            ProductionTag(2),
            ProductionBand(),
        )
    )
    column.addWidget(separator())
    for role in TYPE:
        column.addLayout(
            _row(Label(f"{role}: The service restarted at 10:41:06, 18,204 entries -> != --", role))
        )
    column.addStretch(1)
    return page


def inputs() -> QWidget:
    """Fields in all their states, facts, progress, tabs."""
    page, column = _page()
    sides = QHBoxLayout()
    sides.setSpacing(24)
    for side in (_fields(), _facts_and_progress()):
        side.setSpacing(14)
        side.addStretch(1)
        sides.addLayout(side, 1)
    column.addLayout(sides)
    return page


def _fields() -> QVBoxLayout:
    column = QVBoxLayout()
    command = TextField("command", mono=True)
    command.setText("rm -rf /srv/artifacts/cache/build-old")
    column.addWidget(SearchField("Search", "Find devices, tools, batches, runs, entries", keys="Ctrl+K"))
    column.addWidget(Field("command", command, True, "Deletes recursively below /srv/artifacts/cache."))
    wrong = Field("timeout", TextField("timeout"), help_text="default 30")
    wrong.set_error("This is not a number. Write whole seconds, such as 30.")
    column.addWidget(wrong)
    retry = DropDown("Retry")
    retry.addItems(["never", "twice, with pauses"])
    column.addWidget(Field("Retry", retry))
    off = TextField("off", "set by the policy")
    off.setEnabled(False)
    column.addWidget(Field("profile", off, help_text="Only an operator with a key can change this."))
    ticked, half = CheckBox("Follow the end"), CheckBox("Some of them")
    ticked.setChecked(True)
    half.setTristate(True)
    half.setCheckState(Qt.CheckState.PartiallyChecked)
    column.addLayout(_row(ticked, CheckBox("Show heartbeats"), half))
    return column


def _facts_and_progress() -> QVBoxLayout:
    column = QVBoxLayout()
    facts = PropertyList()
    facts.show_facts(
        [
            Property("Actor", "agent:night-shift"),
            Property("Run", "r-0415, step 3 of 4", link="run"),
            Property("Contract", "shell_execute@61d0", mono=True),
            Property("Client", "quarterdeck-device 1.4.0, speaks progress, cancel, undo and permits"),
            Property("Digest", short_digest("9f3c" + "0" * 56 + "e210"), mono=True),
            Property("<b>Markup</b>", "<i>is shown as it is</i>"),
        ]
    )
    request = Section("Request", "asked 10:36:12")
    request.add(facts)
    column.addWidget(request)
    progress, unknown = Progress(cancellable=True), Progress()
    progress.show_progress(13 / 21, "13 of 21 folders, as the device reports")
    unknown.show_progress(None, "checking the journal")
    column.addWidget(progress)
    column.addWidget(unknown)
    column.addLayout(_row(Spinner(), Label("running 1:32", "body", "text2")))
    tabs = QTabWidget()
    for title in ("Overview", "Tools 23", "Recent"):
        tabs.addTab(QWidget(), title)
    tabs.setFixedHeight(60)
    column.addWidget(tabs)
    return column


def table() -> QWidget:
    """A screen's head, a banner, a table."""
    page = set_surface(QWidget(), "base")
    column = vbox(parent=page)
    head = ScreenHead("Fleet", "24 devices")
    search = SearchField("Filter", "os:linux tag:lab !name:db-*", "filter")
    search.setFixedWidth(300)
    group = DropDown("Group", ghost=True)
    group.addItems(["Group: none", "Group: tag"])
    head.add_left(search)
    head.add_left(group)
    head.add(Button("Run on 24…", icon="run"))
    head.add(Button("Pair a device", "primary", "add"))
    column.addWidget(head)
    devices = TableView(COLUMNS, "Devices", multiple=True)
    devices.show_rows(sample_rows())
    devices.sort_by("device")
    devices.choose("build-lnx-03")
    column.addWidget(devices, 1)
    page.setFocusProxy(devices)
    return page


def notices() -> QWidget:
    """Banners, notices, cards, what an agent says."""
    page, column = _page()
    for kind, fact, detail, link in (
        ("ok", "Everything verifies.", "18,204 entries, checked at 10:41:00 in 0.09 s", "Verify again"),
        ("warn", "Last verified yesterday.", "18,204 entries", "Verify now"),
        ("fail", "Entry 9,412 does not match its hash.", "", "Show entry"),
    ):
        banner = Banner(closable=kind == "warn")
        banner.say(kind, fact, detail, (("act", link),))  # type: ignore[arg-type]  # literals of the loop
        column.addWidget(banner)
    for look in Notice.LOOKS:
        detail = "rm deletes for good. The restart can be repeated; the device keeps no copy of the folders."
        column.addWidget(
            Notice(
                look, look.replace("_", " ").capitalize() + ".", detail, "Review" if look == "warn" else ""
            )
        )
    quote = Card("quote")
    quote.add(Label("The agent says (not checked)", "label", "text2"))
    words = (
        "“Old build folders fill the disk. I remove those older than two weeks; this is routine and safe.”"
    )
    quote.add(Label(words, "quote", "text2", wrap=True))
    column.addWidget(quote)
    card = Card()
    card.add(Label("A card", "head"))
    card.add(Label("With a line of text.", "body", "text2"))
    column.addWidget(card)
    column.addStretch(1)
    return page


def empty() -> QWidget:
    """What a screen says before there is anything."""
    return set_surface(
        EmptyState(
            "Nothing waits for you.",
            "What needs an answer appears here, highest risk first.",
            ("pair", "Pair a device", "pair"),
            (
                ("pair", "pair", "Pair another device", "One command on the device, one code here.", "Pair"),
                ("example", "batch", "Open an example", "Pictures, memory, a condition, a retry.", "Choose"),
                ("agent", "agent", "Let an agent ask", "It can ask, never approve.", "Connect"),
            ),
        ),
        "base",
    )


COMMAND = """cd /srv/artifacts && CACHE="${CACHE_ROOT:-/srv/artifacts/cache}"
find "$CACHE" -type d -name 'build-*' -mtime +14 -exec rm -rf {} +
sudo systemctl restart artifact-indexer
df -h /srv/artifacts | tail -n 1"""


def _finding(words: str, risk: str, number: int) -> Highlight:
    start = COMMAND.index(words)
    return Highlight(start, start + len(words), risk, number)


def code() -> QWidget:
    """Bytes boxes and the picture view."""
    page, column = _page()
    command = CodeView()
    command.show_bytes(
        COMMAND.encode(),
        [
            _finding('"$CACHE"', "high", 1),
            _finding("rm -rf {} +", "high", 2),
            _finding("sudo", "high", 3),
            _finding("restart artifact-indexer", "medium", 4),
        ],
    )
    column.addWidget(command)
    hiding = CodeView("Hidden characters")
    hiding.show_bytes(
        "echo a\u200bb \u202etxt.exe\r\nשלום U+200B as text\nbad ".encode() + b"\xff\x00 bytes\n"
    )
    column.addWidget(hiding)
    long = CodeView("One long line")
    long.show_bytes(b'{"button":"left","control_id":{"name":"Post adjustment","role":"push button"}}' * 3)
    column.addWidget(long)
    much = CodeView("Much", most_lines=4)
    much.show_bytes("\n".join(f"line {n}" for n in range(1, 900)).encode())
    column.addWidget(much)
    pictures = QHBoxLayout()
    picture = ImageView("Screen of build-lnx-03")
    picture.set_image(_sample_picture())
    picture.set_overlay(_mark_target)
    pictures.addWidget(picture)
    pictures.addWidget(ImageView("Screen of kiosk-yard", "No picture: the link was lost at 08:12"))
    column.addLayout(pictures, 1)
    return page


def _sample_picture() -> QImage:
    image = QImage(1280, 800, QImage.Format.Format_RGB32)
    image.fill(QColor("#d9dde0"))
    painter = QPainter(image)
    painter.fillRect(0, 0, 1280, 36, QColor("#3b4046"))
    for line in range(12):
        painter.fillRect(80, 90 + line * 44, 700 - (line * 53) % 300, 16, QColor("#9aa4ad"))
    painter.fillRect(980, 665, 170, 40, QColor("#2a63c4"))
    painter.end()
    return image


def _mark_target(painter: QPainter, view: ImageView) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QColor("#4BC0D0"))
    painter.drawRect(view.to_view(QRectF(QPointF(974, 659), QPointF(1156, 711))))


PAGES: dict[str, tuple[Callable[[], QWidget], tuple[int, int]]] = {
    "buttons": (buttons, (860, 420)),
    "badges": (badges, (860, 900)),
    "inputs": (inputs, (1000, 520)),
    "table": (table, (1180, 400)),
    "notices": (notices, (760, 1010)),
    "empty": (empty, (1000, 420)),
    "code": (code, (620, 780)),
}
"""Page → its maker and its size in logical px."""


COLUMNS: tuple[Column[Row], ...] = (
    Column("device", "Device", Kind.NAME, 165),
    Column("health", "Health", Kind.HEALTH, 125),
    Column("tags", "Tags", width=115),
    Column("tools", "Tools", Kind.NUMBER, 60),
    Column("trip", "Round trip, ms", Kind.SPARK, 115),
    Column("doing", "Doing now", stretch=True),
    Column("tool", "Tool", Kind.MONO, 130),
    Column("risk", "Risk", Kind.RISK, 95),
    Column("outcome", "Outcome", Kind.VERDICT, 120),
)


def sample_rows() -> list[Row]:
    """Rows that show each kind of cell."""
    made = []
    for number, (name, icon, health, risk, outcome) in enumerate(
        [
            ("build-lnx-03", "linux", "busy", "high", "running"),
            ("db-primary", "linux", "online", "low", "confirmed"),
            ("label-win-02", "windows", "busy", "medium", "unverified"),
            ("kiosk-hall-2", "windows", "stale", "critical", "unknown"),
            ("kiosk-yard", "linux", "offline", "low", "refused"),
            ("lab-mac-01", "macos", "reconnecting", "medium", "no_effect"),
            ("lab-lnx-01", "linux", "online", "low", "waiting"),
            ("lab-lnx-02", "linux", "online", "low", "failed"),
            ("this-computer", "linux", "online", "low", "queued"),
        ]
    ):
        production = number < 3
        line = tuple(float((number * 7 + step * step * 3) % 11) for step in range(8))
        cells: tuple[str | Cell, ...] = (
            Cell(name, icon=icon),
            health,
            Cell("build,", bold="prod") if production else "lab",
            str(17 + number),
            Cell("—") if health in ("stale", "offline") else Cell(str(9 + number), spark=line),
            Cell("approval waits", glyph="sand", tone="waiting") if number == 0 else "",
            "shell_execute",
            risk,
            outcome,
        )
        made.append(Row(name, cells, production=production, muted=health == "offline"))
    return made
