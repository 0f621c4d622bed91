"""Accounts: many logins on one machine, one leased to each task. Knows no vendor."""
