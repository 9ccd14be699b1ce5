"""Expressions of batch files: what they may read, what is found before a run, and what bounds them."""

from __future__ import annotations

from typing import Any

import pytest

from core.batch.expression_reads import LARGEST_CONTEXT, MOST_APPENDED
from core.batch.expressions import (
    LONGEST,
    Context,
    Declarations,
    DeviceFacts,
    Expression,
    ExpressionError,
    Scope,
    StepFacts,
    compile_expression,
)
from core.batch.models import Input
from core.models.device_filter import parse_filter
from core.models.devices import Device, Health

DISK = {
    "type": "object",
    "properties": {
        "filesystems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "mount": {"type": "string"},
                    "use_percent": {"type": "number"},
                    "label": {"type": ["string", "null"]},
                },
            },
        },
        "count": {"type": "integer"},
        "extra": {"type": "object"},
    },
}
INPUTS = {
    "threshold": Input(type="integer", default=80),
    "token": Input(type="string", secret=True),
    "hosts": Input(type="list"),
}
SCOPE = Scope(Declarations(INPUTS, {"disk": DISK, "free": {}}), ("disk", "free"))
RESULT = {"filesystems": [{"mount": "/", "use_percent": 91, "label": None}], "count": 1, "extra": {"a": 1.5}}


def compiled(text: str, scope: Scope = SCOPE) -> Expression:
    return compile_expression(text, scope)


def value(text: str, scope: Scope = SCOPE, **steps: Any) -> Any:
    facts = {name: StepFacts("done", "success", "confirmed", result) for name, result in steps.items()}
    known = {"disk": StepFacts("done", "success", "confirmed", RESULT), **facts}
    context = Context(
        {"threshold": 80, "token": "hunter22", "hosts": ["a", "b"]}, known, DeviceFacts("lab-1")
    )
    return compile_expression(text, scope).evaluate(context)


