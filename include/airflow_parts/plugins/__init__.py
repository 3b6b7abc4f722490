"""Airflow's plugins folder: what is found here is loaded by every component of Airflow."""
