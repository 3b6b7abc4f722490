-- One row: which deployment this database belongs to. A copy of the database is another deployment only if this changes.
CREATE TABLE deployment (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    id       uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO deployment DEFAULT VALUES;

-- What a driver was started with, by spec hash: P1.4.
CREATE TABLE spec (
    stream      text NOT NULL,
    spec_hash   text NOT NULL,
    snapshot    text NOT NULL,
    first_seen  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, spec_hash)
);

-- One attempt to start a driver, written before the attempt.
CREATE TABLE launch (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    stream      text NOT NULL,
    asked_by    text NOT NULL,
    reason      text NOT NULL,
    approvals   jsonb NOT NULL DEFAULT '{}',
    asked_at    timestamptz NOT NULL DEFAULT now()
);

-- P1.1: a number is taken by this row, before the first fence. A launch that has one was started, and is not started again.
CREATE TABLE generation (
    stream      text NOT NULL,
    number      bigint NOT NULL,
    owner       uuid NOT NULL UNIQUE,
    launch      uuid NOT NULL REFERENCES launch,
    spec_hash   text NOT NULL,
    host        text NOT NULL,
    pid         integer NOT NULL,
    taken_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, number)
);

CREATE TABLE progress (
    stream      text NOT NULL,
    generation  bigint NOT NULL,
    batch       bigint NOT NULL,
    read        bigint NOT NULL,
    seconds     double precision NOT NULL,
    lag         bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (stream, generation, batch)
);

-- How each launch ended, also one that was refused before it took a generation.
CREATE TABLE driver_exit (
    launch      uuid PRIMARY KEY REFERENCES launch,
    stream      text NOT NULL,
    generation  bigint,
    class       text NOT NULL,
    exit_code   integer NOT NULL,
    happened    text NOT NULL,
    state       text NOT NULL,
    next_step   text NOT NULL,
    evidence    jsonb NOT NULL,
    ended_at    timestamptz NOT NULL DEFAULT now()
);

-- A copy of what the sinks' commits say (P3.8), filled from their logs, so it may be filled twice and after any outage.
CREATE TABLE ledger (
    stream      text NOT NULL,
    sink        text NOT NULL,
    generation  bigint NOT NULL,
    batch       bigint NOT NULL,
    partition   integer NOT NULL,
    start       bigint NOT NULL,
    "end"       bigint NOT NULL,
    read        bigint NOT NULL,
    delivered   bigint NOT NULL,
    quarantined bigint NOT NULL,
    rejected    bigint NOT NULL,
    filtered    bigint NOT NULL,
    superseded  bigint NOT NULL,
    duplicates  bigint NOT NULL,
    late        bigint NOT NULL,
    lost        bigint NOT NULL,
    spec_hash   text NOT NULL,
    version     bigint NOT NULL,
    PRIMARY KEY (stream, sink, generation, batch, partition)
);

CREATE TABLE ledger_copied (
    stream      text NOT NULL,
    sink        text NOT NULL,
    version     bigint NOT NULL,
    PRIMARY KEY (stream, sink)
);

-- Asks one generation to stop; its successors are not meant.
CREATE TABLE stop_request (
    stream      text NOT NULL,
    generation  bigint NOT NULL,
    asked_by    text NOT NULL,
    reason      text NOT NULL,
    asked_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, generation)
);

-- P3.9: records is NULL until three ends at the same offsets have halved it.
CREATE TABLE batch_limit (
    stream       text PRIMARY KEY,
    class        text NOT NULL,
    starts       jsonb NOT NULL,
    failures     integer NOT NULL,
    records      bigint,
    good_batches integer NOT NULL DEFAULT 0
);

CREATE TABLE journal (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    stream      text NOT NULL,
    generation  bigint,
    actor       text NOT NULL,
    event       text NOT NULL,
    detail      jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX journal_of_stream ON journal (stream, id);
