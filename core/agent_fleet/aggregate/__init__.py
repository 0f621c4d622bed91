"""Many answers to one report: validation, duplicates, verification, coverage."""
