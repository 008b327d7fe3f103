"""Searches of a table too wide for its Gram matrix, in a few scans."""
