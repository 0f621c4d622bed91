"""`python -m agent_fleet`."""

from agent_fleet.cli import main

main()
