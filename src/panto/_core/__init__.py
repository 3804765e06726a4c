"""The loop: what an agent does, as generators of effects.

Law: the core performs nothing. It imports no clock, no randomness, no system, no network, no threads and no event
loop; whatever it needs of the world it asks for as an effect, so that a recorded list of replies replays a run exactly.
"""
