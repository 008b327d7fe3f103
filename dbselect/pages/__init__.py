"""Charts, HTML of results in notebooks and the one-page report; no module here imports results."""
