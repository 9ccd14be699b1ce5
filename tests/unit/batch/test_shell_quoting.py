"""Text in a shell line is data: a real shell reads exactly the text, at every place that is not refused."""

import shutil
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.batch.shell_quoting import Place, UnsafePlace, places_in, quoted

BASH = shutil.which("bash") or "bash"
# A program that prints its arguments, each with a NUL behind it.
DUMP = "printf '%s\\0'"
# The text around each place, and around it the words that a shell has to see.
AROUND = [
    (" ", "", "", ""),
    (" '", "'", "", ""),
    (' "', '"', "", ""),
    (" --name=", "", "--name=", ""),
    (" a", "b", "a", "b"),
    (" 'a b ", " c'", "a b ", " c"),
    (' "$HOME/', ' ${A}"', "/root/", " "),
    (' "a\\"', '\\$"', 'a"', "$"),
    (" \\$", "\\'", "$", "'"),
    (' "$(printf %s ', ')"', "", ""),
    (' "$(printf %s "', '")"', "", ""),
    (" \"$(printf %s '", "')\"", "", ""),
    (" $'\\t'", "", "\t", ""),
    (' ""', "''", "", ""),
]
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NASTY = st.lists(
    st.sampled_from(
        [
            "'",
            '"',
            "$",
            "`",
            "\\",
            "\n",
            "!",
            "(",
            ")",
            "$(id)",
            "`id`",
            "${A}",
            ";",
            "&",
            "#",
            " ",
            "-",
            "~",
            "*",
            "{a,b}",
            "'\\''",
            "\\\\",
            "a",
            "$HOME",
            "\r",
            "\t",
            "é",
            "if",
            "done",
        ]
    ),
    max_size=8,
).map("".join)


def seen_by(shell: str, line: str) -> list[str]:
    """The arguments that the program gets if a shell runs the line."""
    ran = subprocess.run(
        [shell, "-c", line], stdin=subprocess.DEVNULL, capture_output=True, env={"HOME": "/root"}, check=True
    )
    assert ran.stderr == b"", line
    return ran.stdout.decode("utf-8").split("\0")[:-1]


@pytest.mark.parametrize("shell", ["bash", "sh"])
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(AROUND), TEXTS | NASTY, st.booleans()), min_size=1, max_size=4),
)
def test_a_shell_sees_exactly_the_text_at_every_place(
    shell: str, parts: list[tuple[tuple[str, str, str, str], str, bool]]
):
    literals, expected = [DUMP], []
    for (before, after, left, right), text, _ in parts:
        if "$(" in before:
            # A command's output loses its last line ends, whatever they came from.
            text = text.rstrip("\n")
        literals[-1] += before
        literals.append(after)
        expected.append(left + text + right)
    places = places_in(tuple(literals))
    line = literals[0]
    for place, literal, (around, text, always) in zip(places, literals[1:], parts, strict=True):
        inserted = quoted(text.rstrip("\n") if "$(" in around[0] else text, place, always=always)
        line += inserted.text + literal
    if shell == "sh" and "$'" in line:
        return
    assert seen_by(shell, line) == expected


LITERALS = st.lists(
    st.sampled_from(
        [
            " ",
            "'",
            '"',
            "\\",
            "$",
            "`",
            "(",
            ")",
            "{",
            "}",
            "\n",
            ";",
            "#",
            "a",
            "$(",
            "<<",
            "<",
            ">",
            "&",
            "|",
            "[[ ",
            " ]]",
            "-eq",
            "case ",
            " in ",
            "$'",
            '$"',
            "${A",
            "\\\n",
            "((",
            "[",
            "!",
            "echo ",
            "=",
            "EOF\n",
            "x",
        ]
    ),
    max_size=7,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(LITERALS, LITERALS, NASTY)
def test_whatever_the_line_is_no_text_becomes_a_command(before: str, after: str, text: str):
    """The text around the place is any; the text in it would run a command if it were not data."""
    literals = [f"echo {before}", after]
    try:
        [place] = places_in(tuple(literals))
    except UnsafePlace:
        return
    mark = "QD_RAN_IT"
    run = f"echo {mark}>&2"
    attacks = [
        f"$({run})",
        f"`{run}`",
        f"'; {run}; '",
        f'"; {run}; "',
        f"\n {run}\n",
        f"x[$({run})]",
        f"); {run}; (",
        f"}}; {run}; {{",
        f"\\'; {run}; \\'",
    ]
    for attack in (text + attack for attack in attacks):
        line = literals[0] + quoted(attack, place).text + literals[1]
        # Redirections of the line write their files there.
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [BASH, "--norc", "-c", line],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={"PATH": "/nowhere"},
                check=False,
            )
        said = ran.stderr.decode("utf-8", "replace")
        # An error message of the shell may quote the text, on a line that names the shell.
        assert not any(part == mark for part in said.split("\n")), line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cat <<EOF\n@\nEOF", "here-document"),
        ("echo `ls @`", "backquotes"),
        ("echo $((1 + @))", "((…))"),
        ("((x = @))", "((…))"),
        ("echo $[@]", "[…]"),
        ("echo ${A:-@}", "${…}"),
        ("echo hello # @", "comment"),
        ("echo $'@'", "$'…'"),
        ('echo $"@"', '$"…"'),
        ("echo \\@", "backslash"),
        ('echo "\\@"', "backslash"),
        ("echo $@", "dollar"),
        ('echo "$@"', "dollar"),
        ('echo "$NAME@"', "${NAME}"),
        ("a[@]=1", "index"),
        ("[[ 0 -eq @ ]]", "calculates"),
        ('[[ "@" -eq 0 ]]', "calculates"),
        ("let x=@", "let"),
        ("unset @", "unset"),
        ("printf -v @ x", "printf"),
        ("test -v @", "test"),
        ("declare @=1", "declare"),
        ("bash -c 'ls @'", "another shell"),
        ('sh -c "ls @"', "another shell"),
        ("ssh host 'ls @'", "another shell"),
        ("eval @", "another shell"),
        ("echo @ | sh", "another shell"),
        ("find . -exec sh -c 'ls @' \\;", "another shell"),
        ("python3 -c 'print(@)'", "python"),
        ("awk '{print @}' f", "awk"),
        ("sed 's/a/@/' f", "sed"),
        ("psql -c \"select '@'\"", "psql"),
        ("@ --version", "name of the program"),
        ("sudo @", "name of the program"),
        ("ls; @", "name of the program"),
        ("echo $(case x in x) echo @;; esac)", "case"),
        ("echo 'not closed @", "not closed"),
        ("echo $(ls; echo @", "certainty"),
        ("cat <<EOF; echo @\nEOF", "here-document"),
        ("echo >&@", ">&"),
        ("echo 2>& '@'", ">&"),
        ('cat <&"@"', ">&"),
    ],
)
def test_a_place_where_no_quoting_is_safe_is_refused_with_the_reason(line: str, why: str):
    with pytest.raises(UnsafePlace) as refused:
        places_in(tuple(line.split("@")))
    assert why in refused.value.why


def test_a_plain_word_between_blanks_needs_no_quotes_and_a_secret_always_has_them():
    assert quoted("nginx", Place.ALONE).text == "nginx"
    assert quoted("nginx", Place.WORD).text == "'nginx'"
    secret = quoted("nginx", Place.ALONE, always=True)
    assert (secret.text, secret.span) == ("'nginx'", (1, 6))
    assert quoted("", Place.ALONE).text == "''"
