"""AT-SPI constants: names of roles and states, interfaces, and signatures of answers."""

from __future__ import annotations

ACCESSIBLE = "org.a11y.atspi.Accessible"
ACTION = "org.a11y.atspi.Action"
APPLICATION = "org.a11y.atspi.Application"
COLLECTION = "org.a11y.atspi.Collection"
CACHE = "org.a11y.atspi.Cache"
COMPONENT = "org.a11y.atspi.Component"
EDITABLE_TEXT = "org.a11y.atspi.EditableText"
TEXT = "org.a11y.atspi.Text"
VALUE = "org.a11y.atspi.Value"
TABLE = "org.a11y.atspi.Table"
PROPERTIES = "org.freedesktop.DBus.Properties"
ROOT = "/org/a11y/atspi/accessible/root"
NULL = "/org/a11y/atspi/null"
MOST_ACTIONS = 50
REGISTRY = "org.a11y.atspi.Registry"

# The D-Bus signatures of answers and properties, as the protocol defines them.
ANSWERS = {
    "GetRole": "u",
    "GetState": "au",
    "GetInterfaces": "as",
    "GetChildren": "a(so)",
    "GetChildAtIndex": "(so)",
    "GetMatches": "a(so)",
    "GetAccessibleAtPoint": "(so)",
    "GetAccessibleAt": "(so)",
    "GetIndexInParent": "i",
    "GetRowAtIndex": "i",
    "GetColumnAtIndex": "i",
    "GetRelationSet": "a(ua(so))",
    "GetAttributes": "a{ss}",
    "GetExtents": "(iiii)",
    "GetActions": "a(sss)",
    "GetText": "s",
    "GetNSelections": "i",
    "GetSelection": "ii",
    "GetName": "s",
    "DoAction": "b",
    "GrabFocus": "b",
    "ScrollTo": "b",
    "InsertText": "b",
    "DeleteText": "b",
    "Get": "v",
    "GetConnectionUnixProcessID": "u",
    "GetNameOwner": "s",
}
# WebKit's pages do not answer the first, though they answer older calls. The second may be slow on a very
# large page.
SOMETIMES_LOST = ("GetActions", "GetMatches")
# Some programs answer it only after the dialog that it opened has been closed.
MAY_WAIT = ("DoAction",)
PROPERTY_TYPES = {
    "Name": "s",
    "Description": "s",
    "NRows": "i",
    "NColumns": "i",
    "ChildCount": "i",
    "NActions": "i",
    "Parent": "(so)",
    "CaretOffset": "i",
    "CharacterCount": "i",
    "CurrentValue": "d",
    "ToolkitName": "s",
    "Version": "s",
}

# In the order of the numbers, from 0, as the protocol defines them.
ROLES = (
    "invalid|accelerator label|alert|animation|arrow|calendar|canvas|check box|check menu item|color chooser|"
    "column header|combo box|date editor|desktop icon|desktop frame|dial|dialog|directory pane|drawing area|"
    "file chooser|filler|focus traversable|font chooser|frame|glass pane|html container|icon|image|"
    "internal frame|label|layered pane|list|list item|menu|menu bar|menu item|option pane|page tab|"
    "page tab list|panel|password text|popup menu|progress bar|push button|radio button|radio menu item|"
    "root pane|row header|scroll bar|scroll pane|separator|slider|spin button|split pane|status bar|table|"
    "table cell|table column header|table row header|tearoff menu item|terminal|text|toggle button|tool bar|"
    "tool tip|tree|tree table|unknown|viewport|window|extended|header|footer|paragraph|ruler|application|"
    "autocomplete|edit bar|embedded|entry|chart|caption|document frame|heading|page|section|redundant object|"
    "form|link|input method window|table row|tree item|document spreadsheet|document presentation|"
    "document text|document web|document email|comment|list box|grouping|image map|notification|info bar|"
    "level bar|title bar|block quote|audio|video|definition|article|landmark|log|marquee|math|rating|timer|"
    "static|math fraction|math root|subscript|superscript|description list|description term|"
    "description value|footnote|content deletion|content insertion|mark|suggestion|push button menu"
).split("|")
PASSWORD_TEXT = "password text"

STATES = (
    "invalid|active|armed|busy|checked|collapsed|defunct|editable|enabled|expandable|expanded|focusable|focused|"
    "has tooltip|horizontal|iconified|modal|multi line|multiselectable|opaque|pressed|resizable|selectable|"
    "selected|sensitive|showing|single line|stale|transient|vertical|visible|manages descendants|"
    "indeterminate|required|truncated|animated|invalid entry|supports autocompletion|selectable text|"
    "is default|visited|checkable|has popup|read only"
).split("|")


def role_word(number: int) -> str:
    """The name of a role number; `unknown` for a number newer than this list."""
    return ROLES[number] if 0 <= number < len(ROLES) else "unknown"


def state_words(bits: list[int]) -> tuple[str, ...]:
    """The names of the states that are set in AT-SPI's two 32-bit words."""
    whole = sum((word & 0xFFFFFFFF) << (32 * index) for index, word in enumerate(bits[:2]))
    return tuple(word for index, word in enumerate(STATES) if whole >> index & 1)
