
CREATE SCHEMA old_ledger;

CREATE TABLE old_ledger.actions (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
PARTITION BY LIST (window_id);

CREATE TABLE old_ledger.actions_w1 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
WITH (fillfactor='45');

CREATE TABLE old_ledger.actions_w2 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
WITH (fillfactor='45');

CREATE TABLE old_ledger.actions_w3 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
WITH (fillfactor='45');

CREATE TABLE old_ledger.actions_w4 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
WITH (fillfactor='45');

CREATE TABLE old_ledger.actions_w5 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    event_key uuid NOT NULL,
    event_window integer NOT NULL,
    effect integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    first_at timestamp with time zone,
    next_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    code integer DEFAULT 0 NOT NULL,
    latency_us integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    class text COLLATE pg_catalog."C",
    error text,
    response bytea,
    packed bytea,
    CONSTRAINT actions_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT actions_check CHECK ((held = (status <> ALL (ARRAY['pending'::text, 'done'::text])))),
    CONSTRAINT actions_check1 CHECK (((finished_at IS NULL) = (status <> ALL (ARRAY['done'::text, 'dead_letter'::text])))),
    CONSTRAINT actions_check2 CHECK (((next_at IS NULL) = (status <> 'failed'::text))),
    CONSTRAINT actions_lane_seq_check CHECK ((lane_seq > 0)),
    CONSTRAINT actions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'failed'::text, 'done'::text, 'dead_letter'::text, 'parked'::text, 'unknown'::text])))
)
WITH (fillfactor='45');

CREATE TABLE old_ledger.asides (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
)
PARTITION BY LIST (window_id);

CREATE TABLE old_ledger.asides_w1 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
);

CREATE TABLE old_ledger.asides_w2 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
);

CREATE TABLE old_ledger.asides_w3 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
);

CREATE TABLE old_ledger.asides_w4 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
);

CREATE TABLE old_ledger.asides_w5 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    event_key uuid,
    hash uuid,
    first_hash uuid,
    received_at timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    error text,
    raw bytea,
    CONSTRAINT asides_check CHECK (((decision <> 'conflict'::text) OR ((event_key IS NOT NULL) AND (hash IS NOT NULL) AND (first_hash IS NOT NULL)))),
    CONSTRAINT asides_decision_check CHECK ((decision = ANY (ARRAY['conflict'::text, 'filtered'::text, 'quarantined'::text])))
);

CREATE TABLE old_ledger.attempts (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
)
PARTITION BY LIST (window_id);

CREATE TABLE old_ledger.attempts_w1 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE old_ledger.attempts_w2 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE old_ledger.attempts_w3 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE old_ledger.attempts_w4 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE old_ledger.attempts_w5 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    lane_seq bigint NOT NULL,
    attempt integer NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    code integer NOT NULL,
    latency_us integer NOT NULL,
    error text NOT NULL,
    response bytea,
    CONSTRAINT attempts_attempt_check CHECK ((attempt > 0))
);

CREATE TABLE old_ledger.begins (
    subscription integer NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    CONSTRAINT begins_log_offset_check CHECK ((log_offset >= 0)),
    CONSTRAINT begins_partition_check CHECK ((partition >= 0))
);

CREATE TABLE old_ledger.buffer (
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    window_id integer NOT NULL,
    leader_epoch integer NOT NULL,
    append_time timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL,
    deadline timestamp with time zone,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    first bigint,
    deleted boolean NOT NULL,
    filtered boolean NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    payload text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    packed bytea NOT NULL,
    CONSTRAINT buffer_check CHECK (((deadline IS NULL) = (decision = 'parked'::text))),
    CONSTRAINT buffer_decision_check CHECK ((decision = ANY (ARRAY['buffered'::text, 'parked'::text])))
);

CREATE TABLE old_ledger.effects (
    id integer NOT NULL,
    subscription integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    on_dead text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT effects_on_dead_check CHECK ((on_dead = ANY (ARRAY['park'::text, 'continue'::text])))
);

ALTER TABLE old_ledger.effects ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_ledger.effects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE old_ledger.events (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
)
PARTITION BY LIST (window_id);

CREATE TABLE old_ledger.events_w1 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
);

CREATE TABLE old_ledger.events_w2 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
);

CREATE TABLE old_ledger.events_w3 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
);

CREATE TABLE old_ledger.events_w4 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
);

CREATE TABLE old_ledger.events_w5 (
    window_id integer NOT NULL,
    fence integer NOT NULL,
    log_offset bigint NOT NULL,
    event_key uuid NOT NULL,
    hash uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    lane_seq bigint,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    leader_epoch integer NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    actions smallint DEFAULT 0 NOT NULL,
    decision text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    entity text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT events_check CHECK (((lane_seq IS NULL) = (actions = 0))),
    CONSTRAINT events_decision_check CHECK ((decision = ANY (ARRAY['applied'::text, 'late'::text, 'stale'::text, 'buffered'::text, 'parked'::text]))),
    CONSTRAINT events_event_id_check CHECK ((event_id <> ''::text)),
    CONSTRAINT events_source_check CHECK ((source <> ''::text))
);

CREATE TABLE old_ledger.fences (
    id integer NOT NULL,
    subscription integer NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    token uuid,
    owner text DEFAULT ''::text NOT NULL,
    claimed_at timestamp with time zone,
    released boolean DEFAULT true NOT NULL,
    CONSTRAINT fences_partition_check CHECK ((partition >= 0))
)
WITH (fillfactor='50');

