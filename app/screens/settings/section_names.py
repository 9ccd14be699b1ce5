"""The sections of Settings in the order of its list, key and title; no widget: the shell reads it too."""

from __future__ import annotations

SECTIONS = (
    ("appearance", "Appearance"),
    ("policy", "Policy"),
    ("grants", "Grants"),
    ("operators", "Operators"),
    ("devices", "Devices"),
    ("certificate", "Certificate"),
    ("this-computer", "This computer"),
    ("about", "About"),
)
