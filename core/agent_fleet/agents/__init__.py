"""Agents over an API: one process with many seats, each a conversation with a model that works one task of the queue."""
