"""Pictures as devices would send them: PNG files of invented desktops, drawn with Pillow."""

from __future__ import annotations

import io
from functools import lru_cache

from PIL import Image, ImageDraw

_THEMES = {
    "linux": ((48, 20, 48), (29, 31, 33), (200, 204, 208)),
    "windows": ((12, 54, 92), (240, 240, 240), (30, 30, 30)),
    "macos": ((70, 90, 120), (246, 246, 246), (40, 40, 40)),
}


# Every story shows the same ones, and to encode one takes longer than to play it.
@lru_cache(maxsize=256)
def desktop_png(
    name: str, platform: str = "linux", lines: int = 12, size: tuple[int, int] = (1280, 800)
) -> bytes:
    """A desktop with a title bar that names the device and a window with `lines` lines of text."""
    width, height = size
    back, window, ink = _THEMES.get(platform, _THEMES["linux"])
    picture = Image.new("RGB", size, back)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, width, 26), fill=(18, 18, 20))
    draw.text((12, 8), f"{name}   10:41", fill=(230, 230, 230))
    left, top, right, bottom = width // 8, height // 8, width * 7 // 8, height * 7 // 8
    draw.rectangle((left, top, right, bottom), fill=window)
    draw.rectangle((left, top, right, top + 24), fill=(90, 94, 98))
    draw.text((left + 10, top + 6), f"Terminal - {name}", fill=(255, 255, 255))
    seed = sum(map(ord, name))
    for row in range(lines):
        length = 120 + (seed * (row + 3) * 37) % (right - left - 200)
        y = top + 44 + row * 20
        if y > bottom - 16:
            break
        draw.text((left + 14, y), "$", fill=(90, 180, 120))
        draw.rectangle((left + 32, y + 4, left + 32 + length, y + 9), fill=ink)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