ALTER TABLE old_ledger.fences ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_ledger.fences_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE old_ledger.lines (
    fence integer NOT NULL,
    epoch bigint NOT NULL,
    value bigint NOT NULL,
    sub integer NOT NULL,
    filtered boolean NOT NULL,
    event_key uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    parked text COLLATE pg_catalog."C",
    skipped bigint[],
    entity text NOT NULL COLLATE pg_catalog."C",
    clock text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT lines_kind_check CHECK ((kind = ANY (ARRAY['sequence'::text, 'monotonic'::text, 'timestamp'::text, 'none'::text])))
)
WITH (fillfactor='60');

CREATE TABLE old_ledger.migrations (
    id integer NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL
);

ALTER TABLE old_ledger.migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME old_ledger.migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE old_ledger.progress (
    fence integer NOT NULL,
    next_offset bigint NOT NULL,
    leader_epoch integer NOT NULL,
    high_offset bigint NOT NULL,
    next_lane_seq bigint DEFAULT 1 NOT NULL,
    lane_low bigint DEFAULT 1 NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    processed_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT progress_check CHECK ((high_offset >= next_offset)),
    CONSTRAINT progress_lane_low_check CHECK ((lane_low > 0)),
    CONSTRAINT progress_next_lane_seq_check CHECK ((next_lane_seq > 0)),
    CONSTRAINT progress_next_offset_check CHECK ((next_offset >= 0))
)
WITH (fillfactor='20');

