"""A web service that predicts a flight's delay from whatever has arrived, and asks for more.

``uvicorn examples.service:app`` serves it (``pip install starlette uvicorn``); a request is JSON of
fields, each of them optional, and the answer is JSON.
"""

import json
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import dbselect as ds

#: What `AnytimePredictor.write_parquet` wrote.
STORED = Path("predictor.parquet")
#: Of each field, the JSON that it takes.
TYPES = {"text": str, "number": (int, float)}


def service(predictor: ds.AnytimePredictor) -> Starlette:
    """Return the service of a predictor."""
    texts = {category.column for category in predictor.gram.terms.categories}
    fields = {
        one.path[0]: "text" if one.path[0] in texts else "number" for one in predictor._inputs
    }

    async def predict(request: Request) -> JSONResponse:
        try:
            asked = await request.json()
            row, budget = checked(asked, fields)
            return JSONResponse(predictor.predict(row, budget, level=0.9))
        except (json.JSONDecodeError, ds.DbselectError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=422)

    async def schema(_: Request) -> JSONResponse:
        return JSONResponse({"fields": fields, "costs": predictor.costs})

    return Starlette(routes=[Route("/predict", predict, methods=["POST"]), Route("/", schema)])


def checked(asked: Any, fields: dict[str, str]) -> tuple[dict[str, Any], float | None]:
    """Return the row and the budget of a request, or raise TypeError."""
    if not isinstance(asked, dict):
        raise TypeError("the request must be an object of fields")
    budget = asked.pop("budget", None)
    for name, value in asked.items():
        if name not in fields:
            raise TypeError(f"unknown field '{name}'; the fields are {', '.join(fields)}")
        fits = isinstance(value, TYPES[fields[name]]) and not isinstance(value, bool)
        if value is not None and not fits:
            raise TypeError(f"{name} is {value!r}; it must be a {fields[name]} or null")
    return asked, budget


if STORED.exists():
    app = service(ds.read(STORED))
