"""Files in other encodings than UTF-8: what is written is what is shown, byte for byte, or it is refused."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aip.messages import Command, Result, ResultStatus
from core.approvals.suggestions import helpers_for
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.errors import BadInput
from core.policy.analysis import summaries
from core.statements import make_request
from core.text_encodings import _CODECS, codec_of, decoded, encoded, refuse_too_large
from tests.fakes.run_size import examples

NO_TEXT = """
zlib zlib_codec zip bz2 bz2_codec hex hex_codec rot13 rot_13 rot-13 uu quopri quoted_printable base64_codec
BASE64 Base64 base_64 idna punycode undefined unicode_escape unicode-escape raw_unicode_escape mbcs oem ansi
charmap palmos aliases string_escape utf8.. ../utf_8 os utf-9 _codecs locale
""".split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def router(root: Path, tmp_path: Path) -> AsyncIterator[Router]:
    router = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "lab")
    yield router
    await router.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    kind = "action" if tool == "write_file" else "data_collection"
    command = Command(tool_name=tool, tool_type=kind, parameters=arguments, call_id="c")  # type: ignore[arg-type]
    return await router.run(command, 20)


async def good(router: Router, tool: str, **arguments: Any) -> Any:
    result = await call(router, tool, **arguments)
    assert result.status is ResultStatus.SUCCESS, result.error
    return result.result


async def refused(router: Router, tool: str, **arguments: Any) -> str:
    result = await call(router, tool, **arguments)
    assert result.status is ResultStatus.FAILURE
    return str(result.error)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("UTF-8", "utf_8"),
        ("utf8", "utf_8"),
        ("Latin-1", "latin_1"),
        ("ISO-8859-1", "latin_1"),
        ("windows-1252", "cp1252"),
        ("UTF-16", "utf_16"),
        ("utf-16-le", "utf_16_le"),
        ("shift-jis", "shift_jis"),
        ("GB18030", "gb18030"),
    ],
)
def test_an_encoding_goes_by_every_name_that_python_has_for_it(name: str, codec: str):
    assert codec_of(name) == codec
    assert codecs.lookup(name).name == codecs.lookup(codec).name


def test_every_codec_is_one_of_text_and_reads_back_what_it_writes():
    for codec in _CODECS:
        assert codecs.lookup(codec)._is_text_encoding  # type: ignore[attr-defined]
        data = encoded("Hello, World 1/2\n", codec)
        assert decoded(data, codec) == ("Hello, World 1/2\n", len(data))


@pytest.mark.parametrize("name", [*NO_TEXT, "", " utf-8", "utf-8\n", "utf\x008", "ｕtf-8", "u" * 41])
def test_what_is_no_text_encoding_is_refused_in_words(name: str):
    for work in (lambda: encoded("x", name), lambda: decoded(b"x", name)):
        with pytest.raises(BadInput, match="is not a text encoding"):
            work()


def test_a_name_that_is_not_known_imports_and_remembers_nothing():
    import encodings

    before = dict(encodings._cache)  # type: ignore[attr-defined]
    for number in range(50):
        with pytest.raises(BadInput):
            codec_of(f"made-up-{number}")
    assert encodings._cache == before  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["zlib", "rot13", "idna", "punycode", "undefined", "unicode_escape", "BASE64"]
)
async def test_the_device_refuses_it_and_neither_writes_nor_reads(router: Router, root: Path, name: str):
    path = root / "a"
    error = await refused(router, "write_file", file_path=str(path), content="x", encoding=name)
    assert error.startswith("invalid_arguments")
    assert "is not a text encoding" in error
    assert not path.exists()
    path.write_text("x")
    assert "is not a text encoding" in await refused(router, "read_file", file_path=str(path), encoding=name)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("utf-8", b"\xc3\xa9\n"),
        ("utf-8-sig", b"\xef\xbb\xbf\xc3\xa9\n"),
        ("utf-16", b"\xff\xfe\xe9\0\n\0"),
        ("utf-16-le", b"\xe9\0\n\0"),
        ("utf-16-be", b"\0\xe9\0\n"),
        ("utf-32", b"\xff\xfe\0\0\xe9\0\0\0\n\0\0\0"),
        ("latin-1", b"\xe9\n"),
        ("cp1252", b"\xe9\n"),
        ("cp437", b"\x82\n"),
    ],
)
async def test_a_text_is_written_byte_for_byte_and_read_back(
    router: Router, root: Path, encoding: str, data: bytes
):
    path = root / "a.txt"
    done = await good(router, "write_file", file_path=str(path), content="é\n", encoding=encoding)
    assert path.read_bytes() == data
    assert (done["bytes_written"], done["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    read = await good(router, "read_file", file_path=str(path), encoding=encoding)
    assert (read["content"], read["sha256"]) == ("é\n", hashlib.sha256(data).hexdigest())
    assert not read["truncated"]
    summary = summaries.write_file({"file_path": "/a", "content": "é\n", "encoding": encoding})
    assert f"{len(data)} bytes" in summary


async def test_a_mark_that_is_part_of_the_text_is_neither_added_nor_taken_away(router: Router, root: Path):
    path = root / "a.txt"
    for encoding, data in (("utf-8", b"\xef\xbb\xbfx"), ("utf-16-le", b"\xff\xfex\0")):
        await good(router, "write_file", file_path=str(path), content="\ufeffx", encoding=encoding)
        assert path.read_bytes() == data
        read = await good(router, "read_file", file_path=str(path), encoding=encoding)
        assert read["content"] == "\ufeffx"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
async def test_no_mark_gets_into_the_middle_of_a_file(router: Router, root: Path, encoding: str):
    path = root / "a.txt"
    await good(router, "write_file", file_path=str(path), content="a", encoding=encoding)
    before = path.read_bytes()
    wish = {"file_path": str(path), "content": "b", "mode": "append"}
    error = await refused(router, "write_file", **wish, encoding=encoding)
    assert "byte order mark inside the file" in error
    assert path.read_bytes() == before
    plain = "utf-8" if encoding == "utf-8-sig" else f"{encoding}-le"
    await good(router, "write_file", **wish, encoding=plain)
    assert path.read_bytes().decode(encoding) == "ab"


@pytest.mark.parametrize(
    ("encoding", "content", "character"),
    [
        ("latin-1", "ab€", "Character 2 (U+20AC) cannot be written"),
        ("ascii", "é", "Character 0 (U+00E9) cannot be written"),
        # Python writes these as bytes that mean another character.
        ("shift_jis", "C:¥x", "Character 2 (U+00A5) would be read back"),
        ("shift_jis", "~\u203e", "Character 1 (U+203E) would be read back"),
    ],
)
async def test_a_text_that_would_not_be_written_as_it_is_shown_is_refused(
    router: Router, root: Path, encoding: str, content: str, character: str
):
    error = await refused(router, "write_file", file_path=str(root / "a"), content=content, encoding=encoding)
    assert character in error
    assert not (root / "a").exists()


@settings(max_examples=examples(400))
@given(st.text(max_size=20), st.sampled_from(sorted(_CODECS)))
def test_what_is_written_is_read_back_as_the_same_text_or_refused(text: str, codec: str):
    try:
        data = encoded(text, codec)
    except BadInput:
        return
    assert data.decode(codec) == text
    assert decoded(data, codec) == (text, len(data))


@settings(max_examples=examples(400))
@given(st.binary(max_size=40), st.sampled_from(sorted(_CODECS)), st.integers(0, 9), st.booleans())
def test_no_bytes_make_anything_but_a_text_or_an_error_that_names_a_byte_of_the_file(
    data: bytes, codec: str, offset: int, cut: bool
):
    try:
        text, used = decoded(data, codec, offset, cut=cut)
    except BadInput as error:
        place = error.message.partition(" at byte ")[2].partition(":")[0]
        assert not place or offset <= int(place) <= offset + len(data)
        return
    assert 0 <= used <= len(data)
    text.encode("utf-8")


@pytest.mark.parametrize(
    ("encoding", "data", "at"),
    [
        ("ascii", b"ab\xffc", 2),
        ("cp1252", b"abc\x81", 3),
        ("utf-16-le", b"a\0b\0\0\xd8c\0", 4),
        ("utf-8-sig", b"\xef\xbb\xbfab\xff", 5),
        ("euc_jp", b"ab\xa4", 2),
        ("shift_jis", b"abcd\x82", 4),
    ],
)
async def test_bytes_that_are_no_such_text_are_named_with_what_to_do(
    router: Router, root: Path, encoding: str, data: bytes, at: int
):
    (root / "a").write_bytes(data)
    error = await refused(router, "read_file", file_path=str(root / "a"), encoding=encoding)
    assert f"text at byte {at}: read it in the encoding that it has, or with encoding" in error
    skipped = await refused(router, "read_file", file_path=str(root / "a"), encoding="ascii", offset=0)
    assert "not ascii text at byte" in skipped


async def test_an_offset_counts_from_the_files_beginning(router: Router, root: Path):
    (root / "a").write_bytes(b"0123456789\xff")
    error = await refused(router, "read_file", file_path=str(root / "a"), encoding="ascii", offset=4)
    assert "at byte 10:" in error


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "utf-7", "iso2022_jp", "hz"])
async def test_what_depends_on_its_beginning_is_not_read_from_the_middle(
    router: Router, root: Path, encoding: str
):
    (root / "a").write_bytes(encoded("abcd", encoding))
    error = await refused(router, "read_file", file_path=str(root / "a"), encoding=encoding, offset=2)
    assert "cannot be read from the middle" in error


async def test_a_file_without_its_mark_is_not_guessed_at(router: Router, root: Path):
    (root / "a").write_bytes(b"a\0b\0")
    error = await refused(router, "read_file", file_path=str(root / "a"), encoding="utf-16")
    assert "no byte order mark" in error
    assert "utf-16-le or utf-16-be" in error


@pytest.mark.parametrize("encoding", ["utf-16-be", "cp932", "gb18030", "utf-8", "euc_kr"])
async def test_the_parts_of_a_file_are_its_text(router: Router, root: Path, encoding: str):
    text = "".join(f"漢字 {number}\n" for number in range(40)) if encoding != "euc_kr" else "가나 x\n" * 40
    (root / "a").write_bytes(text.encode(encoding))
    parts, offset = [], 0
    while True:
        part = await good(
            router, "read_file", file_path=str(root / "a"), encoding=encoding, offset=offset, max_bytes=9
        )
        parts.append(part["content"])
        offset += len(part["content"].encode(encoding))
        if not part["truncated"]:
            break
    assert "".join(parts) == text


async def test_what_grows_in_the_result_is_cut_with_the_digest_of_its_own_bytes(root: Path, tmp_path: Path):
    limits = Limits(max_output_bytes=4096)
    router = build_router(DeviceConfig(roots=(root,), limits=limits), tmp_path / "state", "lab")
    data = bytes([0xE9]) * 3000
    (root / "a").write_bytes(data)
    read = await good(router, "read_file", file_path=str(root / "a"), encoding="latin-1")
    await router.close()
    count = len(read["content"])
    assert read["truncated"]
    assert 0 < count < 3000
    assert read["content"] == "é" * count
    assert read["sha256"] == hashlib.sha256(data[:count]).hexdigest()


def test_a_text_that_grows_beyond_what_undo_reads_is_refused():
    data = encoded("x" * 100, "utf-32")
    with pytest.raises(BadInput, match="404 bytes"):
        refuse_too_large(data, 400)


def test_a_helper_reads_the_file_in_the_encoding_of_the_call():
    def reads(**parameters: Any) -> list[dict[str, Any]]:
        request = make_request(
            device="d",
            contract="",
            tool_key="action::write_file",
            tool_name="write_file",
            tool_type="action",
            namespace="builtin",
            parameters={"file_path": "/a", "content": "x", **parameters},
            call_id="c",
        )
        return [one.parameters for one in helpers_for(request, {"read_file"})]

    assert reads(encoding="utf-16")[0]["encoding"] == "utf-16"
    for plain in ({}, {"encoding": "utf-8"}, {"encoding": "base64"}):
        assert "encoding" not in reads(**plain)[0]
