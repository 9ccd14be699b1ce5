"""What both our ends understand beyond AIP; a device says so in `metadata.quarterdeck.features`.

Stock peers never see any of it: they do not announce the features, so nobody uses these words with them.
"""

from __future__ import annotations

from typing import Any

FEATURE_CANCEL = "cancel"

# A command, so that it travels and is answered like one; no tool can have a dot in its name here.
CANCEL_COMMAND = "quarterdeck.cancel"


def features_of(metadata: dict[str, Any]) -> frozenset[str]:
    """The features that a registration announces; empty for stock devices and for nonsense."""
    ours = metadata.get("quarterdeck")
    named = ours.get("features") if isinstance(ours, dict) else None
    return (
        frozenset(word for word in named if isinstance(word, str)) if isinstance(named, list) else frozenset()
    )
