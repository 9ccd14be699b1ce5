"""The names of the built-in tools that more than their own row of the table is about."""

from __future__ import annotations

SCREENSHOT = "screenshot"
UI_TREE = "get_ui_tree"
READ_FILE = "read_file"
LIST_DIRECTORY = "list_directory"
LIST_PROCESSES = "list_processes"
LIST_WINDOWS = "list_windows"
READ_SHELL = "shell_execute_read"
WRITE_FILE = "write_file"
RESTORE_FILE = "restore_file"
UNDO = "undo"
CLOSE_APPLICATION = "close_application"
LIST_MCP_SERVERS = "list_mcp_servers"
