"""The example notebook runs from top to bottom, and shows tables and pictures."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.slow
# Of the kernel's own libraries.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs(path, demo_folder):
    client = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel is the kernel of notebooks")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(demo_folder / "examples")}}
    client.NotebookClient(notebook, resources=where).execute()
    shown = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    assert not [one for one in shown if one.output_type in ("error", "stream")]
    pages = [one.get("data", {}).get("text/html", "") for one in shown]
    assert len([page for page in pages if "vega-embed" in page]) == 4
    assert len([page for page in pages if "<table>" in page]) == 5


def test_notebooks_are_kept_without_their_outputs():
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
