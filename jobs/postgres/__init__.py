"""PostgreSQL as a sink (P5): executors COPY into a staging table, then one transaction of the driver's does everything."""
