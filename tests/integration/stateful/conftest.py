from tests.without_airflow import stack

__all__ = ["stack"]
