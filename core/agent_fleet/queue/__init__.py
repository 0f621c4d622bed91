"""The queue: plain files, where every transition is one rename. Standard library only."""
