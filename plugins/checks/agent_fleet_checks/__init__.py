"""What `fleet doctor` asks. `NAMES` are the modules that offer a check."""

NAMES = ("distribution", "leftovers", "queue")
