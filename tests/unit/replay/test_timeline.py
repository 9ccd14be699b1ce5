"""Journal entries laid out as a time line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.audit.entries import Entry, Kind
from core.replay.timeline import build_timeline
from tests.fakes.run_size import examples
from tests.fakes.work import most_calls

CALLS_FOR_AN_ENTRY = 200

START = datetime(2026, 5, 4, 10, 0, 0, tzinfo=UTC)


class Story:
    """Writes entries one after the other, each some seconds after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = 0.0

    def add(self, kind: Kind, after: float = 1.0, **fields: Any) -> Story:
        self.now += after
        stamp = (
            (START + timedelta(seconds=self.now)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        )
        facts = {"actor": "service", "device": "desk", "call_id": "c1", "tool": "write_file"} | fields
        self.entries.append(Entry(kind=kind, seq=len(self.entries) + 1, time=stamp, **facts))
        return self

    def prepared(self, tool_type: str = "action", **fields: Any) -> Story:
        body = {"tool_type": tool_type, "parameters": fields.pop("parameters", {})}
        return self.add(Kind.COMMAND_PREPARED, body=body, **({"actor": "agent:ada"} | fields))

    def sent(self, **fields: Any) -> Story:
        return self.add(Kind.COMMAND_SENT, **fields)

    def answered(
        self, *pictures: str, status: str = "success", verdict: str = "unverified", **fields: Any
    ) -> Story:
        evidence = [{"blob": one, "media_type": "image/png", "width": 1, "height": 1} for one in pictures]
        body = {"result": {"evidence": evidence, "result": fields.pop("result", None)}}
        return self.add(
            Kind.RESULT_RECORDED, body=body, blobs=list(pictures), status=status, verdict=verdict, **fields
        )


def test_a_call_is_a_span_from_sending_to_its_result() -> None:
    story = Story().prepared().sent().answered(after=2.5)
    line = build_timeline(story.entries, "Run", "r1")
    assert line.title == "Run"
    assert line.run == "r1"
    assert line.length_s == 4.5 - 1
    (span,) = line.spans
    assert (span.lane, span.kind, span.start, span.end) == ("desk", "action", 1.0, 3.5)
    assert (span.label, span.call_id) == ("write_file", "c1")


def test_how_a_call_ended_is_the_kind_of_its_span() -> None:
    story = Story()
    for number, (kind, status, verdict) in enumerate(
        [
            ("data_collection", "success", "confirmed"),
            ("action", "failure", "unverified"),
            ("action", "failure", "unknown"),
            ("action", "success", "unverified"),
        ]
    ):
        call = f"c{number}"
        story.prepared(kind, call_id=call).sent(call_id=call).answered(
            status=status, verdict=verdict, call_id=call
        )
    assert [span.kind for span in build_timeline(story.entries, "x").spans] == [
        "observation",
        "failed",
        "unknown",
        "action",
    ]


def test_people_and_agents_have_their_lanes_above_the_devices() -> None:
    story = Story().add(Kind.SERVICE_STARTED, device=None).prepared(actor="agent:ada").sent(device="lab")
    story.add(Kind.APPROVAL_GIVEN, actor="operator:rosa", body={"approval": "a1"})
    assert build_timeline(story.entries, "x").lanes == ["agent:ada", "operator:rosa", "desk", "lab"]


def test_waiting_for_approval_stands_on_the_lane_of_who_answered_with_the_decision() -> None:
    story = Story().prepared()
    story.add(Kind.APPROVAL_REQUESTED, actor="agent:ada", body={"approval": "a1"})
    story.add(Kind.APPROVAL_GIVEN, after=9, actor="operator:rosa", body={"approval": "a1"})
    line = build_timeline(story.entries, "x")
    (span,) = line.spans
    assert (span.lane, span.kind, span.start, span.end) == ("operator:rosa", "approval_wait", 1.0, 10.0)
    (mark,) = line.marks
    assert (mark.lane, mark.kind, mark.at, mark.seq) == ("operator:rosa", "approved", 10.0, 3)


def test_a_request_that_waited_and_went_on_under_a_grant_waits_no_longer() -> None:
    story = Story().prepared()
    story.add(Kind.APPROVAL_REQUESTED, actor="agent:ada", body={"approval": "a1"})
    story.add(Kind.GRANT_USED, after=9, actor="policy", body={"grant": "g1", "approval": "a1"})
    line = build_timeline(story.entries, "x")
    (span,) = line.spans
    assert (span.lane, span.kind, span.start, span.end) == ("agent:ada", "approval_wait", 1.0, 10.0)
    (mark,) = line.marks
    assert (mark.lane, mark.kind, mark.at) == ("agent:ada", "approved", 10.0)


def test_an_expired_or_withdrawn_request_is_marked_on_the_lane_of_who_asked() -> None:
    story = Story()
    for state in ("expired", "withdrawn"):
        story.add(Kind.APPROVAL_REQUESTED, actor="agent:ada", body={"approval": state})
        story.add(Kind.APPROVAL_EXPIRED, body={"approval": state, "state": state})
    story.add(Kind.APPROVAL_DENIED, actor="operator:rosa", body={"approval": "gone"})
    line = build_timeline(story.entries, "x")
    assert [(mark.lane, mark.kind, mark.label) for mark in line.marks] == [
        ("agent:ada", "expired", "Expired: write_file"),
        ("agent:ada", "expired", "Withdrawn: write_file"),
        ("operator:rosa", "denied", "Denied write_file"),
    ]
    assert [span.kind for span in line.spans] == ["approval_wait"] * 2


def test_a_lost_device_is_lost_until_it_connects_again() -> None:
    story = Story().add(Kind.DEVICE_LOST, body={"reason": "no heartbeat"}).add(Kind.DEVICE_LOST)
    story.add(Kind.DEVICE_CONNECTED, after=5).add(Kind.DEVICE_LOST, device="lab")
    spans = build_timeline(story.entries, "x").spans
    assert [(span.lane, span.start, span.end, span.label) for span in spans] == [
        ("desk", 0.0, 6.0, "no heartbeat"),
        ("lab", 7.0, None, "lost"),
    ]


def test_what_has_not_ended_has_no_end_and_what_a_dead_service_sent_is_unknown() -> None:
    sent = Story().prepared().sent()
    line = build_timeline(sent.entries, "x")
    assert [(span.kind, span.end) for span in line.spans] == [("action", None)]
    assert [frame.blob for frame in line.frames] == [None]
    sent.add(Kind.SERVICE_STARTED, device=None, call_id=None, tool=None)
    after = build_timeline(sent.entries, "x")
    assert [(span.kind, span.end) for span in after.spans] == [("unknown", 2.0)]
    assert [frame.seq for frame in after.frames] == [2]


def test_each_moment_carries_the_picture_of_its_device_at_that_time() -> None:
    story = Story().prepared("data_collection").answered("p1", tool="screenshot")
    story.answered("p2", tool="screenshot", device="lab").sent().sent(device="lab").sent(device="new")
    story.add(Kind.RUN_FINISHED, device=None)
    line = build_timeline(story.entries, "x")
    assert [moment.picture for moment in line.moments] == [None, "p1", "p2", "p1", "p2", None, "p2"]
    assert [frame.blob for frame in line.frames if frame.tool == "screenshot"] == ["p1", "p2"]


def test_an_action_without_a_picture_is_a_frame_and_a_reading_without_one_is_not() -> None:
    story = Story().prepared().sent().answered()
    story.prepared("data_collection", call_id="c2").sent(call_id="c2").answered(call_id="c2")
    assert [(frame.call_id, frame.blob) for frame in build_timeline(story.entries, "x").frames] == [
        ("c1", None)
    ]


def test_a_reading_that_failed_or_whose_answer_was_lost_leaves_a_frame() -> None:
    story = Story()
    for call, status, verdict in (
        ("c1", "success", "confirmed"),
        ("c2", "failure", "unverified"),
        ("c3", "failure", "unknown"),
    ):
        story.prepared("data_collection", call_id=call, tool="read_file").sent(call_id=call, tool="read_file")
        story.answered(status=status, verdict=verdict, call_id=call, tool="read_file")
    frames = build_timeline(story.entries, "Run").frames
    assert [(frame.call_id, frame.ended, frame.blob) for frame in frames] == [
        ("c2", "failed", None),
        ("c3", "unknown", None),
    ]


def test_a_frame_is_marked_where_the_action_aimed() -> None:
    story = Story().prepared(parameters={"x": 10, "y": 20}).answered("p1")
    story.prepared(call_id="c2").answered(
        "p2", call_id="c2", result={"box": {"x": 4, "y": 6, "width": 10, "height": 20}}
    )
    story.prepared("data_collection", call_id="c3", parameters={"x": 1, "y": 1}).answered("p3", call_id="c3")
    story.prepared(call_id="c4", parameters={"x": "a", "y": -1}).answered("p4", call_id="c4")
    assert [frame.mark for frame in build_timeline(story.entries, "x").frames] == [
        (10, 20),
        (9, 16),
        None,
        None,
    ]


def test_a_result_without_its_sending_begins_as_long_ago_as_it_took() -> None:
    story = Story().add(Kind.RUN_STARTED).answered(after=10, duration_ms=4000)
    (span,) = build_timeline(story.entries, "x").spans
    assert (span.start, span.end) == (6.0, 10.0)


def test_titles_say_what_happened_and_hide_nothing() -> None:
    story = (
        Story()
        .prepared(tool="write\u202e")
        .add(
            Kind.COMMAND_DECIDED, body={"decision": {"answer": "ask", "summary": "Creates notes.txt, 1.2 kB"}}
        )
    )
    story.add(Kind.RESULT_RECORDED, body={"result": {"error": {"message": "No such\nfile"}}})
    story.add(
        Kind.APPROVAL_DENIED, actor="operator:rosa", body={"signed": {"statement": {"reason": "not now"}}}
    )
    assert [moment.title for moment in build_timeline(story.entries, "x").moments] == [
        "ada asked for write[U+202E]",
        "write_file was judged: an operator is asked, Creates notes.txt, 1.2 kB",
        "write_file answered: No such[U+000A]file",
        "rosa denied write_file: not now",
    ]


def test_every_kind_of_entry_has_words() -> None:
    story = Story()
    for kind in Kind:
        story.add(kind)
    assert all(moment.title for moment in build_timeline(story.entries, "x").moments)


def test_nothing_makes_an_empty_timeline() -> None:
    line = build_timeline([], "x", truncated=True)
    assert (line.length_s, line.moments, line.lanes, line.truncated) == (0.0, [], [], True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "result evidence blob media_type approval tool_type parameters x y box".split(" ")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
MAYBE = st.none() | st.sampled_from(["", "a", "screenshot", "operator:a"])
ENTRY = st.builds(
    Entry,
    kind=st.sampled_from(Kind),
    actor=st.sampled_from(["", "operator:a", "agent:b", "service", "device:a", "operator:"]),
    seq=st.integers(-5, 5),
    time=st.sampled_from(
        ["", "nonsense", "2026-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
    )
    | st.datetimes().map(lambda when: when.isoformat() + "Z"),
    run=MAYBE,
    step=MAYBE,
    device=MAYBE,
    call_id=MAYBE,
    tool=MAYBE,
    status=MAYBE | st.just("failure"),
    verdict=MAYBE | st.just("unknown"),
    duration_ms=st.none() | st.floats(),
    body=st.dictionaries(
        st.sampled_from(["result", "approval", "tool_type", "parameters", "decision"]), JSON
    ),
    blobs=st.lists(st.text(max_size=3), max_size=2),
)


@settings(max_examples=examples(300))
@given(st.lists(ENTRY, max_size=12))
def test_any_entries_make_a_timeline_that_adds_up(entries: list[Entry]) -> None:
    line = build_timeline(entries, "x")
    assert len(line.moments) == len(entries)
    assert all(one.at <= other.at for one, other in zip(line.moments, line.moments[1:], strict=False))
    for span in line.spans:
        assert span.lane in line.lanes
        assert 0 <= span.start <= (line.length_s if span.end is None else span.end) <= line.length_s
    assert all(mark.lane in line.lanes for mark in line.marks)
    assert type(line).model_validate_json(line.model_dump_json()) == line


def test_the_work_grows_no_faster_than_the_entries() -> None:
    story = Story()
    for number in range(800):
        call = f"c{number}"
        story.prepared(call_id=call, after=0.01).add(Kind.COMMAND_DECIDED, call_id=call, after=0.01)
        story.add(Kind.INTENT_RECORDED, call_id=call, after=0.01).sent(call_id=call, after=0.01)
        story.answered(f"p{number}", call_id=call, after=0.01)
    with most_calls(CALLS_FOR_AN_ENTRY * len(story.entries)):
        build_timeline(story.entries, "x")
