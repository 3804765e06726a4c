"""The drivers: the only modules that block or await. They perform what the core asks for."""
