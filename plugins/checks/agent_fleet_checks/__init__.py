"""What `fleet doctor` asks. `NAMES` are the modules that offer a check."""

NAMES = ("distribution", "filesystem", "history", "leftovers", "program", "queue", "skills")
