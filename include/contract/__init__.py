"""What exists and what it promises: the environment, the names, the errors. Imports neither airflow nor pyspark."""
