"""Bytes to values and back. Pure: nothing here opens, waits, or asks the time."""
