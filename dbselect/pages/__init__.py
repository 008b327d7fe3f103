"""HTML: results at a glance in notebooks, and a one-page report; nothing here imports results."""
