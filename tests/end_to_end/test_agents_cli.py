"""`quarterdeck agents` and `quarterdeck gateway`, as an operator types them."""

from __future__ import annotations

from pathlib import Path

from core.home import Home
from tests.fakes.program import run
from tests.fakes.service_process import served


def test_agents_are_added_set_and_revoked_at_a_terminal(home: Home, tmp_path: Path):
    home.create()
    with served(home):
        added = run(home, "--json", "agents", "add", "clerk", "--targets", "tag:lab", "--waiting", "3")
        assert added.code == 0, added
        token = added.json["token"]
        assert token.startswith("clerk.")
        listed = run(home, "--json", "agents", "list")
        [agent] = listed.json["agents"]
        assert (agent["settings"]["targets"], agent["settings"]["waiting"]) == ("tag:lab", 3)
        assert token not in listed.out
        assert "tag:lab" in run(home, "agents", "list").out
        for words, paused, profile in (
            (("pause", "clerk"), True, "guarded"),
            (("set", "clerk", "--profile", "observe"), True, "observe"),
            (("resume", "clerk"), False, "observe"),
            (("stop", "clerk"), True, "observe"),
        ):
            assert run(home, "agents", *words).code == 0
            [agent] = run(home, "--json", "agents", "list").json["agents"]
            assert (agent["settings"]["paused"], agent["settings"]["profile"]) == (paused, profile)
        assert (agent["connections"], agent["tally"]) == ([], {"asked": 0, "given": 0, "denied": 0})
        assert "paused, not connected" in run(home, "agents", "list").out
        assert run(home, "--json", "agents", "show", "clerk").json == {"commands": [], "next_before": None}
        assert "has asked for nothing yet" in run(home, "agents", "show", "clerk").out
        # Its standard input is at its end at once: it serves nothing, but the token was good.
        file = tmp_path / "token"
        file.write_text(token)
        file.chmod(0o600)
        assert run(home, "gateway", "--as", "clerk", "--token-file", str(file)).code == 0
        assert run(home, "agents", "revoke", "clerk").code == 0
        revoked = run(home, "gateway", "--as", "clerk", "--token-file", str(file))
        assert (revoked.code, token in revoked.out + revoked.err) == (3, False)
        assert run(home, "--json", "agents", "list").json == {"agents": []}


def test_what_cannot_be_served_is_said(home: Home, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("other.token")
    file.chmod(0o600)
    for words in (
        ("gateway",),
        ("gateway", "--as", "clerk", "--http", "127.0.0.1:0"),
        ("gateway", "--as", "clerk", "--token-file", str(tmp_path / "none")),
        ("gateway", "--as", "clerk", "--token-file", str(file)),
        ("gateway", "--http", "0.0.0.0:0"),
        ("agents", "add", "clerk", "--targets", "nosuch:field"),
        ("agents", "set", "clerk", "--waiting", "0"),
    ):
        ended = run(home, *words)
        assert ended.code == 2, words
        assert ended.err, words
