"""Forms from JSON Schemas: `SchemaForm`, and `FormWithJson` with the JSON beside it."""

from app.components.forms.editor import FormOptions
from app.components.forms.form import SchemaForm
from app.components.forms.with_json import FormWithJson

__all__ = ["FormOptions", "FormWithJson", "SchemaForm"]
