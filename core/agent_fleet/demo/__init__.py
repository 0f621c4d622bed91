"""The demonstration of `fleet demo`: a small queue of real processes that needs no account."""
