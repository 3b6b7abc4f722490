"""The task that judges a run's windows, with links to their pages. Read when a DAG file is parsed: imports nothing heavy."""

from typing import Any, ClassVar

from airflow.sdk import BaseOperator, BaseOperatorLink

PAGES = "/tidemark/reports"  # served by the plugin, to whoever is logged in


class ReportLink(BaseOperatorLink):
    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(operator.report)


class DataDocsLink(BaseOperatorLink):
    name = "Great Expectations"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return f"{PAGES}/{operator.stream}/{operator.data_docs}"


class JudgeWindows(BaseOperator):
    operator_extra_links: ClassVar[tuple[BaseOperatorLink, ...]] = (ReportLink(), DataDocsLink())

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.report = ""
        self.data_docs = ""

    def execute(self, context: Any) -> str:
        from include.airflow_parts.reconciliation_tasks import judge, page_of_run, refuse_failed
        from include.reconciliation.validation import SITE

        windows = judge(self.stream, context)
        self.report = f"{PAGES}/{self.stream}/{page_of_run(windows)}"
        self.data_docs = str(SITE)
        return refuse_failed(self.stream, windows, self.report)
