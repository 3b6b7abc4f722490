# Airflow, Spark and the jobs in one image. Python packages are locked by hash, jars by SHA-256.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps curl \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 tidemark \
 && install -d -o tidemark /opt/tidemark /var/lib/tidemark

WORKDIR /opt/tidemark
COPY requirements.txt .
RUN pip install --no-cache-dir uv==0.13.7 \
 && uv pip install --system --no-cache --compile-bytecode --require-hashes -r requirements.txt

COPY config/ config/
COPY include/ include/
ENV PYTHONPATH=/opt/tidemark \
    TIDEMARK_JARS=/opt/tidemark/jars
RUN python -m include.local_stack.fetch_jars

COPY jobs/ jobs/
COPY dags/ dags/
ENV AIRFLOW_HOME=/var/lib/tidemark/airflow \
    TIDEMARK_HOME=/var/lib/tidemark
USER tidemark
