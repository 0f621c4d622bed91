"""Working the queue: the only room whose loop starts processes."""
