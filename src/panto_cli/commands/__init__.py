"""The commands beside the question: one a file, each with a `command`."""