CREATE TABLE old_ledger.seeks (
    id bigint NOT NULL,
    fence integer NOT NULL,
    from_offset bigint NOT NULL,
    to_offset bigint NOT NULL,
    skipped bigint GENERATED ALWAYS AS (GREATEST((to_offset - from_offset), (0)::bigint)) STORED,
    epoch bigint NOT NULL,
    owner text NOT NULL,
    found_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE old_ledger.seeks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_ledger.seeks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE old_ledger.subscriptions (
    id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    generation integer DEFAULT 0 NOT NULL,
    dedupe interval,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    began_at timestamp with time zone,
    CONSTRAINT subscriptions_dedupe_check CHECK ((dedupe > '00:00:00'::interval)),
    CONSTRAINT subscriptions_generation_check CHECK ((generation >= 0)),
    CONSTRAINT subscriptions_name_check CHECK ((name <> ''::text))
);

ALTER TABLE old_ledger.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_ledger.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE old_ledger.topics (
    subscription integer NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    topic_id uuid NOT NULL,
    partitions integer NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT topics_partitions_check CHECK ((partitions > 0))
);

CREATE TABLE old_ledger.windows (
    id integer NOT NULL,
    subscription integer NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    opened_at timestamp with time zone,
    closed_at timestamp with time zone,
    CONSTRAINT windows_check CHECK ((closed_at >= opened_at)),
    CONSTRAINT windows_check1 CHECK (((state = 'ahead'::text) = (opened_at IS NULL))),
    CONSTRAINT windows_check2 CHECK (((state = 'closed'::text) = (closed_at IS NOT NULL))),
    CONSTRAINT windows_state_check CHECK ((state = ANY (ARRAY['ahead'::text, 'current'::text, 'closed'::text])))
);

ALTER TABLE old_ledger.windows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_ledger.windows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY old_ledger.actions ATTACH PARTITION old_ledger.actions_w1 FOR VALUES IN (1);

ALTER TABLE ONLY old_ledger.actions ATTACH PARTITION old_ledger.actions_w2 FOR VALUES IN (2);

ALTER TABLE ONLY old_ledger.actions ATTACH PARTITION old_ledger.actions_w3 FOR VALUES IN (3);

ALTER TABLE ONLY old_ledger.actions ATTACH PARTITION old_ledger.actions_w4 FOR VALUES IN (4);

ALTER TABLE ONLY old_ledger.actions ATTACH PARTITION old_ledger.actions_w5 FOR VALUES IN (5);

ALTER TABLE ONLY old_ledger.asides ATTACH PARTITION old_ledger.asides_w1 FOR VALUES IN (1);

ALTER TABLE ONLY old_ledger.asides ATTACH PARTITION old_ledger.asides_w2 FOR VALUES IN (2);

ALTER TABLE ONLY old_ledger.asides ATTACH PARTITION old_ledger.asides_w3 FOR VALUES IN (3);

ALTER TABLE ONLY old_ledger.asides ATTACH PARTITION old_ledger.asides_w4 FOR VALUES IN (4);

ALTER TABLE ONLY old_ledger.asides ATTACH PARTITION old_ledger.asides_w5 FOR VALUES IN (5);

ALTER TABLE ONLY old_ledger.attempts ATTACH PARTITION old_ledger.attempts_w1 FOR VALUES IN (1);

ALTER TABLE ONLY old_ledger.attempts ATTACH PARTITION old_ledger.attempts_w2 FOR VALUES IN (2);

ALTER TABLE ONLY old_ledger.attempts ATTACH PARTITION old_ledger.attempts_w3 FOR VALUES IN (3);

ALTER TABLE ONLY old_ledger.attempts ATTACH PARTITION old_ledger.attempts_w4 FOR VALUES IN (4);

ALTER TABLE ONLY old_ledger.attempts ATTACH PARTITION old_ledger.attempts_w5 FOR VALUES IN (5);

ALTER TABLE ONLY old_ledger.events ATTACH PARTITION old_ledger.events_w1 FOR VALUES IN (1);

ALTER TABLE ONLY old_ledger.events ATTACH PARTITION old_ledger.events_w2 FOR VALUES IN (2);

ALTER TABLE ONLY old_ledger.events ATTACH PARTITION old_ledger.events_w3 FOR VALUES IN (3);

ALTER TABLE ONLY old_ledger.events ATTACH PARTITION old_ledger.events_w4 FOR VALUES IN (4);

ALTER TABLE ONLY old_ledger.events ATTACH PARTITION old_ledger.events_w5 FOR VALUES IN (5);

INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 6, '49755624-fee4-b3d5-69c5-8a21dd325ffc', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 7, '2466bec3-366e-f7f7-147d-24b5225cb47e', 1, 1, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 8, '2466bec3-366e-f7f7-147d-24b5225cb47e', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 10, '59b5d3cd-0b9b-efcf-df11-94c8af523520', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 12, 'b37aba85-816c-7b1d-c50f-fb825ce7869d', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 14, '78b17ef5-45a5-53bd-561d-0c1a0423d02e', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 15, '4381313e-ecc2-aa23-289c-1e87626c9e5f', 1, 1, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 16, '4381313e-ecc2-aa23-289c-1e87626c9e5f', 1, 2, '2026-11-21 09:22:49.90749+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 1, 'be803db2-38c8-3c70-a149-311268e7a3e7', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.917458+00', NULL, '2026-11-21 09:22:49.920458+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 2, 'be803db2-38c8-3c70-a149-311268e7a3e7', 1, 2, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.917458+00', NULL, '2026-11-21 09:22:49.920458+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 4, 'ce8e95b0-9c14-9d70-1c1f-331973a9799e', 1, 2, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.917458+00', NULL, '2026-11-21 09:22:49.920458+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 13, '78b17ef5-45a5-53bd-561d-0c1a0423d02e', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.917458+00', NULL, '2026-11-21 09:22:49.920458+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 17, 'c784d889-5cf3-1050-0c27-9064ac3eb9ec', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.917458+00', NULL, '2026-11-21 09:22:49.920458+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 3, 'ce8e95b0-9c14-9d70-1c1f-331973a9799e', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.920458+00', NULL, '2026-11-21 09:22:49.920458+00', 2, 204, 0, false, 'done', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 5, '49755624-fee4-b3d5-69c5-8a21dd325ffc', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.920458+00', NULL, '2026-11-21 09:22:49.920458+00', 7, 400, 0, true, 'dead_letter', 'rejected', 'no', NULL, '\x6b6570742c20746f6f');
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 9, '59b5d3cd-0b9b-efcf-df11-94c8af523520', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.920458+00', '2038-04-19 01:22:49.920458+00', NULL, 1, 504, 0, true, 'failed', 'timeout', 'no answer', NULL, '\x6b657074');
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 11, 'b37aba85-816c-7b1d-c50f-fb825ce7869d', 1, 1, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.920458+00', NULL, NULL, 1, 0, 0, true, 'unknown', 'timeout', NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 1, 18, 'c784d889-5cf3-1050-0c27-9064ac3eb9ec', 1, 2, '2026-11-21 09:22:49.90749+00', '2026-11-21 09:22:49.920458+00', NULL, '2026-11-21 09:22:49.920458+00', 7, 400, 0, true, 'dead_letter', 'rejected', 'no', NULL, '\x6b6570742c20746f6f');
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 3, '3e5e4269-dedd-f41d-864a-234054a8827d', 1, 1, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 1, '553c0cb2-b036-f6df-8f58-00827d984595', 1, 1, '2026-11-21 09:22:49.937925+00', '2026-11-21 09:22:49.940481+00', NULL, '2026-11-21 09:22:49.943481+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 2, '553c0cb2-b036-f6df-8f58-00827d984595', 1, 2, '2026-11-21 09:22:49.937925+00', '2026-11-21 09:22:49.940481+00', NULL, '2026-11-21 09:22:49.943481+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 4, '3e5e4269-dedd-f41d-864a-234054a8827d', 1, 2, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 5, '965a0f1a-2620-8b42-b5d2-f8fff77ad275', 1, 1, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 6, '965a0f1a-2620-8b42-b5d2-f8fff77ad275', 1, 2, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 7, 'b781bd46-94c2-a3bc-fa10-3934bc555e8f', 1, 1, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w1 VALUES (1, 2, 8, 'b781bd46-94c2-a3bc-fa10-3934bc555e8f', 1, 2, '2026-11-21 09:22:49.937925+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);

INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 11, '056d3a2c-2776-e7ec-daa3-8a95799689fc', 1, 1, '2026-11-21 09:22:50.159986+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, '\x7061636b656420672d33');
INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 12, '056d3a2c-2776-e7ec-daa3-8a95799689fc', 1, 2, '2026-11-21 09:22:50.159986+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, '\x7061636b656420672d33');
INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 13, 'dafe4014-4949-47cc-3a5e-c4dd7e1325fd', 2, 1, '2026-11-21 09:22:50.159986+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 14, 'dafe4014-4949-47cc-3a5e-c4dd7e1325fd', 2, 2, '2026-11-21 09:22:50.159986+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 10, '18a4318a-56d7-36c6-fbdb-d41314638eae', 2, 2, '2026-11-21 09:22:50.159986+00', '2026-11-21 09:22:50.174759+00', NULL, '2026-11-21 09:22:50.177759+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 2, 9, '18a4318a-56d7-36c6-fbdb-d41314638eae', 2, 1, '2026-11-21 09:22:50.159986+00', '2026-11-21 09:22:50.177759+00', '2038-04-19 01:22:50.177759+00', NULL, 1, 504, 0, true, 'failed', 'timeout', 'no answer', NULL, '\x6b657074');
INSERT INTO old_ledger.actions_w2 VALUES (2, 1, 19, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', 2, 1, '2026-11-21 09:22:50.198348+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 1, 20, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', 2, 2, '2026-11-21 09:22:50.198348+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 1, 21, '0715d9fb-1736-2e42-1e7c-7b4fba4de431', 2, 1, '2026-11-21 09:22:50.198348+00', '2026-11-21 09:22:50.198491+00', NULL, '2026-11-21 09:22:50.201491+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);
INSERT INTO old_ledger.actions_w2 VALUES (2, 1, 22, '0715d9fb-1736-2e42-1e7c-7b4fba4de431', 2, 2, '2026-11-21 09:22:50.198348+00', '2026-11-21 09:22:50.198491+00', NULL, '2026-11-21 09:22:50.201491+00', 1, 200, 3000, false, 'done', NULL, NULL, '\x6f6b', NULL);

INSERT INTO old_ledger.actions_w4 VALUES (4, 3, 1, 'be803db2-38c8-3c70-a149-311268e7a3e7', 4, 3, '2026-11-21 09:22:50.554832+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w4 VALUES (4, 3, 2, '49755624-fee4-b3d5-69c5-8a21dd325ffc', 4, 3, '2026-11-21 09:22:50.554832+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);
INSERT INTO old_ledger.actions_w4 VALUES (4, 3, 3, '2466bec3-366e-f7f7-147d-24b5225cb47e', 4, 3, '2026-11-21 09:22:50.588109+00', NULL, NULL, NULL, 0, 0, 0, false, 'pending', NULL, NULL, NULL, NULL);

INSERT INTO old_ledger.asides_w1 VALUES (1, 2, 7, 3, '019eba8f-303f-853d-2975-fac2f08f8155', 'f5728694-f674-c34a-720a-d17bb950270f', NULL, '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 'filtered', 'type', 'sequence', 0, 2, 0, '', 'h', '/acme/github', 'h-2', 'com.github.issues.labeled', NULL, NULL);
INSERT INTO old_ledger.asides_w1 VALUES (1, 2, 8, 3, '553c0cb2-b036-f6df-8f58-00827d984595', 'ba817549-cc54-6b0e-e549-a42a97b94811', 'b9817549-cc54-6b0e-e549-a42a97b94811', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 'conflict', 'body_differs', 'sequence', 0, 1, 0, '', 'g', '/acme/github', 'g-1', 'com.github.issues.labeled', NULL, '\x7061636b656420672d31');
INSERT INTO old_ledger.asides_w1 VALUES (1, 2, 12, 3, NULL, NULL, NULL, NULL, '2026-11-21 09:22:49.937925+00', 'quarantined', 'undecodable', 'none', 0, 0, 0, '', '', '', '', '', 'no event', '\x726177');

INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 3, 1, '2026-11-21 09:22:49.920458+00', 'failed', 'timeout', 504, 0, 'no answer', NULL);
INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 3, 2, '2026-11-21 09:22:49.920458+00', 'done', '', 204, 0, '', NULL);
INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 5, 7, '2026-11-21 09:22:49.920458+00', 'dead_letter', 'rejected', 400, 0, 'no', NULL);
INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 9, 1, '2026-11-21 09:22:49.920458+00', 'failed', 'timeout', 504, 0, 'no answer', NULL);
INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 11, 1, '2026-11-21 09:22:49.920458+00', 'unknown', 'timeout', 0, 0, '', NULL);
INSERT INTO old_ledger.attempts_w1 VALUES (1, 1, 18, 7, '2026-11-21 09:22:49.920458+00', 'dead_letter', 'rejected', 400, 0, 'no', NULL);

