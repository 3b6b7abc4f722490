"""What DAGs are laid out from. The only importer of airflow in include/."""
