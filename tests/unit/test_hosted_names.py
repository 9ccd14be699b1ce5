"""Names of hosted tools: what decides them, and that no two tools can share one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.hosted_names import listed_name, own_name, prefixes_of

PARTS = st.sampled_from(["a", "b", "a_b", "b_c", "c", "a.b", "b.c", "_", "a_", "_c", "a-2", "2"])
TOOLS = st.lists(PARTS, min_size=1, max_size=3).map("_".join)
SERVERS = st.sampled_from(["a", "a_b", "a b", "a/b", "a.b", "a_b-2", "b", "A", "_", "日", "日本"])


def names_of(servers: list[str], tools: list[str], taken: set[str]) -> dict[tuple[str, str], str]:
    prefixes = prefixes_of(servers)
    return {
        (server, tool): listed_name(prefixes[server], tool, prefixes.values(), taken)
        for server in servers
        for tool in tools
    }


def test_a_tool_has_its_servers_name_before_it_whoever_else_is_there():
    assert names_of(["alpha"], ["create_branch"], set())["alpha", "create_branch"] == "alpha_create_branch"
    both = names_of(["alpha", "beta"], ["create_branch"], set())
    assert both["alpha", "create_branch"] == "alpha_create_branch"
    assert both["beta", "create_branch"] == "beta_create_branch"


def test_no_server_gets_the_name_of_a_built_in_tool():
    assert names_of(["shell"], ["execute"], {"shell_execute"})["shell", "execute"] == "shell.execute"


def test_a_name_that_another_server_could_have_is_not_given():
    names = names_of(["a", "a_b"], ["b_c", "c"], set())
    assert (names["a", "b_c"], names["a_b", "c"]) == ("a.b_c", "a_b_c")


def test_servers_whose_names_only_look_alike_are_told_apart_by_the_configuration():
    assert prefixes_of(["my files", "my_files", "my/files"]) == {
        "my files": "my_files-2",
        "my_files": "my_files",
        "my/files": "my_files-3",
    }


@given(
    st.lists(SERVERS, unique=True, max_size=6),
    st.lists(TOOLS, unique=True, max_size=8),
    st.sets(st.sampled_from(["a_b", "b_c", "a_a", "screenshot"])),
)
def test_names_are_unique_and_lead_back_to_what_the_server_called_the_tool(
    servers: list[str], tools: list[str], taken: set[str]
):
    names = names_of(servers, tools, taken)
    assert len(set(names.values())) == len(names)
    assert not set(names.values()) & taken
    for (server, tool), name in names.items():
        assert own_name(name, server) == tool


def test_what_a_device_lists_by_a_name_of_its_own_has_no_other():
    assert own_name("execute_command", "BashExecutor") is None
    assert own_name("screenshot", None) is None
    assert own_name("alpha_", "alpha") is None
