"""Batches as YAML and JSON text."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from core.batch.batch_file import LARGEST, batch_to_yaml, read_batch
from core.batch.models import Batch, Parallel, Rollout, Step, flatten
from core.batch.yaml_reader import resolve
from core.device.build import build_router
from core.device.config import DeviceConfig
from core.errors import BadInput, ErrorCode
from core.schema_forms.validator import ThreadedValidator
from tests.fakes.run_size import examples

EXAMPLES = sorted((Path(__file__).parents[3] / "resources" / "batches").glob("*.yaml"))
HEAD = "name: x\nsteps:\n  - {id: a, tool: t}\n"


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read_batch(text, "b.yaml")
    return caught.value.message.split("\n")


def arguments(text: str) -> dict[str, Any]:
    (step,) = flatten(read_batch(f"name: x\nsteps:\n  - id: a\n    tool: t\n    with:\n{text}", "b").steps)
    return step.parameters


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_a_batch_that_survives_being_written(path: Path) -> None:
    batch = read_batch(path.read_text(encoding="utf-8"), path.name)
    assert read_batch(batch_to_yaml(batch), "again") == batch
    assert batch.description


async def test_the_examples_call_real_tools_with_arguments_that_these_accept(tmp_path: Path) -> None:
    router = build_router(DeviceConfig(), tmp_path, "this-computer")
    schemas = {tool.tool_name: tool.input_schema for tool in router.tools()}
    missing = {one.tool for one in router.unavailable}
    await router.close()
    for path in EXAMPLES:
        for step in flatten(read_batch(path.read_text(encoding="utf-8"), path.name).steps):
            if step.tool in missing:
                continue  # this machine has no screen; what the tool accepts is tested where it has one
            found = await ThreadedValidator().errors(schemas[step.tool], step.parameters, "")
            assert found == [], f"{path.name}: {step.id}"


def test_the_first_steps_are_a_reading_a_picture_and_a_shell_line() -> None:
    assert {"first-steps", "look-at-this-computer"} <= {path.stem for path in EXAMPLES}
    path = next(path for path in EXAMPLES if path.stem == "first-steps")
    steps = flatten(read_batch(path.read_text(encoding="utf-8"), path.name).steps)
    assert [step.tool for step in steps] == ["get_system_info", "screenshot", "shell_execute"]


def test_json_and_yaml_say_the_same() -> None:
    data = {
        "format": "quarterdeck.batch/1",
        "name": 'Räume\t"auf" 😀',
        "steps": [
            {"parallel": [{"id": "a", "tool": "t", "with": {"n": 1.5, "b": [True, None, {}], "s": "x:\\ny"}}]}
        ],
    }
    batch = read_batch(json.dumps(data, indent="\t"), "b.json")
    assert batch == Batch.model_validate(data)
    assert read_batch(json.dumps(data), "b.json") == batch
    assert read_batch("\ufeff" + json.dumps(data, ensure_ascii=False), "b.json") == batch


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2001-01-01", "2001-01-01"),
        ("0b1", "0b1"),
        ("0o17", 15),
        ("0x1f", 31),
        ("1e3", 1000.0),
        ("-0.5", -0.5),
        ("7", 7),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ('"7"', "7"),
        ("'true'", "true"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("-", "-"),
    ],
)
def test_a_value_means_what_yaml_1_2_says(written: str, meant: object) -> None:
    if written == "-":
        assert resolve(written) == meant
        return
    value = arguments(f"      v: {written}\n")["v"]
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize("written", ["012", "-007", ".inf", "-.INF", ".nan", "1e999", "1" * 500])
def test_a_number_that_two_readers_would_read_differently_is_a_mistake(written: str) -> None:
    (line,) = mistakes(f"name: x\nsteps:\n  - id: a\n    tool: t\n    with:\n      v: {written}\n")
    assert line.startswith("b.yaml:6:10: ")


def test_keys_that_yaml_1_1_would_change_stay_texts() -> None:
    assert arguments("      on: 1\n      no: 2\n      y: 3\n") == {"on": 1, "no": 2, "y": 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "1:1: there is nothing in it"),
        ("# only words\n", "1:1: there is nothing in it"),
        ("- a\n", "1:1: a batch is a set of key: value lines; allowed format, name"),
        ("just text", "1:1: a batch is a set"),
        ("name: x\n", "1:1: steps is missing"),
        ("name: x\nsteps: []\n", "2:8: steps is an empty list"),
        ("name: x\nsteps: 3\n", "2:8: steps is not a list"),
        ("name: 3\nsteps:\n  - {id: a, tool: t}\n", "1:7: name is not a text"),
        ('name: ""\nsteps:\n  - {id: a, tool: t}\n', "1:7: name is empty"),
        (
            HEAD + "colour: red\n",
            '4:1: a batch has no key "colour"; allowed format, name, description, targets',
        ),
        (HEAD + "name: y\n", '4:1: the key "name" stands here a second time; the first is in line 1'),
        (HEAD + "on_failure: halt\n", "4:13: on_failure is not known; allowed stop or continue"),
        (HEAD + "format: quarterdeck.batch/9\n", "4:9: format is not known; allowed quarterdeck.batch/1"),
        (HEAD + "rollout: {parallel: 0}\n", "4:21: parallel is out of range; allowed at least 1"),
        (HEAD + "rollout: {parallel: 1.5}\n", "4:21: parallel is not a whole number"),
        (HEAD + "rollout: {canari: 1}\n", '4:11: rollout has no key "canari"; allowed parallel, canary'),
        (HEAD + "rollout: 5\n", "4:10: rollout is not a set"),
        (HEAD + "targets: colour:red\n", '4:10: targets: Column 1: there is no field "colour"'),
        ("name: x\nsteps:\n  - tool: t\n", "3:5: id is missing"),
        ("name: x\nsteps:\n  - {id: 1a, tool: t}\n", "3:10: id is not an id; allowed are letters"),
        (
            "name: x\nsteps:\n  - {id: a, tool: t, timeout: 0}\n",
            "3:31: timeout is out of range; allowed above 0",
        ),
        (
            "name: x\nsteps:\n  - {id: a, tool: t, timeout: '5'}\n",
            "3:31: timeout is not a number of seconds, such as 1; allowed above 0, at most 86400",
        ),
        (
            "name: x\nsteps:\n  - {id: a, tool: t, retry: {times: 2, backoff: 1s}}\n",
            "3:49: backoff is not a number of seconds, such as 1; allowed at least 0, at most 3600",
        ),
        (
            "name: x\nsteps:\n  - {id: a, tool: t, enabled: on}\n",
            "3:31: enabled is not a yes or no; allowed true",
        ),
        ("name: x\nsteps:\n  - {id: a, tool: t, with: [1]}\n", "3:28: with is not a set of key: value lines"),
        (
            "name: x\nsteps:\n  - {id: a, tool: t, parameters: {}}\n",
            '3:22: a step has no key "parameters"; allowed',
        ),
        (
            "name: x\nsteps:\n  - {id: a, tool: t}\n  - {id: a, tool: t}\n",
            '4:10: two steps have the id "a"; the first',
        ),
        ("name: x\nsteps:\n  - t\n", "3:5: a step is a set of key: value lines; allowed id, tool, with"),
        ("name: x\nsteps:\n  - parallel: []\n", "3:15: parallel is not a list of steps"),
        ("name: x\nsteps:\n  - parallel: [{parallel: []}]\n", "3:17: a parallel group cannot stand inside"),
        (
            "name: x\nsteps:\n  - parallel: [{id: a, tool: t}]\n    id: g\n",
            '4:5: a parallel group has no key "id"',
        ),
        ("name: x\n\tsteps: 1\n", "2:1: a tab stands where YAML wants spaces"),
        ("name: x\nsteps:\n\t- a\n", "3:1: a tab stands"),
        ("name: 'x\n", ":"),
        ("name: &a x\nsteps: *a\n", 'aliases such as "*a" are not allowed'),
        (
            "name: !!python/object:os.system x\nsteps: []",
            '1:7: tags such as "tag:yaml.org,2002:python/object',
        ),
        ("name: x\n---\nname: y\n", "2:1: a second document begins here"),
        ("? [a]\n: b\n", "1:3: a key is a text"),
        ("1: b\n", "1:1: a key is a text, 1 is not"),
        ("<<: {name: x}\n", "1:1: merging with << is not allowed"),
        ("name: x\x07\n", "1:8: the character #x0007 is not allowed"),
        ("a: " + "[" * 100, "1:43: nested too deeply; allowed are 40 levels"),
        ("a: " * 3, "not YAML"),
        ('{"name": "x", "name": "y"}', '1:15: the key "name" stands here a second time'),
        ('{\n "name": 3,\n "steps": []}', "2:10: name is not a text"),
        (
            '{"name": "x", "steps": [{"id": "a", "tool": "t", "with": {"n": 1e999}}]}',
            "1:64: 1e999 is too large",
        ),
        ('{"name": NaN}', ":"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("name: \ud800\n", "1:1: the text is not Unicode"),
    ],
)
def test_a_mistake_is_named_by_line_and_column_with_what_is_allowed(text: str, line: str) -> None:
    found = mistakes(text)
    assert any(line in one for one in found), found
    assert all(one.startswith("b.yaml:") for one in found)


def test_all_mistakes_are_named_at_once_in_the_order_of_the_file() -> None:
    text = "name: 3\ncolour: red\nsteps:\n  - {id: a, tool: 4}\n  - {id: a, toool: t}\n"
    text += "  - parallel:\n      - {id: b}\n"
    assert [one.split(": ", 1)[0] + ": " + one.split(": ", 1)[1][:28] for one in mistakes(text)] == [
        "b.yaml:1:7: name is not a text; put it i",
        'b.yaml:2:1: a batch has no key "colour";',
        "b.yaml:4:19: tool is not a text; put it i",
        "b.yaml:5:5: tool is missing",
        'b.yaml:5:10: two steps have the id "a"; t',
        'b.yaml:5:13: a step has no key "toool"; a',
        "b.yaml:7:9: tool is missing",
    ]


def test_a_thousand_mistakes_are_cut_and_counted() -> None:
    found = mistakes("name: x\nsteps:\n" + "  - {id: a}\n" * 500)
    assert len(found) == 51
    assert found[-1].endswith("more")


def test_a_file_over_a_mebibyte_is_refused_and_one_just_below_is_read() -> None:
    with pytest.raises(BadInput, match="allowed are 1,048,576") as caught:
        read_batch("é" * (LARGEST // 2 + 1), "b")
    assert caught.value.code is ErrorCode.TOO_LARGE
    step = "  - {id: a%d, tool: t, with: {a: [1, 2, 3], b: text}}\n"
    text = "name: x\nsteps:\n" + "".join(step % number for number in range(17_000))
    assert len(text) < LARGEST
    assert len(read_batch(text, "b").steps) == 17_000


def test_texts_of_several_lines_are_written_as_blocks_and_defaults_left_out() -> None:
    step = Step(
        id="w", tool="write_file", parameters={"content": "one\n  two\n\nthree\n", "file_path": "/tmp/x y"}
    )
    assert batch_to_yaml(
        Batch(name="Write: it", steps=[step, Parallel(parallel=[Step(id="s", tool="t")])])
    ) == (
        "format: quarterdeck.batch/1\n"
        'name: "Write: it"\n'
        "steps:\n"
        "  - id: w\n"
        "    tool: write_file\n"
        "    with:\n"
        "      content: |\n"
        "        one\n"
        "          two\n"
        "\n"
        "        three\n"
        "      file_path: /tmp/x y\n"
        "  - parallel:\n"
        "      - id: s\n"
        "        tool: t\n"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1: 2}, {1, 2}, b"x"])
def test_what_no_file_can_hold_is_refused_instead_of_changed(value: object) -> None:
    step = Step.model_construct(id="a", tool="t", parameters={"v": value}, timeout=None, enabled=True)
    with pytest.raises(BadInput):
        batch_to_yaml(Batch.model_construct(name="x", steps=[step]))


def test_an_argument_nested_too_deeply_is_refused_when_written() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    with pytest.raises(BadInput, match="deeply"):
        batch_to_yaml(Batch(name="x", steps=[Step(id="a", tool="t", parameters={"v": deep})]))


TEXT = st.text(max_size=12) | st.text(alphabet=" \n\t-:#'\"|>\\ab\r\x85\u2028\ufeff", max_size=12)
TEXT |= st.sampled_from(
    ["on", "No", "~", "012", "1:30", "0o7", "1e3", "<<", "=", "...", "---", "a\n---\nb\n", "\n"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
IDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    ids = draw(st.lists(IDS, min_size=1, max_size=5, unique=True))

    def step(name: str) -> Step:
        return Step(
            id=name,
            tool=draw(TEXT.filter(bool)),
            parameters=draw(st.dictionaries(TEXT, JSON, max_size=3)),
            timeout=draw(st.none() | st.floats(0.001, 86_400)),
            enabled=draw(st.booleans()),
        )

    steps = [step(name) if draw(st.booleans()) else Parallel(parallel=[step(name)]) for name in ids]
    return Batch(
        name=draw(TEXT.filter(bool)),
        description=draw(TEXT),
        targets=draw(st.sampled_from(["", "name:this-computer", 'tag:"a b" !name:db-*'])),
        on_failure=draw(st.sampled_from(["stop", "continue"])),
        rollout=Rollout(parallel=draw(st.integers(1, 1000))),
        steps=steps,
    )


def exact(value: Any) -> str:
    """Tells 1 from 1.0 and from True, which `==` does not."""
    return repr(value)


@settings(max_examples=examples(300))
@given(batches())
def test_a_written_batch_reads_back_exactly_as_it_was(batch: Batch) -> None:
    text = batch_to_yaml(batch)
    again = read_batch(text, "b")
    assert again == batch
    assert exact(again) == exact(batch)


@settings(max_examples=examples(100))
@given(batches())
def test_a_written_batch_means_the_same_to_a_yaml_1_1_reader(batch: Batch) -> None:
    plain = yaml.safe_load(batch_to_yaml(batch))
    assert plain["name"] == batch.name
    assert plain.get("description", "") == batch.description
    first = flatten(batch.steps)[0]
    loaded = plain["steps"][0]
    loaded = loaded["parallel"][0] if "parallel" in loaded else loaded
    assert list(loaded.get("with", {})) == list(first.parameters)


@settings(max_examples=examples(200))
@given(batches())
def test_a_batch_as_json_reads_back_exactly_as_it_was(batch: Batch) -> None:
    text = json.dumps(batch.model_dump(mode="json", by_alias=True), indent=1)
    assert exact(read_batch(text, "b")) == exact(batch)


@settings(max_examples=examples(300))
@given(st.text(max_size=60) | st.text(alphabet="name:steps -[]{}'\"\n\t#&*!|>?%@", max_size=60))
def test_any_text_is_a_batch_or_a_named_mistake(text: str) -> None:
    with contextlib.suppress(BadInput):
        read_batch(text, "b")


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ("{type: string, default: 1.10}", "the default of ver is not of type string"),
        ("{type: integer, default: yes}", "the default of ver is not of type integer"),
        ("{type: object, default: null}", "the default of ver is not of type object"),
        ("{type: string, default: c, one_of: [a, b]}", "the default of ver is not one of a, b"),
    ],
)
def test_a_default_that_is_no_value_of_its_input_is_found_when_the_file_is_read(declared: str, what: str):
    with pytest.raises(BadInput) as refused:
        read_batch(f"name: x\ninputs:\n  ver: {declared}\nsteps:\n  - {{id: a, tool: t}}\n", "x.yaml")
    assert refused.value.message.startswith("x.yaml:3:")
    assert what in refused.value.message
