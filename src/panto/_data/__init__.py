"""Generated tables, each with its date and source."""
