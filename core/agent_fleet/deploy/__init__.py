"""Deployments: many inputs or one goal taken apart, given out as tasks and put together again."""
