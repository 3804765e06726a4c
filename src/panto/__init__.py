"""panto: run LLM agents, and construct and operate on conversations."""
