"""Lines that the records of programs judge more strictly than any list of names did before them.

Each is found by what the record of a program has in one place: an option that takes no further word, a name
that shares a record, a kind that a rule asks for.
"""

from __future__ import annotations

import pytest

from core.models.tools import Risk
from core.policy.analysis.shell.walk import findings_in_line, programs_in_line


@pytest.mark.parametrize(
    ("line", "risk", "text"),
    [
        # The option takes no further word: the next one is not its value.
        ("sudo --askpass rm -rf /", Risk.CRITICAL, "Deletes everything in /"),
        ("sudo --askpass=/tmp/x ls", Risk.HIGH, "Runs a program that the option --askpass names"),
        ("tar --checkpoint -cf /srv/x y", Risk.MEDIUM, "Overwrites /srv/x if it exists"),
        ("mysql --pager -e 'drop table t'", Risk.CRITICAL, "Drops a table"),
        ("man -H/tmp/x ls", Risk.HIGH, "Runs a program that the option -H names"),
        # The option takes one: it is not an operand.
        ("screen -Logfile /srv/x rm -rf /", Risk.CRITICAL, "Deletes everything in /"),
        ("zip a b -TT 'rm -rf ~'", Risk.CRITICAL, "Deletes everything in ~"),
        ("zip a b -TT 'rm -rf ~'", Risk.MEDIUM, "Overwrites a if it exists"),
        # The name shares the record of another program, with all that it does.
        ("slogin host 'rm -rf /'", Risk.CRITICAL, "Deletes everything in /"),
        ("aptitude install x", Risk.MEDIUM, "May install or remove programs"),
        ("oc delete pod x", Risk.HIGH, "Removes containers or resources, or gives them all rights"),
        ("k3s kubectl delete pod x", Risk.HIGH, "Removes containers or resources, or gives them all rights"),
        ("crictl rm x", Risk.HIGH, "Removes containers or resources, or gives them all rights"),
        ("crictl run -v /:/x img", Risk.CRITICAL, "Gives a container the files of this computer"),
        ("incus delete x", Risk.HIGH, "Removes containers or resources, or gives them all rights"),
        ("micromamba install x", Risk.MEDIUM, "May install or remove programs"),
        ("neomutt -s x you@far", Risk.MEDIUM, "Sends mail over the network"),
        ("rrsync --delete a b", Risk.HIGH, "Deletes what is not at the source"),
        ("star -cf /srv/x y", Risk.MEDIUM, "Overwrites /srv/x if it exists"),
        ("clang -o /etc/x y.c", Risk.HIGH, "Writes under /etc"),
        ("7za e x -y", Risk.MEDIUM, "Replaces files of the same name where it unpacks"),
        # The rule asks for a kind.
        ('skill "$X"', Risk.HIGH, "Which process it ends is only known when it runs"),
        ('xkill "$X"', Risk.HIGH, "Which process it ends is only known when it runs"),
        ("killall -F /tmp/x", Risk.HIGH, "Which process it ends is read from a file when it runs"),
        ("ls | xargs skill", Risk.HIGH, "Which process it ends comes from another command"),
        ("ls | parallel srm", Risk.HIGH, "What is deleted comes from another command"),
        ("nc -lec sh", Risk.HIGH, "Waits for connections from others"),
        ("nc -lec sh", Risk.CRITICAL, "Gives a program to the other end of a connection"),
        ("cp --update=none-fail a b", Risk.MEDIUM, "Replaces b if it exists"),
        # A line's end in an argument hides nothing from a pattern.
        ("vim '+!id\n' f", Risk.HIGH, "May run commands from inside another program"),
        ("alias 'll=ls\nid'", Risk.MEDIUM, "Gives a command another meaning"),
        ("systemctl restart 'a\nb'", Risk.HIGH, "Starts, stops or restarts services"),
        ("mount -l 'a\nb'", Risk.HIGH, "Mounts or unmounts disks"),
    ],
)
def test_a_line_is_judged_by_the_whole_record(line: str, risk: Risk, text: str):
    findings = findings_in_line(line, "command")
    assert (text, risk) in {(one.text, one.risk) for one in findings}


@pytest.mark.parametrize(
    "line", ["cp -n a b", "cp --update=none a b", "ln a b", "install -d a b", "rsync -n a b"]
)
def test_a_call_that_keeps_files_replaces_none(line: str):
    assert not [one for one in findings_in_line(line, "command") if one.text.startswith("Replaces")]


def test_a_version_behind_a_name_is_no_other_program():
    assert programs_in_line("cc-12 x.c").names == {("cc-12", "cc")}
    assert programs_in_line("mkfs.ext4 /dev/sda").names == {("mkfs.ext4",)}


@pytest.mark.parametrize("name", ["rbash", "bash5", "BASH.exe", "gvim", "gtar", "star", "slogin", "rrsync"])
def test_only_the_usual_names_are_usual_in_a_variable_that_names_a_program(name: str):
    """Another name of the same program may be anyone's file."""
    text = "Sets EDITOR, which decides what programs run"
    assert (text, Risk.MEDIUM) in {
        (one.text, one.risk) for one in findings_in_line(f"EDITOR={name} git commit", "command")
    }
    assert text not in {one.text for one in findings_in_line("EDITOR=bash git commit", "command")}
