"""Any JSON value that a hosted server answers is in the result and in the journal: over a real link."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.audit.entries import Kind
from core.audit.verify import verify_folder
from core.broken_text import holds_half_a_character, with_valid_text
from core.canonical_json import canonical_bytes
from core.commands.request import CommandRequest
from core.commands.results import CommandResult, Verdict
from core.dispatch.outcome import BROKEN_TEXT
from core.home import Home
from tests.fakes.hosting_console import NAME, hosting_console
from tests.fakes.mcp_server import rogue

ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\ntool = "rogue_*"\nrisk = "<=critical"\n'
integers = st.integers() | st.integers(-(10**40), 10**40) | st.integers(1, 4_300).map(lambda n: 10**n - 1)
# Half the texts hold halves of characters.
texts = st.text(st.characters(), max_size=8) | st.text(st.sampled_from('a"\\\ud83d\ude00\x00\n'), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | integers | texts | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def test_any_value_with_any_integer_and_any_text_comes_through(home: Home, tmp_path: Path):
    """Halves of characters are marked, and nothing else is changed."""

    async def call(value: Any) -> None:
        raw = json.dumps({"content": [], "structuredContent": value})
        request = CommandRequest(NAME, "rogue_broken", {"result": raw}, "operator:anna", operators=("anna",))
        result: CommandResult = await rig.dispatcher.dispatch(request)
        assert result.error is None, result
        assert result.verdict is Verdict.UNVERIFIED
        # Two halves side by side are one character in JSON.
        sent = json.loads(raw)["structuredContent"]
        expected = with_valid_text(sent)
        assert canonical_bytes(result.result["structured"]) == canonical_bytes(expected)
        assert (BROKEN_TEXT in result.note) or not holds_half_a_character(sent)
        [written] = [
            entry
            for entry in await rig.entries(f'call:"{result.call_id}"')
            if entry.kind is Kind.RESULT_RECORDED
        ]
        assert canonical_bytes(written.body["result"]["result"]["structured"]) == canonical_bytes(expected)

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def opened() -> Any:
            servers = rogue(tools=["broken"])
            made, _ = await stack.enter_async_context(hosting_console(home, tmp_path, servers, "link"))
            made.use_policy(ALLOWS)
            return made

        rig = runner.run(opened())
        try:
            given(values.filter(_keeps_its_names))(lambda value: runner.run(call(value)))()
        finally:
            runner.run(stack.aclose())
    assert verify_folder(home.path, rig.journal.public_key).ok


def _keeps_its_names(value: Any) -> bool:
    """Whether no two names in an object differ only in halves of characters."""
    if isinstance(value, dict):
        same = len(with_valid_text(json.loads(json.dumps(value)))) == len(value)
        return same and all(map(_keeps_its_names, value.values()))
    return not isinstance(value, list) or all(map(_keeps_its_names, value))
