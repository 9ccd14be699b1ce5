"""A tool's own data may be called as our bytes are: told apart where the device has a way for bytes."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from PIL import Image

from core.canonical_json import sha256_hex
from core.commands.live_secrets import Redaction
from core.dispatch.result_sanitizer import LARGE_TEXT, UnusableAnswer, take_evidence


class Kept:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    async def put_blob(self, data: bytes) -> str:
        self.data[sha256_hex(data)] = data
        return sha256_hex(data)


def picture() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 3)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    "own",
    [
        {"data_base64": "not base64!"},
        {"data_base64": "aGVsbG8=", "size": 5, "media_type": "image/svg+xml", "blob": {"data_base64": 3}},
        {"data_base64": 7, "width": [1, 2]},
        {"data_base64": {"of": ["what"]}, "media_type": 3},
        {"data_base64": "not base64!", "media_type": "application/pdf"},
    ],
)
async def test_a_tools_own_data_is_kept_as_it_is_where_bytes_travel_otherwise(own: dict[str, Any]):
    told = {"structured": {"rows": [own]}}
    clean, evidence = await take_evidence(told, Kept(), Redaction(), sends_bytes=True)
    assert clean == told
    assert evidence == []
    with pytest.raises(UnusableAnswer):
        await take_evidence(told, Kept(), Redaction())


async def test_a_picture_as_text_is_still_one_and_a_false_one_as_bytes_is_still_refused():
    kept = Kept()
    clean, [evidence] = await take_evidence({"data_base64": picture()}, kept, Redaction(), sends_bytes=True)
    assert (evidence.what, evidence.width, evidence.height) == ("picture", 2, 3)
    assert clean["blob"] in kept.data
    with pytest.raises(UnusableAnswer):
        await take_evidence(
            {"media_type": "image/png", "data_bytes": b"no"}, Kept(), Redaction(), sends_bytes=True
        )


async def test_own_data_that_is_long_is_kept_as_any_long_text():
    own = {"data_base64": "?" * (LARGE_TEXT + 1)}
    clean, [evidence] = await take_evidence(own, Kept(), Redaction(), sends_bytes=True)
    assert clean["data_base64"]["blob"] == evidence.blob
    assert evidence.media_type == "text/plain"
