"""Any JSON value as a tree model that makes a node only when it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from core.schema_forms.json_values import Path, is_plain, json_text, path_text

Index = QModelIndex | QPersistentModelIndex
NODE_ROLE = int(Qt.ItemDataRole.UserRole) + 1
GROUP = 500
"""Rows below one row. Qt looks at every row that is opened, so longer lists stand in groups: 0 … 499."""
_LONGEST_INLINE = 48
_MOST_INLINE = 8


class JsonNode:
    """One value in the tree, with its place; or a group of the items of one that has many."""

    __slots__ = (
        "_children",
        "_keys",
        "is_group",
        "is_whole",
        "key",
        "parent",
        "row",
        "start",
        "stop",
        "value",
    )

    def __init__(self, key: str | int | None, value: Any, parent: JsonNode | None, row: int) -> None:
        self.start = 0
        self.stop = len(value) if isinstance(value, dict | list) else 0
        self.is_group = False
        self.key = key
        self.value = value
        self.parent = parent
        self.row = row
        self.is_whole = False
        """Whether a long text is shown whole."""
        self._children: list[int] = []
        self._keys: list[str] | None = None

    @property
    def child_count(self) -> int:
        """Rows below this one; short lists of plain values stand in their own row."""
        if self.parent is not None and not self.is_group and self.inline:
            return 0
        return -(-(self.stop - self.start) // self.step)

    @property
    def step(self) -> int:
        """How many items one row below stands for: 1, or the size of a group."""
        step = 1
        while self.stop - self.start > step * GROUP:
            step *= GROUP
        return step

    def make_child(self, row: int) -> JsonNode:
        """Make the node of a row below: a value, or a group of them."""
        at = self.start + row * self.step
        if self.step > 1:
            group = JsonNode(None, self.value, self, row)
            group.is_group, group.start, group.stop = True, at, min(self.stop, at + self.step)
            group._keys = self._keys
            return group
        if isinstance(self.value, dict):
            key = self.keys()[at]
            return JsonNode(key, self.value[key], self, row)
        return JsonNode(at, self.value[at], self, row)

    @property
    def inline(self) -> str:
        """A short list of plain values as one piece of text, or nothing."""
        value = self.value
        if not isinstance(value, list) or not 0 < len(value) <= _MOST_INLINE:
            return ""
        if any(isinstance(one, dict | list) or (isinstance(one, str) and len(one) > 24) for one in value):
            return ""
        text = json_text(value, None)
        return text if len(text) <= _LONGEST_INLINE else ""

    def keys(self) -> list[str]:
        """The names in an object, in order."""
        if self._keys is None:
            self._keys = list(self.value)
        return self._keys

    def children(self) -> list[int]:
        """The ids of the nodes below, 0 where none was made yet."""
        if not self._children:
            self._children = [0] * self.child_count
        return self._children

    @property
    def path(self) -> Path:
        """Where the value stands in the whole."""
        parts: list[str | int] = []
        node: JsonNode | None = self
        while node is not None:
            if node.key is not None:
                parts.append(node.key)
            node = node.parent
        return tuple(reversed(parts))

    @property
    def label(self) -> str:
        """The name or number before the value; hidden characters in names are escaped."""
        if self.is_group:
            return f"{self.start} … {self.stop - 1}"
        if self.key is None:
            return ""
        if isinstance(self.key, int):
            return str(self.key)
        return self.key if self.key and is_plain(self.key) and "\n" not in self.key else json_text(self.key)

    @property
    def count(self) -> str:
        """What is below, in few characters: `{4}`, `[12]`, `[2 pictures]`; empty for plain values."""
        if self.is_group:
            return ""
        if isinstance(self.value, dict):
            return "{picture}" if is_picture(self.value) else f"{{{len(self.value)}}}"
        if not isinstance(self.value, list) or self.inline:
            return ""
        size = len(self.value)
        if self.value and size <= 1_000 and all(map(is_picture, self.value)):
            return f"[{size} picture{'s' if size > 1 else ''}]"
        return f"[{size}]"

    @property
    def text(self) -> str:
        """A plain value as JSON; line ends inside text are real ones, so that it can be read."""
        if isinstance(self.value, dict | list):
            return "" if self.is_group else self.inline
        if isinstance(self.value, str):
            return (
                json_text(self.value, None).replace("\\n", "\n")
                if "\n" in self.value
                else json_text(self.value)
            )
        return json_text(self.value)


def is_picture(value: Any) -> bool:
    """Whether an object stands for an image: MCP's `type: image`, or a blob with an image's media type."""
    if not isinstance(value, dict):
        return False
    kinds = (value.get(name) for name in ("media_type", "mime_type", "mimeType", "content_type"))
    return value.get("type") == "image" or any(str(kind).startswith("image/") for kind in kinds if kind)


class JsonModel(QAbstractItemModel):
    """A JSON value; the top rows are the fields or items of the whole, or its one value."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._nodes: list[JsonNode] = []
        self._value: Any = None
        self.set_value(None)

    def set_value(self, value: Any) -> None:
        """Show another value."""
        self.beginResetModel()
        self._value = value
        # Node 0 is the invisible root; a plain value becomes its only child.
        is_plain_value = not isinstance(value, dict | list)
        self._nodes = [JsonNode(None, [value] if is_plain_value else value, None, 0)]
        self._single = is_plain_value
        self.endResetModel()

    @property
    def value(self) -> Any:
        """The whole value."""
        return self._value

    @property
    def made(self) -> int:
        """How many nodes were made so far, the root among them."""
        return len(self._nodes)

    def node(self, index: Index) -> JsonNode:
        """The node of an index; the root for an invalid one."""
        return self._nodes[int(index.internalId())] if index.isValid() else self._nodes[0]

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        """The index of a row; makes its node."""
        above = self.node(parent)
        if column != 0 or not 0 <= row < above.child_count or (parent.isValid() and parent.column() != 0):
            return QModelIndex()
        ids = above.children()
        if not ids[row]:
            ids[row] = len(self._nodes)
            made = above.make_child(row)
            if self._single and above.parent is None:
                made.key = None
            self._nodes.append(made)
        return self.createIndex(row, 0, ids[row])

    def parent(self, index: Index = QModelIndex()) -> QModelIndex:  # type: ignore[override]  # QObject.parent() too
        """The index of the object or list around a value."""
        above = self.node(index).parent if index.isValid() else None
        if above is None or above.parent is None:
            return QModelIndex()
        return self.createIndex(above.row, 0, above.parent.children()[above.row])

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """How many rows stand below."""
        return 0 if parent.column() > 0 else self.node(parent).child_count

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        """One: the delegate paints name and value."""
        return 1

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        """Whether anything stands below."""
        return self.rowCount(parent) > 0

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The row as one text, for assistive technology and type-ahead; the node for the delegate."""
        if not index.isValid():
            return None
        node = self.node(index)
        if role == NODE_ROLE:
            return node
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            words = node.text[:500] or node.count
            return f"{node.label}: {words}" if node.label else words
        return None

    def index_of(self, path: Path) -> QModelIndex:
        """The index of a path, or of the nearest row around it; invalid for the whole."""
        index = QModelIndex()
        for part in path:
            node = self.node(index)
            if isinstance(node.value, dict) and part in node.value:
                at = node.keys().index(str(part))
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                at = part
            else:
                break
            while self.node(index).step > 1:
                group = self.node(index)
                index = self.index((at - group.start) // group.step, 0, index)
            below = self.index(at - self.node(index).start, 0, index)
            if not below.isValid():
                break
            index = below
        return index

    def find(self, text: str, most: int = 10_000) -> list[Path]:
        """Paths of the values whose name or text holds `text`, in order; upper and lower case are alike."""
        wanted = text.casefold()
        if not wanted:
            return []
        found: list[Path] = []
        for path, value in walk(self._value):
            name = path[-1] if path and isinstance(path[-1], str) else ""
            shown = (
                value
                if isinstance(value, str)
                else ""
                if isinstance(value, dict | list)
                else json_text(value)
            )
            if wanted in name.casefold() or wanted in shown.casefold():
                found.append(path)
                if len(found) >= most:
                    break
        return found

    def path_words(self, index: Index) -> str:
        """The path of a row as expressions write it."""
        return path_text(self.node(index).path)


def walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every value inside, parents first, in reading order; without recursion, because results nest deeply."""
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, one = stack.pop()
        yield path, one
        if isinstance(one, dict):
            stack.extend(((*path, key), below) for key, below in reversed(one.items()))
        elif isinstance(one, list):
            stack.extend(((*path, at), below) for at, below in reversed(list(enumerate(one))))
