"""The commands of `fleet profile`."""
