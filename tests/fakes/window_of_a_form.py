"""A window with one form, for tests that look at it over the accessibility bus: `python -m` this."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from app.forms import SchemaForm
from app.theme.theme import Theme

SCHEMA = {"properties": {"region": {"enum": ["fullscreen", "window"]}}}


def main() -> None:
    """Show the form, and print `ready` once it is on the screen."""
    app = QApplication([])
    Theme().apply(app)
    form = SchemaForm()
    form.set_schema(SCHEMA, {"region": "window"})
    form.show()
    print("ready", flush=True)
    app.exec()


if __name__ == "__main__":
    main()
