"""Rules that cap the number of workers. `NAMES` are the modules that offer one."""

NAMES = ("battery",)
