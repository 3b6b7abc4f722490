"""Serves the pages of reconciliation, to whoever is logged in to Airflow: reports and Great Expectations' data docs."""

import os
import sys
from pathlib import Path
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/tidemark/reports"


def make_app() -> Any:
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import FileResponse

    app = FastAPI(title="Tidemark reports", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/{stream}/{page:path}")
    def page(stream: str, page: str, user: GetUserDep) -> FileResponse:
        folder = (Path(os.environ["TIDEMARK_HOME"]) / "reconciliation").resolve()
        file = (folder / stream / page).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            raise HTTPException(404, "There is no such page.")
        return FileResponse(file)

    return app


class TidemarkReports(AirflowPlugin):
    """Only the API server serves pages; to the other components its parts would only be a second of imports."""

    name = "tidemark_reports"
    fastapi_apps = [{"app": make_app(), "url_prefix": PREFIX, "name": "Tidemark reports"}] if "api-server" in sys.argv else []
