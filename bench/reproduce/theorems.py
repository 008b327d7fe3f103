"""Stub."""
def margins(study):
    yield ""
