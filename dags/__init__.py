"""When things happen. Each file is a DAG's shape; what its tasks do lies in include/."""
