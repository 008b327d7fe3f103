"""Pictures: a frame in, an altair chart of that frame out; nothing here imports results."""
