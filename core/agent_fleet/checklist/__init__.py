"""Checklists that people keep in Markdown, as a source of tasks; `docs/design/checklists.md`."""
