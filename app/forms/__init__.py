"""Forms from JSON Schemas: `SchemaForm`, and `FormWithJson` with the JSON beside it."""

from app.forms.base import FormOptions
from app.forms.form import SchemaForm
from app.forms.form_with_json import FormWithJson

__all__ = ["FormOptions", "FormWithJson", "SchemaForm"]
