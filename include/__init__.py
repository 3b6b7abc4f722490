"""How streams are looked after: everything that is neither a DAG nor a Spark job."""
