"""The scenes: each opens a window on a story of its own, does what the picture shows, and has it taken."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from tests.golden_pictures.scenes import approvals, gallery, screens, settings, signing
from tests.golden_pictures.studio import Studio

Scene = Callable[[Studio], Coroutine[None, None, None]]

SCENES: dict[str, Scene] = {
    **gallery.SCENES,
    **screens.SCENES,
    **approvals.SCENES,
    **settings.SCENES,
    **signing.SCENES,
}
