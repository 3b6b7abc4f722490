"""What runs on Spark. The only importer of pyspark; imports without Airflow installed."""
