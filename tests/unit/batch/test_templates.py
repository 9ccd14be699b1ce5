"""Expressions in arguments: text in shell lines is data, secrets and unquoted texts are known by place."""

import json
from typing import Any

import pytest

from core.batch.batch_file import read_batch
from core.batch.expressions import Context, DeviceFacts, ExpressionError
from core.batch.templates import FilledArguments, compile_batch
from core.errors import BadInput

HEAD = """name: x
inputs:
  a: {type: string, default: a}
  n: {type: integer, default: 5}
  s: {type: string, secret: true}
steps:
"""
NASTY = "x'; id; echo '"


def filled(
    argument: str,
    tool: str = "shell_execute",
    name: str = "command",
    platform: str = "linux",
    described: frozenset[str] = frozenset(),
    **inputs: Any,
) -> FilledArguments:
    written = argument if argument[:1] in '["' else json.dumps(argument)
    text = f"{HEAD}  - id: one\n    tool: {tool}\n    with:\n      {name}: {written}\n"
    [step] = compile_batch(read_batch(text, "b.yaml")).values()
    assert step.arguments is not None
    values = {"a": "a", "n": 5, "s": "tr0ub4dor", **inputs}
    context = Context(values, {}, DeviceFacts("lab-1", (), platform))
    return step.arguments.fill(context, (values["s"],), described)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("echo ${{ inputs.a }}", "echo 'x'\\''; id; echo '\\'''"),
        ("echo '${{ inputs.a }}'", "echo 'x'\\''; id; echo '\\'''"),
        ('echo \\"${{ inputs.a }}\\"', "echo \"x'; id; echo '\""),
        ("head -n ${{ inputs.n }} f", "head -n 5 f"),
        ("echo --x=${{ inputs.n }}", "echo --x='5'"),
        ("echo ${{ raw(inputs.a) }}", f"echo {NASTY}"),
        ("echo ${{ raw( inputs.a + ' (b)' ) }}", f"echo {NASTY} (b)"),
        ("${{ inputs.a }}", NASTY),
    ],
)
def test_text_in_a_shell_line_is_data_for_its_place(line: str, made: str):
    assert filled(f'"{line}"', a=NASTY).parameters == {"command": made}


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("EXEC_CLI", "command"),
        ("execute_command", "command"),
        ("run_command", "command"),
        ("bash", "script"),
        ("docker_exec", "cmd"),
    ],
)
def test_a_shell_line_is_known_by_the_names_of_tool_and_argument(tool: str, name: str):
    assert filled("echo ${{ inputs.a }}", tool, name, a="a b").parameters == {name: "echo 'a b'"}


def test_a_shell_line_is_known_by_the_schema_of_the_tool():
    line = "echo ${{ inputs.a }}"
    assert filled(line, "do_it", "what", a="a b").parameters == {"what": "echo a b"}
    described = frozenset({"what"})
    assert filled(line, "do_it", "what", a="a b", described=described).parameters == {"what": "echo 'a b'"}


def test_words_of_a_list_and_other_texts_are_inserted_as_they_are():
    assert filled("['${{ inputs.a }} c', b]", name="args", a="a b").parameters == {"args": ["a b c", "b"]}
    lines = filled("['echo ${{ inputs.a }}']", "run_commands", "commands", a="a b")
    assert lines.parameters == {"commands": ["echo 'a b'"]}


def test_what_is_inserted_unquoted_is_known_by_its_place():
    made = filled("echo ${{ raw(inputs.a) }} ${{ inputs.a }}", a="x; y")
    assert made.parameters == {"command": "echo x; y 'x; y'"}
    assert made.unquoted == {("command",): ((5, 9),)}
    assert not made.secret


def test_how_a_text_is_quoted_depends_on_the_unquoted_text_before_it():
    with pytest.raises(ExpressionError, match="cannot be inserted"):
        filled("echo ${{ raw(inputs.a) }} ${{ inputs.n }}", a="<<E")


def test_a_secret_is_one_quoted_word_of_which_the_place_is_known():
    made = filled("curl -H 'X-Token: ${{ inputs.s }}' -u ${{ inputs.s }}")
    assert made.parameters["command"] == "curl -H 'X-Token: tr0ub4dor' -u 'tr0ub4dor'"
    assert made.secret == {("command",): ((18, 27), (33, 42))}
    quoted = filled("echo ${{ inputs.s }}", s="it's it")
    [(start, end)] = quoted.secret[("command",)]
    assert quoted.parameters["command"][start:end] == "it'\\''s it"
    assert filled("${{ inputs.s }}", "write_file", "file_path").secret == {("file_path",): ()}
    assert filled("/srv/${{ inputs.s }}", "write_file", "file_path").secret == {("file_path",): ((5, 14),)}


def test_only_what_expressions_insert_is_hidden_and_no_text_of_the_batch():
    made = filled("echo tr0ub4dor ${{ inputs.a }} ${{ inputs.s }}", a="a tr0ub4dor")
    line = made.parameters["command"]
    assert [line[start:end] for start, end in made.secret[("command",)]] == ["tr0ub4dor"] * 2
    assert made.secret[("command",)][0][0] > line.index("'")


def test_a_line_that_is_another_inputs_value_holds_no_secret():
    for line in ("${{ inputs.a }}", "echo ${{ raw(inputs.a) }}"):
        with pytest.raises(ExpressionError, match="one quoted word"):
            filled(line, a="echo tr0ub4dor")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bash -c 'ls ${{ inputs.a }}'", "another shell"),
        ("cat <<E\\n${{ inputs.a }}\\nE", "here-document"),
        ("${{ inputs.a }} --version", "name of the program"),
        ("${{ inputs.s }}", "one quoted word"),
        ("echo ${{ raw(inputs.s) }}", "raw"),
    ],
)
def test_a_file_with_a_place_that_is_not_safe_is_refused_with_the_line_and_the_advice(line: str, why: str):
    text = f'{HEAD}  - id: one\n    tool: shell_execute\n    with: {{command: "{line}"}}\n'
    with pytest.raises(BadInput) as refused:
        read_batch(text, "b.yaml")
    assert refused.value.message.startswith("b.yaml:9:")
    assert why in refused.value.message
    assert "inputs.s" in line or "env:" in refused.value.message


@pytest.mark.parametrize(("tool", "platform"), [("run_powershell", "linux"), ("cmd_run", "linux")])
def test_in_other_shells_no_text_is_inserted_but_a_raw_one(tool: str, platform: str):
    with pytest.raises(BadInput, match="PowerShell"):
        filled("echo ${{ inputs.a }}", tool)
    assert filled("echo ${{ raw(inputs.a) }}", tool).parameters == {"command": "echo a"}


def test_on_a_device_with_windows_no_text_is_inserted_but_a_raw_one():
    for platform in ("windows", "win32"):
        with pytest.raises(ExpressionError, match="PowerShell"):
            filled("echo ${{ inputs.a }}", platform=platform)
        assert filled("echo ${{ raw(inputs.a) }}", platform=platform).parameters == {"command": "echo a"}
