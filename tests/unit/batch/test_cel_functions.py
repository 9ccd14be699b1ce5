"""The functions of expressions: README lists those that there are, and what they make is bounded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from core.batch.cel_functions import FUNCTIONS
from core.batch.expressions import (
    Context,
    Declarations,
    DeviceFacts,
    ExpressionError,
    Scope,
    StepFacts,
    compile_expression,
)
from core.batch.models import Input
from core.text import sentences

README = Path(__file__).parents[3] / "README.md"
SCOPE = Scope(Declarations({"text": Input(type="string"), "list": Input(type="list")}, {"s": {}}), ("s",))
LARGE = "a" * 900_000
WHEN = 'timestamp("2026-05-04T03:02:01.500Z")'
# By function: an expression that calls it, and its value.
CALLS: dict[str, tuple[str, Any]] = {
    "size": ('size("abc")', 3),
    "has": ("has(steps.s.result.lines)", True),
    "contains": ('"abc".contains("b")', True),
    "startsWith": ('"abc".startsWith("a")', True),
    "endsWith": ('"abc".endsWith("c")', True),
    "matches": ('"abc".matches("^a.c$")', True),
    "all": ("inputs.list.all(x, x != '')", True),
    "exists": ('inputs.list.exists(x, x == "b")', True),
    "exists_one": ('inputs.list.exists_one(x, x == "b")', True),
    "map": ("inputs.list.map(x, size(x))", [1, 1]),
    "filter": ('inputs.list.filter(x, x > "a")', ["b"]),
    "int": ('int("42")', 42),
    "uint": ("int(uint(42))", 42),
    "double": ('double("1.5")', 1.5),
    "string": ("string(42)", "42"),
    "bool": ('bool("true")', True),
    "bytes": ('size(bytes("ä"))', 2),
    "type": ("type(1) == int", True),
    "dyn": ("dyn(1) == 1", True),
    "timestamp": (f"string({WHEN})", "2026-05-04T03:02:01.500Z"),
    "duration": ('string(duration("90s"))', "90s"),
    "getFullYear": (f"{WHEN}.getFullYear()", 2026),
    "getMonth": (f"{WHEN}.getMonth()", 4),
    "getDate": (f"{WHEN}.getDate()", 4),
    "getDayOfMonth": (f"{WHEN}.getDayOfMonth()", 3),
    "getDayOfYear": (f"{WHEN}.getDayOfYear()", 123),
    "getDayOfWeek": (f"{WHEN}.getDayOfWeek()", 1),
    "getHours": (f"{WHEN}.getHours()", 3),
    "getMinutes": (f"{WHEN}.getMinutes()", 2),
    "getSeconds": (f"{WHEN}.getSeconds()", 1),
    "getMilliseconds": (f"{WHEN}.getMilliseconds()", 500),
    "charAt": ('"abc".charAt(1)', "b"),
    "indexOf": ('"abcb".indexOf("b")', 1),
    "lastIndexOf": ('"abcb".lastIndexOf("b")', 3),
    "substring": ('"abcd".substring(1, 3)', "bc"),
    "trim": ('" a ".trim()', "a"),
    "split": ('"a,b".split(",")', ["a", "b"]),
    "join": ('inputs.list.join("+")', "a+b"),
    "replace": ('"a-b".replace("-", "+")', "a+b"),
    "format": ('"%s: %d, %.1f".format(["a", 1, 2.0])', "a: 1, 2.0"),
    "lowerAscii": ('"AbC".lowerAscii()', "abc"),
    "upperAscii": ('"AbC".upperAscii()', "ABC"),
    "reverse": ('"abc".reverse()', "cba"),
    "strings.quote": ("strings.quote('a\"b')", '"a\\"b"'),
    "math.greatest": ("math.greatest(1, 3, 2)", 3),
    "math.least": ("math.least([2, 1])", 1),
    "math.abs": ("math.abs(-2)", 2),
    "math.sign": ("math.sign(-2)", -1),
    "math.sqrt": ("math.sqrt(4.0)", 2.0),
    "math.ceil": ("math.ceil(1.2)", 2.0),
    "math.floor": ("math.floor(1.8)", 1.0),
    "math.round": ("math.round(1.5)", 2.0),
    "math.trunc": ("math.trunc(-1.8)", -1.0),
    "math.isFinite": ("math.isFinite(1.0)", True),
    "math.isInf": ("math.isInf(1.0 / 1.0)", False),
    "math.isNaN": ("math.isNaN(1.0)", False),
    "math.bitAnd": ("math.bitAnd(6, 3)", 2),
    "math.bitOr": ("math.bitOr(6, 3)", 7),
    "math.bitXor": ("math.bitXor(6, 3)", 5),
    "math.bitNot": ("math.bitNot(0)", -1),
    "math.bitShiftLeft": ("math.bitShiftLeft(1, 3)", 8),
    "math.bitShiftRight": ("math.bitShiftRight(8, 3)", 1),
    "base64.encode": ('base64.encode(bytes("abc"))', "YWJj"),
    "base64.decode": ('string(base64.decode("YWJj"))', "abc"),
}
# Of other extensions of CEL, by their documentation.
ABSENT = (
    *("[1].sort()", "[1].distinct()", "[1].slice(0, 1)", "[[1]].flatten()", "lists.range(3)", "[1].first()"),
    *("[1].last()", "[1].reverse()", "sets.contains([1], [1])", 'regex.replace("a", "b", "c")'),
    *("optional.of(1)", "cel.bind(x, 1, x)", '"a".lower()', '"a".now()', "now()"),
)


def value(text: str, **result: Any) -> Any:
    facts = {"s": StepFacts("done", result={"large": LARGE, "lines": "a 1\nb 2\n", **result})}
    context = Context({"text": "abc", "list": ["a", "b"]}, facts, DeviceFacts("lab-1"))
    return compile_expression(text, SCOPE).evaluate(context)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_of_the_list_is_there(name: str) -> None:
    text, expected = CALLS[name]
    assert value(text) == expected


@pytest.mark.parametrize("text", ABSENT)
def test_a_function_that_is_not_in_the_list_is_not_there(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text)


def test_the_readme_lists_every_function() -> None:
    [line] = [line for line in README.read_text().splitlines() if line.startswith("Functions: ")]
    assert re.findall(r"`([A-Za-z0-9_.]+)`", line.partition(" There is")[0]) == list(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs.text.trm()", "there is no function trm(); did you mean trim()?"),
        ("math.flor(1.5)", "there is no function math.flor(); did you mean math.floor()?"),
        ("inputs.list.sort()", "there is no function sort()"),
        ("trim(inputs.text)", "trim() is called behind the value that it takes, as in value.trim()"),
        ("foo.trim()", '"foo" is not known; an expression reads inputs, steps, device, and result in expect'),
    ],
)
def test_an_unknown_function_is_called_a_function(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as wrong:
        compile_expression(text, SCOPE)
    assert wrong.value.message == sentences(message)


def test_the_output_of_a_command_can_be_taken_apart() -> None:
    rows = 'steps.s.result.lines.trim().split("\\n")'
    assert value(f'{rows}.map(row, row.split(" ")[1])') == ["1", "2"]
    assert value(f'{rows}.filter(row, row.startsWith("b")).join(";")') == "b 2"
    assert value(f'{rows}.exists(row, row.split(" ")[1] == "2")') is True


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('steps.s.result.large.replace("a", steps.s.result.large)', "replace may make more than 33,554,432"),
        (
            'steps.s.result.large.replace("", "x" + "a" + "b" + "cdefghijklmnopqrstuvwxyz0123456789")',
            "replace",
        ),
        ("inputs.list.join(steps.s.result.large + steps.s.result.large)", "join may make more than"),
        ("'" + "a" * 200 + "'" + f".replace('a', '{'a' * 200}')" * 4, "replace may make more than"),
        ("strings.quote(" * 25 + "steps.s.result.large" + ")" * 25, "strings.quote may make more than"),
        ("steps.s.result.large.indexOf(steps.s.result.large)", "indexOf may search for a text of more than"),
        ('steps.s.result.large.split("a").map(x, x)', "900,001 pieces; map and filter take 1,000"),
        ('"%.1001f".format([1.0])', "precision"),
    ],
)
def test_what_could_fill_the_memory_or_take_minutes_is_refused_before(text: str, what: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        value(text)
    assert what in refused.value.message


def test_what_makes_little_of_a_large_text_is_evaluated() -> None:
    assert value('size(steps.s.result.large.replace("a", "bb"))') == 2 * len(LARGE)
    assert value('steps.s.result.large.indexOf("b")') == -1
