"""Stub."""
def slow(study):
    yield ""
