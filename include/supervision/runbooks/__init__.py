"""What the runbook DAGs do, step by step, without Airflow: check, plan, (a person approves), act, verify, report."""
