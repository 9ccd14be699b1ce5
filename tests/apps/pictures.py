"""What a picture shows at a control's place."""

from __future__ import annotations

import io

from PIL import Image


def is_black(picture: bytes, box: dict[str, int]) -> bool:
    """Whether a picture of the whole screen is black wherever the control is."""
    corner = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
    with Image.open(io.BytesIO(picture)) as image:
        return all(low == high == 0 for low, high in image.convert("RGB").crop(corner).getextrema())