INSERT INTO old_ledger.attempts_w2 VALUES (2, 2, 9, 1, '2026-11-21 09:22:50.177759+00', 'failed', 'timeout', 504, 0, 'no answer', NULL);

INSERT INTO old_ledger.buffer VALUES (2, 2, 1, 3, '2023-11-14 22:13:21+00', '2023-11-14 22:13:20+00', '2027-01-02 01:22:49.937925+00', 'c8038434-914d-a59d-10c2-3f4cb9f07a82', 'ad015a04-d110-616a-b776-cddfae54e6ba', 0, 5, 0, NULL, false, false, 'buffered', 'snapshot', 'sequence', 'g', '', '/acme/github', 'g-5', 'com.github.issues.labeled', '\x7061636b656420672d35');
INSERT INTO old_ledger.buffer VALUES (2, 5, 1, 3, '2023-11-14 22:13:21+00', '2023-11-14 22:13:20+00', '2027-01-02 01:22:49.937925+00', 'b1f27aeb-b799-8146-5a60-ceeb3add0a96', '099be97e-1fa4-910b-0ae5-2fa984eae552', 0, 4, 0, NULL, false, false, 'buffered', 'snapshot', 'sequence', 'h', '', '/acme/github', 'h-4', 'com.github.issues.labeled', '\x7061636b656420682d34');
INSERT INTO old_ledger.buffer VALUES (3, 1, 4, 3, '2023-11-14 22:13:21+00', '2023-11-14 22:13:20+00', NULL, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', '2cb72cc6-8375-72f4-9baf-91e463c75685', 0, 3, 0, NULL, false, false, 'parked', 'snapshot', 'sequence', 'a', '', '/acme/github', 'a-3', 'com.github.issues.labeled', '\x7061636b656420612d33');

INSERT INTO old_ledger.effects OVERRIDING SYSTEM VALUE VALUES (1, 1, 'run', 'acme/coder', 'park');
INSERT INTO old_ledger.effects OVERRIDING SYSTEM VALUE VALUES (2, 1, 'tell', 'acme/slack', 'continue');
INSERT INTO old_ledger.effects OVERRIDING SYSTEM VALUE VALUES (3, 2, 'run', 'acme/coder', 'park');

INSERT INTO old_ledger.events_w1 VALUES (1, 1, 0, 'be803db2-38c8-3c70-a149-311268e7a3e7', '2f8fe63a-6224-321d-e5d0-a24cf30067d3', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 1, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'a', '/acme/github', 'a-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 1, 'ce8e95b0-9c14-9d70-1c1f-331973a9799e', 'd72e654c-3645-b02d-de39-fe0be595ef17', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 3, 0, 2, 0, 3, 0, 2, 'applied', 'next', 'sequence', '', 'a', '/acme/github', 'a-2', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 2, '49755624-fee4-b3d5-69c5-8a21dd325ffc', '3e499e75-2620-c6a9-0ed5-9a200a181324', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 5, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'b', '/acme/github', 'b-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 3, '2466bec3-366e-f7f7-147d-24b5225cb47e', '77c10054-01bd-4fd1-dd7a-bead933235ef', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 7, 0, 2, 0, 3, 0, 2, 'applied', 'next', 'sequence', '', 'b', '/acme/github', 'b-2', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 4, '59b5d3cd-0b9b-efcf-df11-94c8af523520', 'a6f7ef47-ee8d-c84a-f905-6a3051ddc302', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 9, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'c', '/acme/github', 'c-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 5, 'b37aba85-816c-7b1d-c50f-fb825ce7869d', '0741a320-e613-baac-937e-2644e8e96a28', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 11, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'd', '/acme/github', 'd-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 6, '78b17ef5-45a5-53bd-561d-0c1a0423d02e', 'b94f5231-96aa-acd8-bdb9-ef0d8cf2e1d8', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 13, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'e', '/acme/github', 'e-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 8, '4381313e-ecc2-aa23-289c-1e87626c9e5f', '761d230a-06e6-78ef-0d18-d4997dad6b33', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 15, 0, 2, 0, 3, 0, 2, 'applied', 'next', 'sequence', '', 'e', '/acme/github', 'e-2', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 1, 9, 'c784d889-5cf3-1050-0c27-9064ac3eb9ec', '3defc6e6-3240-8e5a-edde-2b902592f836', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.90749+00', 17, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'f', '/acme/github', 'f-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 0, '553c0cb2-b036-f6df-8f58-00827d984595', 'b9817549-cc54-6b0e-e549-a42a97b94811', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 1, 0, 1, 0, 3, 1, 2, 'applied', 'first', 'sequence', '', 'g', '/acme/github', 'g-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 2, 'c8038434-914d-a59d-10c2-3f4cb9f07a82', 'ad015a04-d110-616a-b776-cddfae54e6ba', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', NULL, 0, 5, 0, 3, 0, 0, 'buffered', 'gap', 'sequence', '', 'g', '/acme/github', 'g-5', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 3, '3e5e4269-dedd-f41d-864a-234054a8827d', '54f50aff-0c05-f509-a804-604b776c85a2', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 3, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'h', '/acme/github', 'h-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 5, 'b1f27aeb-b799-8146-5a60-ceeb3add0a96', '099be97e-1fa4-910b-0ae5-2fa984eae552', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', NULL, 0, 4, 0, 3, 0, 0, 'buffered', 'gap', 'sequence', '', 'h', '/acme/github', 'h-4', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 9, '965a0f1a-2620-8b42-b5d2-f8fff77ad275', 'c125b9b3-5c71-5b53-d714-558773836920', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 5, 0, 5, 0, 3, 0, 2, 'applied', 'first', 'monotonic', '', 'm', '/acme/github', 'm-5', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 10, '90815472-9a18-5996-35cd-742e34610c04', '6a7199fb-9750-97d0-335b-121ef4a21797', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', NULL, 0, 3, 0, 3, 0, 0, 'stale', 'older', 'monotonic', '', 'm', '/acme/github', 'm-3', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 11, 'b781bd46-94c2-a3bc-fa10-3934bc555e8f', '65c0a260-39d7-77ae-2ef7-c60e92e3ef7b', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 7, 0, 4, 0, 3, 0, 2, 'late', 'older_delta', 'monotonic', '', 'm', '/acme/github', 'm-4', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w1 VALUES (1, 2, 1, '056d3a2c-2776-e7ec-daa3-8a95799689fc', '6b9bed18-e28f-2ec7-89ce-20381e792788', '2023-11-14 22:13:20+00', '2026-11-21 09:22:49.937925+00', 11, 0, 3, 0, 3, 0, 2, 'applied', 'released', 'sequence', '', 'g', '/acme/github', 'g-3', 'com.github.issues.labeled');

INSERT INTO old_ledger.events_w2 VALUES (2, 2, 13, '18a4318a-56d7-36c6-fbdb-d41314638eae', 'a489b30b-66f9-d6cb-7b8e-223981661335', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.159986+00', 9, 0, 2, 0, 3, 0, 2, 'applied', 'next', 'sequence', '', 'g', '/acme/github', 'g-2', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w2 VALUES (2, 2, 14, 'dafe4014-4949-47cc-3a5e-c4dd7e1325fd', '7c35c5a1-785d-2070-4e44-d5de4beb81c1', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.159986+00', 13, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'k', '/acme/github', 'k-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w2 VALUES (2, 1, 10, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', '2cb72cc6-8375-72f4-9baf-91e463c75685', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.198348+00', 19, 0, 3, 0, 3, 0, 2, 'applied', 'next', 'sequence', '', 'a', '/acme/github', 'a-3', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w2 VALUES (2, 1, 11, '0715d9fb-1736-2e42-1e7c-7b4fba4de431', '612a6bb9-cf2d-903b-61d8-3cdc58c1c979', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.198348+00', 21, 0, 1, 0, 3, 0, 2, 'applied', 'first', 'sequence', '', 'l', '/acme/github', 'l-1', 'com.github.issues.labeled');

INSERT INTO old_ledger.events_w4 VALUES (4, 3, 0, 'be803db2-38c8-3c70-a149-311268e7a3e7', '2f8fe63a-6224-321d-e5d0-a24cf30067d3', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.554832+00', 1, 0, 1, 0, 3, 0, 1, 'applied', 'first', 'sequence', '', 'a', '/acme/github', 'a-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w4 VALUES (4, 3, 2, '49755624-fee4-b3d5-69c5-8a21dd325ffc', '3e499e75-2620-c6a9-0ed5-9a200a181324', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.554832+00', 2, 0, 1, 0, 3, 0, 1, 'applied', 'first', 'sequence', '', 'b', '/acme/github', 'b-1', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w4 VALUES (4, 3, 1, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', '2cb72cc6-8375-72f4-9baf-91e463c75685', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.554832+00', NULL, 0, 3, 0, 3, 0, 0, 'parked', 'gap_expired', 'sequence', '', 'a', '/acme/github', 'a-3', 'com.github.issues.labeled');
INSERT INTO old_ledger.events_w4 VALUES (4, 3, 20, '2466bec3-366e-f7f7-147d-24b5225cb47e', '77c10054-01bd-4fd1-dd7a-bead933235ef', '2023-11-14 22:13:20+00', '2026-11-21 09:22:50.588109+00', 3, 0, 2, 0, 3, 0, 1, 'applied', 'next', 'sequence', '', 'b', '/acme/github', 'b-2', 'com.github.issues.labeled');

INSERT INTO old_ledger.fences OVERRIDING SYSTEM VALUE VALUES (1, 1, 'events.acme.github', '01000000-0000-0000-0000-000000000000', 0, 1, '4863be0a-2dd8-9dd5-fc5b-e38ec4614d4a', 'test', '2026-11-21 09:22:49.878425+00', false);
INSERT INTO old_ledger.fences OVERRIDING SYSTEM VALUE VALUES (2, 1, 'events.acme.github', '01000000-0000-0000-0000-000000000000', 1, 1, 'bc4a45c7-7013-09b3-7d09-8cf1efb0b7e8', 'test', '2026-11-21 09:22:49.933549+00', true);
INSERT INTO old_ledger.fences OVERRIDING SYSTEM VALUE VALUES (3, 2, 'events.acme.github', '01000000-0000-0000-0000-000000000000', 0, 2, '6ec01a7e-c587-4010-4ed0-df0b15c3f425', 'test', '2026-11-21 09:22:50.581136+00', false);

INSERT INTO old_ledger.lines VALUES (1, 0, 2, 0, false, '2466bec3-366e-f7f7-147d-24b5225cb47e', 'sequence', NULL, NULL, 'b', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 1, 0, false, '59b5d3cd-0b9b-efcf-df11-94c8af523520', 'sequence', NULL, NULL, 'c', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 1, 0, false, 'b37aba85-816c-7b1d-c50f-fb825ce7869d', 'sequence', NULL, NULL, 'd', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 2, 0, false, '4381313e-ecc2-aa23-289c-1e87626c9e5f', 'sequence', NULL, NULL, 'e', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 1, 0, false, 'c784d889-5cf3-1050-0c27-9064ac3eb9ec', 'sequence', NULL, NULL, 'f', '');
INSERT INTO old_ledger.lines VALUES (2, 0, 2, 0, true, '019eba8f-303f-853d-2975-fac2f08f8155', 'sequence', NULL, NULL, 'h', '');
INSERT INTO old_ledger.lines VALUES (2, 0, 5, 0, false, '965a0f1a-2620-8b42-b5d2-f8fff77ad275', 'monotonic', NULL, NULL, 'm', '');
INSERT INTO old_ledger.lines VALUES (2, 0, 3, 0, false, '056d3a2c-2776-e7ec-daa3-8a95799689fc', 'sequence', NULL, NULL, 'g', '');
INSERT INTO old_ledger.lines VALUES (2, 0, 1, 0, false, 'dafe4014-4949-47cc-3a5e-c4dd7e1325fd', 'sequence', NULL, NULL, 'k', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 3, 0, false, '6574c567-7538-b97a-b43d-c19bfd1b1aa5', 'sequence', NULL, NULL, 'a', '');
INSERT INTO old_ledger.lines VALUES (1, 0, 1, 0, false, '0715d9fb-1736-2e42-1e7c-7b4fba4de431', 'sequence', NULL, NULL, 'l', '');
INSERT INTO old_ledger.lines VALUES (3, 0, 1, 0, false, 'be803db2-38c8-3c70-a149-311268e7a3e7', 'sequence', 'gap_expired', NULL, 'a', '');
INSERT INTO old_ledger.lines VALUES (3, 0, 2, 0, false, '2466bec3-366e-f7f7-147d-24b5225cb47e', 'sequence', NULL, NULL, 'b', '');

INSERT INTO old_ledger.migrations VALUES (1, 0, true, '2026-11-21 09:22:49.154173');
INSERT INTO old_ledger.migrations VALUES (2, 1, true, '2026-11-21 09:22:49.185616');

INSERT INTO old_ledger.progress VALUES (2, 15, 3, 15, 15, 1, 3, '2023-11-14 22:13:21+00', '2026-11-21 09:22:50.159986+00');
INSERT INTO old_ledger.progress VALUES (1, 12, 3, 12, 23, 1, 3, '2023-11-14 22:13:21+00', '2026-11-21 09:22:50.198348+00');
INSERT INTO old_ledger.progress VALUES (3, 21, 3, 21, 4, 1, 5, '2023-11-14 22:13:21+00', '2026-11-21 09:22:50.588109+00');

INSERT INTO old_ledger.seeks OVERRIDING SYSTEM VALUE VALUES (1, 3, 3, 20, DEFAULT, 2, 'test', '2026-11-21 09:22:50.581136+00');

INSERT INTO old_ledger.subscriptions OVERRIDING SYSTEM VALUE VALUES (1, 'acme.triage', 0, '24:00:00', '2026-11-21 09:22:49.467992+00', NULL);
INSERT INTO old_ledger.subscriptions OVERRIDING SYSTEM VALUE VALUES (2, 'acme.parks', 0, NULL, '2026-11-21 09:22:50.203739+00', NULL);

INSERT INTO old_ledger.topics VALUES (1, 'events.acme.github', '01000000-0000-0000-0000-000000000000', 8, '2026-11-21 09:22:49.878425+00');
INSERT INTO old_ledger.topics VALUES (2, 'events.acme.github', '01000000-0000-0000-0000-000000000000', 8, '2026-11-21 09:22:50.545801+00');

INSERT INTO old_ledger.windows OVERRIDING SYSTEM VALUE VALUES (1, 1, 'closed', '2026-08-13 09:22:49.467992+00', '2026-11-21 09:22:49.961788+00');
INSERT INTO old_ledger.windows OVERRIDING SYSTEM VALUE VALUES (2, 1, 'current', '2026-11-21 09:22:49.961788+00', NULL);
INSERT INTO old_ledger.windows OVERRIDING SYSTEM VALUE VALUES (3, 1, 'ahead', NULL, NULL);
INSERT INTO old_ledger.windows OVERRIDING SYSTEM VALUE VALUES (4, 2, 'current', '2026-11-21 09:22:50.203739+00', NULL);
INSERT INTO old_ledger.windows OVERRIDING SYSTEM VALUE VALUES (5, 2, 'ahead', NULL, NULL);

SELECT pg_catalog.setval('old_ledger.effects_id_seq', 3, true);

SELECT pg_catalog.setval('old_ledger.fences_id_seq', 4, true);

SELECT pg_catalog.setval('old_ledger.migrations_id_seq', 2, true);

SELECT pg_catalog.setval('old_ledger.seeks_id_seq', 1, true);

SELECT pg_catalog.setval('old_ledger.subscriptions_id_seq', 2, true);

SELECT pg_catalog.setval('old_ledger.windows_id_seq', 5, true);

ALTER TABLE ONLY old_ledger.begins
    ADD CONSTRAINT begins_pkey PRIMARY KEY (subscription, topic_id, partition);

ALTER TABLE ONLY old_ledger.buffer
    ADD CONSTRAINT buffer_pkey PRIMARY KEY (fence, log_offset);

ALTER TABLE ONLY old_ledger.effects
    ADD CONSTRAINT effects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY old_ledger.effects
    ADD CONSTRAINT effects_subscription_name_destination_on_dead_key UNIQUE (subscription, name, destination, on_dead);

ALTER TABLE ONLY old_ledger.fences
    ADD CONSTRAINT fences_pkey PRIMARY KEY (id);

ALTER TABLE ONLY old_ledger.fences
    ADD CONSTRAINT fences_subscription_topic_id_partition_key UNIQUE (subscription, topic_id, partition);

ALTER TABLE ONLY old_ledger.lines
    ADD CONSTRAINT lines_pkey PRIMARY KEY (fence, entity, clock);

ALTER TABLE ONLY old_ledger.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY old_ledger.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (fence);

ALTER TABLE ONLY old_ledger.seeks
    ADD CONSTRAINT seeks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY old_ledger.subscriptions
    ADD CONSTRAINT subscriptions_name_generation_key UNIQUE (name, generation);

ALTER TABLE ONLY old_ledger.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY old_ledger.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (subscription, topic);

ALTER TABLE ONLY old_ledger.windows
    ADD CONSTRAINT windows_pkey PRIMARY KEY (id);

CREATE INDEX actions_w1_held ON old_ledger.actions_w1 USING btree (fence, lane_seq) WHERE held;

CREATE UNIQUE INDEX actions_w1_lane ON old_ledger.actions_w1 USING btree (fence, lane_seq);

CREATE INDEX actions_w2_held ON old_ledger.actions_w2 USING btree (fence, lane_seq) WHERE held;

CREATE UNIQUE INDEX actions_w2_lane ON old_ledger.actions_w2 USING btree (fence, lane_seq);

CREATE INDEX actions_w3_held ON old_ledger.actions_w3 USING btree (fence, lane_seq) WHERE held;

CREATE UNIQUE INDEX actions_w3_lane ON old_ledger.actions_w3 USING btree (fence, lane_seq);

CREATE INDEX actions_w4_held ON old_ledger.actions_w4 USING btree (fence, lane_seq) WHERE held;

CREATE UNIQUE INDEX actions_w4_lane ON old_ledger.actions_w4 USING btree (fence, lane_seq);

CREATE INDEX actions_w5_held ON old_ledger.actions_w5 USING btree (fence, lane_seq) WHERE held;

CREATE UNIQUE INDEX actions_w5_lane ON old_ledger.actions_w5 USING btree (fence, lane_seq);

CREATE INDEX asides_w1_decided ON old_ledger.asides_w1 USING btree (decided_at);

CREATE UNIQUE INDEX asides_w1_place ON old_ledger.asides_w1 USING btree (fence, log_offset);

CREATE INDEX asides_w2_decided ON old_ledger.asides_w2 USING btree (decided_at);

CREATE UNIQUE INDEX asides_w2_place ON old_ledger.asides_w2 USING btree (fence, log_offset);

CREATE INDEX asides_w3_decided ON old_ledger.asides_w3 USING btree (decided_at);

CREATE UNIQUE INDEX asides_w3_place ON old_ledger.asides_w3 USING btree (fence, log_offset);

CREATE INDEX asides_w4_decided ON old_ledger.asides_w4 USING btree (decided_at);

CREATE UNIQUE INDEX asides_w4_place ON old_ledger.asides_w4 USING btree (fence, log_offset);

CREATE INDEX asides_w5_decided ON old_ledger.asides_w5 USING btree (decided_at);

CREATE UNIQUE INDEX asides_w5_place ON old_ledger.asides_w5 USING btree (fence, log_offset);

CREATE UNIQUE INDEX attempts_w1_attempt ON old_ledger.attempts_w1 USING btree (fence, lane_seq, attempt);

CREATE UNIQUE INDEX attempts_w2_attempt ON old_ledger.attempts_w2 USING btree (fence, lane_seq, attempt);

CREATE UNIQUE INDEX attempts_w3_attempt ON old_ledger.attempts_w3 USING btree (fence, lane_seq, attempt);

CREATE UNIQUE INDEX attempts_w4_attempt ON old_ledger.attempts_w4 USING btree (fence, lane_seq, attempt);

CREATE UNIQUE INDEX attempts_w5_attempt ON old_ledger.attempts_w5 USING btree (fence, lane_seq, attempt);

CREATE INDEX buffer_by_deadline ON old_ledger.buffer USING btree (fence, deadline) WHERE (deadline IS NOT NULL);

CREATE INDEX buffer_by_line ON old_ledger.buffer USING btree (fence, entity, clock);

CREATE INDEX buffer_by_window ON old_ledger.buffer USING btree (window_id);

CREATE INDEX events_w1_decided ON old_ledger.events_w1 USING btree (decided_at);

CREATE UNIQUE INDEX events_w1_key ON old_ledger.events_w1 USING btree (event_key);

CREATE INDEX events_w2_decided ON old_ledger.events_w2 USING btree (decided_at);

CREATE UNIQUE INDEX events_w2_key ON old_ledger.events_w2 USING btree (event_key);

CREATE INDEX events_w3_decided ON old_ledger.events_w3 USING btree (decided_at);

CREATE UNIQUE INDEX events_w3_key ON old_ledger.events_w3 USING btree (event_key);

CREATE INDEX events_w4_decided ON old_ledger.events_w4 USING btree (decided_at);

CREATE UNIQUE INDEX events_w4_key ON old_ledger.events_w4 USING btree (event_key);

CREATE INDEX events_w5_decided ON old_ledger.events_w5 USING btree (decided_at);

CREATE UNIQUE INDEX events_w5_key ON old_ledger.events_w5 USING btree (event_key);

CREATE INDEX seeks_by_fence ON old_ledger.seeks USING btree (fence, id);

CREATE UNIQUE INDEX windows_ahead ON old_ledger.windows USING btree (subscription) WHERE (state = 'ahead'::text);

CREATE INDEX windows_by_subscription ON old_ledger.windows USING btree (subscription, id);

CREATE UNIQUE INDEX windows_current ON old_ledger.windows USING btree (subscription) WHERE (state = 'current'::text);

ALTER TABLE ONLY old_ledger.begins
    ADD CONSTRAINT begins_subscription_fkey FOREIGN KEY (subscription) REFERENCES old_ledger.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.effects
    ADD CONSTRAINT effects_subscription_fkey FOREIGN KEY (subscription) REFERENCES old_ledger.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.fences
    ADD CONSTRAINT fences_subscription_fkey FOREIGN KEY (subscription) REFERENCES old_ledger.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.progress
    ADD CONSTRAINT progress_fence_fkey FOREIGN KEY (fence) REFERENCES old_ledger.fences(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.seeks
    ADD CONSTRAINT seeks_fence_fkey FOREIGN KEY (fence) REFERENCES old_ledger.fences(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.topics
    ADD CONSTRAINT topics_subscription_fkey FOREIGN KEY (subscription) REFERENCES old_ledger.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY old_ledger.windows
    ADD CONSTRAINT windows_subscription_fkey FOREIGN KEY (subscription) REFERENCES old_ledger.subscriptions(id) ON DELETE CASCADE;

