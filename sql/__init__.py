"""The SQL macros of dbselect, one a file; `dbselect.register` runs them."""
