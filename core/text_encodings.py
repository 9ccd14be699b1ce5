"""Text encodings of files, shared by the device that reads and writes them and by the approval card.

The encodings are Python's codecs that are the same on every system (library reference, `codecs`, "Standard
Encodings"), by any of their Python names. Excluded are codecs from bytes to bytes (zlib, hex), from text to
text (rot13) and from text to escapes (unicode_escape, idna, punycode).

A text is written only if decoding the bytes returns the same text. Some codecs silently write another
character (Shift JIS writes `¥` as the byte of `\\`), but the file must contain what the operator approved.
"""

from __future__ import annotations

import codecs
import re
from encodings import normalize_encoding
from encodings.aliases import aliases

from core.errors import BadInput, ErrorCode

UTF_8 = "utf-8"
LONGEST_NAME = 40
"""Maximum characters in the name of an encoding."""
_CODECS = frozenset(
    """
    ascii big5 big5hkscs cp037 cp273 cp424 cp437 cp500 cp720 cp737 cp775 cp850 cp852 cp855 cp856 cp857 cp858
    cp860 cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874 cp875 cp932 cp949 cp950 cp1006 cp1026 cp1125 cp1140
    cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 euc_jp euc_jis_2004 euc_jisx0213 euc_kr
    gb2312 gbk gb18030 hz iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext
    iso2022_kr latin_1 iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9
    iso8859_10 iso8859_11 iso8859_13 iso8859_14 iso8859_15 iso8859_16 johab koi8_r koi8_t koi8_u kz1048
    mac_arabic
    mac_croatian mac_cyrillic mac_farsi mac_greek mac_iceland mac_latin2 mac_roman mac_romanian mac_turkish
    hp_roman8 ptcp154 tis_620 shift_jis shift_jis_2004
    shift_jisx0213 utf_32 utf_32_be utf_32_le utf_16 utf_16_be utf_16_le utf_7 utf_8 utf_8_sig
    """.split()
)
# Encodings whose data begin with a byte order mark, which is not part of the text. They are written
# little-endian on every machine.
_MARKED = {
    "utf_16": ("utf_16_le", codecs.BOM_UTF16_LE, (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
    "utf_32": ("utf_32_le", codecs.BOM_UTF32_LE, (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    "utf_8_sig": ("utf_8", codecs.BOM_UTF8, (codecs.BOM_UTF8,)),
}
# Stateful encodings: the meaning of a byte depends on all bytes before it.
_STATEFUL = ("iso2022", "hz", "utf_7")
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{LONGEST_NAME - 1}}}")


def codec_of(encoding: str) -> str:
    """The codec of a text encoding's name, as Python names its module: `cp1252`, `utf_16_le`.

    Unknown names cause no import and are not cached.

    Raises:
        BadInput: the name is not that of a text encoding.
    """
    if _NAME.fullmatch(encoding):
        plain = normalize_encoding(encoding).lower()
        codec = aliases.get(plain) or aliases.get(plain.replace(".", "_")) or plain
        if codec in _CODECS:
            return codec
    raise BadInput(
        f"{encoding[:LONGEST_NAME]!r} is not a text encoding. Use utf-8, utf-16, utf-16-le, latin-1, "
        "cp1252 or another name of Python's codecs; base64 takes any bytes."
    )


def encoded(text: str, encoding: str, *, append: bool = False) -> bytes:
    """Encode a text. Only utf-16, utf-32 and utf-8-sig begin with a byte order mark.

    `append`: the bytes follow existing ones, where a byte order mark would be a character.

    Raises:
        BadInput: the name is not that of a text encoding, or the encoding cannot represent a character
            unambiguously; names the character.
    """
    codec = codec_of(encoding)
    plain, mark, _ = _MARKED.get(codec, (codec, b"", ()))
    if mark and append:
        raise BadInput(
            f"Appending in {encoding} would put a byte order mark inside the file: name the order of its "
            f"bytes, such as {plain.replace('_', '-')}."
        )
    try:
        # UTF-7 would accept half of a surrogate pair, which is not valid text.
        text.encode(UTF_8)
        data = text.encode(plain)
        same = data.decode(plain) == text
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeEncodeError) else 0
        raise BadInput(f"{_at(text, at)} cannot be written in {encoding}.") from error
    if not same:
        raise BadInput(f"{_not_kept(text, plain)} would be read back from {encoding} as another one.")
    return mark + data


def decoded(
    data: bytes, encoding: str, offset: int = 0, *, cut: bool = False, name: str = "The file"
) -> tuple[str, int]:
    """Decode the part of a file that begins at byte `offset`; returns the text and the number of bytes used.

    `cut`: the file continues after `data`, which may end inside a character; that character belongs to the
    next part. `name` is the file's name in errors.

    Raises:
        BadInput: the name is not that of a text encoding, or the bytes are not valid in it; names the offset
            in the file.
    """
    codec = codec_of(encoding)
    plain, _, marks = _MARKED.get(codec, (codec, b"", ()))
    if offset and (marks or codec.startswith(_STATEFUL)):
        way = f"name the byte order, such as {plain.replace('_', '-')}" if marks else "read it from byte 0"
        raise BadInput(f"{encoding} cannot be read from the middle of {name}: {way}.")
    if codec in ("utf_16", "utf_32") and data and not data.startswith(marks):
        order = f"{codec.replace('_', '-')}-le or {codec.replace('_', '-')}-be"
        raise BadInput(f"{name} has no byte order mark, so {encoding} is ambiguous: name {order}.")
    decoder = codecs.getincrementaldecoder(codec)("strict")
    try:
        text = decoder.decode(data, final=not cut)
        # UTF-7 can encode half of a surrogate pair, which is not valid text.
        text.encode(UTF_8)
    except UnicodeError as error:
        at = offset
        if isinstance(error, UnicodeDecodeError):
            # A decoder that has removed a byte order mark counts from the byte after it.
            at += max(0, len(data) - len(error.object)) + error.start
        raise BadInput(
            f"{name} is not {_shown(codec)} text at byte {at}: "
            'read it in the encoding that it has, or with encoding "base64".'
        ) from error
    pending = decoder.getstate()[0] if cut else b""
    if pending and not text:
        raise BadInput(
            f"max_bytes ({len(data)}) ends inside the first character of this part of {name}; "
            "8 always hold one."
        )
    return text, len(data) - len(pending)


def refuse_too_large(data: bytes, most: int) -> None:
    """Refuse an encoded text of more than `most` bytes.

    Raises:
        BadInput: the text is too large (`too_large`).
    """
    if len(data) > most:
        raise BadInput(
            f"The text has {len(data):,} bytes in this encoding; the most is {most:,}.", ErrorCode.TOO_LARGE
        )


def _shown(codec: str) -> str:
    shown = codec.replace("_", "-")
    return shown.upper() if shown.startswith("utf") else shown


def _at(text: str, place: int) -> str:
    return f"Character {place} (U+{ord(text[place]):04X})" if place < len(text) else "The text"


def _not_kept(text: str, codec: str) -> str:
    for place, character in enumerate(text):
        if character.encode(codec).decode(codec) != character:
            return _at(text, place)
    return "The text"
