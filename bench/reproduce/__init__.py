"""The papers, repeated: a module a paper, each of parts that yield blocks of a page."""
