"""How many calls to a model may be in flight: one adaptive limit for each account, endpoint and model, shared by all processes."""
