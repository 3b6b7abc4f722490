-- What should be: set by the stream file when it is new, then by runbooks and by supervision when it gives up.
CREATE TABLE desired (
    stream      text PRIMARY KEY,
    running     boolean NOT NULL,
    set_by      text NOT NULL,
    reason      text NOT NULL,
    since       timestamptz NOT NULL DEFAULT now()
);

-- One row while every stream is paused; what each stream's own desired state is stays untouched.
CREATE TABLE pause (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    set_by      text NOT NULL,
    reason      text NOT NULL,
    since       timestamptz NOT NULL DEFAULT now()
);

-- The runbook run that asked for a launch: asked again (a cleared task), it gets the same launch and no second driver.
ALTER TABLE launch ADD COLUMN request text UNIQUE;
CREATE INDEX launch_of_stream ON launch (stream, asked_at);
CREATE INDEX generation_of_launch ON generation (launch);

-- Who a launch became. Written by the launcher or by the driver itself, whoever comes first.
CREATE TABLE driver_process (
    launch      uuid PRIMARY KEY REFERENCES launch,
    host        text NOT NULL,
    pid         integer NOT NULL,
    start_ticks bigint NOT NULL,
    boot        text NOT NULL,
    detached    boolean NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    seen_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX driver_exit_of_stream ON driver_exit (stream, ended_at);

-- Open until a person starts the stream again. At most one open per stream and class.
CREATE TABLE incident (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text NOT NULL,
    class       text NOT NULL,
    happened    text NOT NULL,
    state       text NOT NULL,
    next_step   text NOT NULL,
    evidence    jsonb NOT NULL,
    opened_at   timestamptz NOT NULL DEFAULT now(),
    closed_at   timestamptz,
    closed_by   text
);
CREATE UNIQUE INDEX incident_open ON incident (stream, class) WHERE closed_at IS NULL;

-- What supervision saw last, for `make status` and for its own next look.
CREATE TABLE stream_state (
    stream       text PRIMARY KEY,
    state        text NOT NULL,
    detail       text NOT NULL,
    lag          bigint,
    generation   bigint,
    since        timestamptz NOT NULL,
    behind_since timestamptz,
    observed_at  timestamptz NOT NULL
);

CREATE TABLE supervision (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    host        text NOT NULL,
    run         text NOT NULL,
    verdict     text NOT NULL,
    seen_at     timestamptz NOT NULL
);
