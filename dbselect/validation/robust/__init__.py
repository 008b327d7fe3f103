"""Standard errors that hold where errors differ between rows."""
