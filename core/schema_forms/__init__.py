"""JSON Schemas as forms (`fields`) and as checks (`validate`), for any tool's schema; no Qt in here."""