def fault(text: str, scope: Scope = SCOPE, **steps: Any) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        value(text, scope, **steps)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps.disk.result.filesystems[0].use_percent > inputs.threshold", True),
        ("steps.disk.result.filesystems[0].use_percent == 91.0", True),
        ("steps.disk.result.count + 0.5", 1.5),
        ("steps.disk.result.filesystems.exists(f, f.mount == '/' && f.use_percent >= 90)", True),
        ("steps.disk.result.filesystems.map(f, f.mount)", ["/"]),
        ("steps.disk.result.filesystems.filter(f, f.use_percent > 95).size()", 0),
        ("steps.disk.result.filesystems[0].label", None),
        ("[steps.disk.result.filesystems[0].label, null]", [None, None]),
        ("has(steps.disk.result.extra.b) ? 'b' : 'none'", "none"),
        ("{'mount': steps.disk.result.filesystems[0].mount, 'n': 1}", {"mount": "/", "n": 1}),
        ("device.name + ':' + string(size(inputs.hosts))", "lab-1:2"),
        ("steps.disk.state == 'done' && steps.disk.attempts == 0", True),
    ],
)
def test_an_expression_yields_its_value_with_its_type(text: str, expected: Any) -> None:
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("steps.dsk.result.count > 1", 6, 'no step "dsk" stands before this one; known are disk, free'),
        ("steps.disk.result.cout > 1", 18, 'there is no field "cout"; there are filesystems, count, extra'),
        ("steps.disk.result.filesystems[0].mount > 5", 40, "> cannot be used with: text, whole number"),
        ("steps.disk.result.filesystems.exists(f, f.mont == '/')", 42, 'there is no field "mont"'),
        ("inputs.treshold > 1", 7, 'there is no input "treshold"; known are threshold, token, hosts'),
        ("inputs.threshold > '1'", 18, "> cannot be used with: whole number, text"),
        ("steps.disk.colour == 'red'", 11, 'there is no field "colour"; there are state, status'),
        ("result.count == 1", 1, "result is known only in expect"),
        ("nothing + 1", 1, '"nothing" is not known'),
        ("1 +", 4, "mismatched input"),
        ("steps", 1, "steps is read by name"),
        ("steps.disk.result.count == null", 25, "cannot be used with: whole number, null"),
    ],
)
def test_a_mistake_is_found_when_compiling_with_its_column(text: str, column: int, what: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(text)
    assert what in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_mistake_in_a_later_line_has_its_line() -> None:
    error = fault("steps.disk.result.count > 0 &&\n  steps.disk.result.cuont > 1")
    assert (error.line, error.column) == (2, 20)


def test_a_secret_input_is_read_only_where_secrets_may_go() -> None:
    assert "may only go into an argument" in fault("inputs.token == 'a'").message
    scope = Scope(SCOPE.declarations, SCOPE.steps, secrets=True)
    assert compile_expression("inputs.token", scope).secret
    assert not compile_expression("inputs.threshold", scope).secret
    assert value("'Bearer ' + inputs.token", scope) == "Bearer hunter22"


def test_an_error_of_an_expression_with_a_secret_does_not_show_it() -> None:
    scope = Scope(SCOPE.declarations, SCOPE.steps, secrets=True)
    error = fault("int(inputs.token)", scope)
    assert "hunter22" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_result_that_is_not_there_is_named_with_the_state_of_its_step() -> None:
    expression = compiled("steps.free.result.bytes > 1")
    context = Context({}, {"free": StepFacts("skipped", "skipped")}, DeviceFacts())
    with pytest.raises(ExpressionError, match="step free is skipped and has no result"):
        expression.evaluate(context)
    with pytest.raises(ExpressionError, match="step free was not reached and has no result"):
        expression.evaluate(Context({}, {}, DeviceFacts()))


def test_a_condition_on_the_state_protects_the_read_of_the_result() -> None:
    text = "steps.free.state == 'done' && steps.free.result.bytes > 1"
    context = Context({}, {"free": StepFacts("skipped", "skipped")}, DeviceFacts())
    assert compiled(text).evaluate(context) is False
    assert compiled("steps.free.result == null").evaluate(context) is True


@pytest.mark.parametrize(
    "number", [2**53 + 1, 1234567890123456789, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**4299 + 7]
)
def test_an_integer_of_any_size_is_passed_on_compared_and_written_exactly(number: int) -> None:
    data = {"id": number, "next": number + 1, "rows": [{"name": "a", "id": number}]}
    where = "steps.free.result"
    for text, expected in {
        f"{where}.id": number,
        f"string({where}.id)": str(number),
        f"'id-' + string({where}.id)": f"id-{number}",
        f"[{where}.id, {where}]": [number, data],
        f"{{'a': {where}.rows}}": {"a": data["rows"]},
        f"{where}.rows.filter(r, r.name == 'a')[0].id": number,
        f"{where}.rows.exists(r, r.id == {where}.id)": True,
        f"{where}.id == {where}.next": False,
        f"{where}.id != {where}.next": True,
        f"{where}.next in [1, {where}.id, 'x']": False,
        f"{where}.id == 1 || {where}.id == 1.5": False,
    }.items():
        assert value(text, free=data) == expected, text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("steps.free.result.gone", 'there is no field "gone"'),
        ("steps.free.result.list[3]", "there is no element 3; the list has 1"),
        ("steps.free.result.n > 'a'", "do not go together"),
        ("steps.free.result.n.deeper", "a field is read of a value that has none"),
        ("1 / (steps.free.result.n - 1)", "divide by zero"),
        ("1.0 / (steps.free.result.n - 1)", "not a number that JSON can hold"),
        ("timestamp('2026-01-01T00:00:00Z')", "is not a JSON value"),
        *[
            (f"steps.free.result.large {rest}", "an integer beyond 64 bits")
            for rest in ("+ 1", "* 2.0", "> 1", "+ steps.free.result.large", "< steps.free.result.large")
        ],
        ("steps.free.result.unsigned - 1", "an integer beyond 64 bits"),
        ("-steps.free.result.large", "an integer beyond 64 bits"),
        ("9223372036854775807 + 1", "overflow"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_in_words(text: str, what: str) -> None:
    assert what in fault(text, free={"list": [1], "n": 1, "large": 1 << 70, "unsigned": 2**64 - 1}).message


def test_values_that_are_null_cost_no_reference_to_null() -> None:
    import sys

    expression = compiled("steps.disk.result.filesystems[0].label")
    context = Context({}, {"disk": StepFacts("done", result=RESULT)}, DeviceFacts())
    before = sys.getrefcount(None)
    for _ in range(2_000):
        expression.evaluate(context)
    assert sys.getrefcount(None) > before - 1_000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1" + " + 1" * LONGEST, "at most 2,000 characters"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ("1" + "+1" * 200, "nested too deeply"),
        ("inputs.hosts.all(a, inputs.hosts.all(b, inputs.hosts.all(c, a == b)))", "nested 2 deep"),
        ("inputs.hosts.all(a, inputs.hosts.map(b, b) == [])", "cannot stand inside another loop"),
        ("(inputs.hosts + inputs.hosts).map(a, a)", "put together with +"),
        ("[inputs.hosts[0]].map(a, a + a).map(b, b + b)", "put together with +"),
        ("(true ? inputs.hosts : inputs.hosts).map(a, a)", "named by a path"),
        ("'\ud800'", "not Unicode"),
    ],
)
def test_an_expression_that_could_run_long_is_refused_before_it_runs(text: str, what: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(text)
    assert what in caught.value.message


@pytest.mark.parametrize(
    ("text", "data", "what"),
    [
        ("steps.free.result.l.exists(a, a < 0)", {"l": list(range(20_000))}, "more than 10,000 iterations"),
        (
            "steps.free.result.l.exists(a, steps.free.result.l.exists(b, a + b < 0))",
            {"l": list(range(400))},
            "more than 10,000 iterations",
        ),
        ("steps.free.result.l.map(a, a)", {"l": [0] * (MOST_APPENDED + 1)}, "map and filter take 1,000"),
        ("steps.free.result.t.size()", {"t": "x" * LARGEST_CONTEXT}, "bytes; allowed are"),
        (
            "steps.free.result.l.exists(a, steps.free.result.t.matches('(a+)+$'))",
            {"l": [1], "t": "x" * 5_000},
            "a loop may use 4,096 beside its list",
        ),
        (
            "steps.free.result.l.exists(a, " + " || ".join(["a.matches('b')"] * 90) + ")",
            {"l": ["x" * 500_000]},
            "its loops would read more than",
        ),
    ],
)
def test_an_evaluation_is_bounded_by_what_it_reads(text: str, data: dict[str, Any], what: str) -> None:
    assert what in fault(text, free=data).message


def test_only_the_fields_that_are_named_are_handed_to_the_evaluation() -> None:
    class Rows(list[dict[str, Any]]):
        pass

    rows = [{"name": f"p{number}", "pid": number, "text": object()} for number in range(3)]
    # The objects are no JSON: an evaluation that was handed them would fail.
    data = {"rows": rows, "other": object()}
    assert value("steps.free.result.rows.exists(r, r.name == 'p2' && r.pid == 2)", free=data) is True
    assert value("steps.free.result.rows[1].pid", free=data) == 1
    assert value("steps.free.result.rows.size()", free=data) == 3
    assert value("steps.free.result.rows.filter(r, r.pid > 0).map(r, r.name)", free=data) == ["p1", "p2"]
    assert "cannot be used" in fault("steps.free.result.rows[1]", free=data).message


def test_references_name_what_an_expression_reads() -> None:
    text = "steps.disk.result.filesystems[0].use_percent > inputs.threshold && has(steps.free.result.x)"
    paths = [reference.path for reference in compiled(text).references]
    assert paths == [
        ("steps", "disk", "result", "filesystems"),
        ("inputs", "threshold"),
        ("steps", "free", "result", "x"),
    ]


class TestNamesInBrackets:
    DASHED = Scope(
        Declarations(
            INPUTS | {"in": Input(type="integer", default=3)},
            {"check-disk": DISK, "check_disk": {}, "in": DISK},
        ),
        ("check-disk", "check_disk", "in"),
        result_of="in",
    )

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ('steps["check-disk"].result.count', ("steps", "check-disk", "result", "count")),
            ("steps[ 'in' ].result.count", ("steps", "in", "result", "count")),
            ('steps["check_disk"]["result"]["count"]', ("steps", "check_disk", "result", "count")),
            ('inputs["in"]', ("inputs", "in")),
            ('result["count"]', ("result", "count")),
        ],
    )
    def test_a_name_in_brackets_is_the_same_reference_as_behind_a_dot(self, text, path):
        [reference] = compiled(text, self.DASHED).references
        assert reference.path == path

    def test_the_checker_knows_the_fields_behind_brackets_and_where_they_stand(self):
        with pytest.raises(ExpressionError, match='there is no field "nope"; there are filesystems') as wrong:
            compiled('1 < steps["check-disk"].result.nope', self.DASHED)
        assert (wrong.value.line, wrong.value.column) == (1, 31)
        with pytest.raises(ExpressionError, match='no step "check-dist" stands before'):
            compiled('steps["check-dist"].result.count', self.DASHED)

    @pytest.mark.parametrize("text", ["steps.check-disk.result.count", "steps.in.status", "1 + inputs.in"])
    def test_a_name_that_cannot_stand_behind_a_dot_is_said_to_be_written_in_brackets(self, text):
        with pytest.raises(ExpressionError, match=r'cannot stand behind a dot; write (steps|inputs)\["'):
            compiled(text, self.DASHED)

    def test_a_text_that_only_looks_like_such_a_name_is_a_text(self):
        assert compiled("'steps.in'", self.DASHED).references == ()


@pytest.mark.parametrize(
    ("platform", "word"), [("linux", "linux"), ("Linux", "linux"), ("win32", "windows"), ("darwin", "macos")]
)
def test_the_system_of_a_device_is_the_word_of_the_filter(platform, word):
    device = Device(
        name="lab-1",
        health=Health.ONLINE,
        since="",
        platform=platform,
        system="Debian GNU/Linux 12 (bookworm), x86_64",
    )
    assert parse_filter(f"os:{word}").matches(device)
    facts = DeviceFacts.of(device)
    expression = compiled(f"device.os == '{word}' && device.os_name.startsWith('Debian')")
    assert expression.evaluate(Context({}, {}, facts)) is True
