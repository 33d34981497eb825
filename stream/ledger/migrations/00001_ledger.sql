-- The first lineage of the ledger. Every table names its reader. Times are the database's clock except where a
-- column says otherwise. Keys and hashes are 16 bytes: type uuid holds them without a length word.
--
-- events, asides, actions and attempts are rotated: the hot path reads and writes the children of the live windows by
-- name (events_w17), which carry the keys; the parents exist for reading across windows. Children: window.sql.

-- +goose Up

-- Reader: Namespace (identity of a subscription's generation), Inbox and Subscriptions (names).
CREATE TABLE subscriptions (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL CHECK (name <> ''),
    generation int NOT NULL DEFAULT 0 CHECK (generation >= 0),
    -- How long dedupe remembers; null is for ever. Reader: sweep.
    dedupe     interval CHECK (dedupe > interval '0'),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Set once, with begins. Reader: Began.
    began_at   timestamptz,
    UNIQUE (name, generation)
);

-- Reader: Claim of a partition that was never claimed (through Begin's answer).
CREATE TABLE begins (
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    topic        text COLLATE "C" NOT NULL,
    topic_id     uuid NOT NULL,
    partition    int NOT NULL CHECK (partition >= 0),
    log_offset   bigint NOT NULL CHECK (log_offset >= 0),
    PRIMARY KEY (subscription, topic_id, partition)
);

-- Reader: Claim (a topic that was recreated, or has another number of partitions, is refused).
CREATE TABLE topics (
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    topic        text COLLATE "C" NOT NULL,
    topic_id     uuid NOT NULL,
    partitions   int NOT NULL CHECK (partitions > 0),
    seen_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription, topic)
);

-- What a subscription does for an event; actions point here. Reader: Namespace, Open, Inbox.
CREATE TABLE effects (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    name         text COLLATE "C" NOT NULL,
    destination  text COLLATE "C" NOT NULL,
    on_dead      text COLLATE "C" NOT NULL CHECK (on_dead IN ('park', 'continue')),
    UNIQUE (subscription, name, destination, on_dead)
);

-- The right to write one partition's gate and lanes. Claims lock a row FOR UPDATE, everything else FOR KEY SHARE.
-- Reader: every transaction that writes; Subscriptions.
CREATE TABLE fences (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    topic        text COLLATE "C" NOT NULL,
    topic_id     uuid NOT NULL,
    partition    int NOT NULL CHECK (partition >= 0),
    epoch        bigint NOT NULL DEFAULT 0,
    token        uuid,
    owner        text NOT NULL DEFAULT '',
    claimed_at   timestamptz,
    released     boolean NOT NULL DEFAULT true,
    UNIQUE (subscription, topic_id, partition)
) WITH (fillfactor = 50);

-- Where a partition stands. A row of its own, so that moving it never touches the fence. Reader: Claim, Apply, Open
-- (lane_low), sweep (processed_at), Subscriptions.
CREATE TABLE progress (
    fence         int PRIMARY KEY REFERENCES fences ON DELETE CASCADE,
    next_offset   bigint NOT NULL CHECK (next_offset >= 0),
    leader_epoch  int NOT NULL,
    -- The highest next_offset ever: below it, records come again after a rewind.
    high_offset   bigint NOT NULL CHECK (high_offset >= next_offset),
    next_lane_seq bigint NOT NULL DEFAULT 1 CHECK (next_lane_seq > 0),
    -- Every action below is finished or held.
    lane_low      bigint NOT NULL DEFAULT 1 CHECK (lane_low > 0),
    -- Grows with every batch: tells after an unknown COMMIT whether it happened.
    revision      bigint NOT NULL DEFAULT 0,
    -- Broker's append time up to which the partition has been processed.
    processed_at  timestamptz NOT NULL DEFAULT '-infinity',
    updated_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20);

-- Changes of position by an operator. Reader: Subscriptions (status views).
CREATE TABLE seeks (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence        int NOT NULL REFERENCES fences ON DELETE CASCADE,
    from_offset  bigint NOT NULL,
    to_offset    bigint NOT NULL,
    -- Offsets passed over by a forward seek; 0 for a rewind.
    skipped      bigint GENERATED ALWAYS AS (greatest(to_offset - from_offset, 0)) STORED,
    epoch        bigint NOT NULL,
    owner        text NOT NULL,
    found_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX seeks_by_fence ON seeks (fence, id);

-- The rotation: which children are live. Reader: every batch (in its first round trip), sweep, Inbox.
CREATE TABLE windows (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    -- ahead: created, not yet written; current: written; closed: read for dedupe until it is dropped.
    state        text COLLATE "C" NOT NULL CHECK (state IN ('ahead', 'current', 'closed')),
    opened_at    timestamptz,
    closed_at    timestamptz CHECK (closed_at >= opened_at),
    CHECK ((state = 'ahead') = (opened_at IS NULL)),
    CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
CREATE UNIQUE INDEX windows_current ON windows (subscription) WHERE state = 'current';
CREATE UNIQUE INDEX windows_ahead ON windows (subscription) WHERE state = 'ahead';
CREATE INDEX windows_by_subscription ON windows (subscription, id);

-- The dedupe memory and the inbox: one row per event that was decided and is remembered.
-- Reader: Apply (seen), Open (identity of actions), Inbox.
CREATE TABLE events (
    window_id    int NOT NULL,
    fence        int NOT NULL,
    log_offset   bigint NOT NULL,
    event_key    uuid NOT NULL,
    hash         uuid NOT NULL,
    received_at  timestamptz NOT NULL, -- the intake's clock
    decided_at   timestamptz NOT NULL,
    lane_seq     bigint, -- of the event's first action; null: it has none
    epoch        bigint NOT NULL,
    value        bigint NOT NULL,
    sub          int NOT NULL,
    leader_epoch int NOT NULL,
    duplicates   int NOT NULL DEFAULT 0,
    actions      smallint NOT NULL DEFAULT 0,
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('applied', 'late', 'stale', 'buffered', 'parked')),
    reason       text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    clock        text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL CHECK (source <> ''),
    event_id     text COLLATE "C" NOT NULL CHECK (event_id <> ''),
    type         text COLLATE "C" NOT NULL,
    CHECK ((lane_seq IS NULL) = (actions = 0))
) PARTITION BY LIST (window_id);

-- Decisions that are not remembered as seen: conflict, filtered, quarantined. One row per place in the log.
-- Reader: Inbox; raw is what a redrive of a quarantined record takes.
CREATE TABLE asides (
    window_id    int NOT NULL,
    fence        int NOT NULL,
    log_offset   bigint NOT NULL,
    leader_epoch int NOT NULL,
    event_key    uuid,
    hash         uuid,
    first_hash   uuid, -- of the event that came first, for a conflict
    received_at  timestamptz,
    decided_at   timestamptz NOT NULL,
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('conflict', 'filtered', 'quarantined')),
    reason       text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    epoch        bigint NOT NULL,
    value        bigint NOT NULL,
    sub          int NOT NULL,
    clock        text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    error        text,
    raw          bytea,
    CHECK (decision <> 'conflict' OR (event_key IS NOT NULL AND hash IS NOT NULL AND first_hash IS NOT NULL))
) PARTITION BY LIST (window_id);

-- One row per effect of an event. Inserted open, completed by a HOT update: no column of an index changes on the way
-- from pending to done. held marks what stands apart from the plain way, so that loading after a claim reads
-- lane_low upwards plus the held ones. Reader: Open, Inbox.
CREATE TABLE actions (
    window_id    int NOT NULL,
    fence        int NOT NULL,
    lane_seq     bigint NOT NULL CHECK (lane_seq > 0),
    event_key    uuid NOT NULL,
    event_window int NOT NULL,
    effect       int NOT NULL,
    created_at   timestamptz NOT NULL,
    first_at     timestamptz,
    next_at      timestamptz,
    finished_at  timestamptz,
    attempts     int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    code         int NOT NULL DEFAULT 0,
    latency_us   int NOT NULL DEFAULT 0,
    held         boolean NOT NULL DEFAULT false,
    status       text COLLATE "C" NOT NULL DEFAULT 'pending'
                 CHECK (status IN ('pending', 'failed', 'done', 'dead_letter', 'parked', 'unknown')),
    class        text COLLATE "C",
    error        text,
    response     bytea,
    packed       bytea,
    CHECK (held = (status NOT IN ('pending', 'done'))),
    CHECK ((finished_at IS NULL) = (status NOT IN ('done', 'dead_letter'))),
    CHECK ((next_at IS NULL) = (status <> 'failed'))
) PARTITION BY LIST (window_id);

-- Attempts that did not simply succeed at once; a first attempt that succeeds is told by its action's row.
-- Reader: InboxItem.
CREATE TABLE attempts (
    window_id  int NOT NULL,
    fence      int NOT NULL,
    lane_seq   bigint NOT NULL,
    attempt    int NOT NULL CHECK (attempt > 0),
    ended_at   timestamptz NOT NULL,
    status     text COLLATE "C" NOT NULL,
    class      text COLLATE "C" NOT NULL,
    code       int NOT NULL,
    latency_us int NOT NULL,
    error      text NOT NULL,
    response   bytea
) PARTITION BY LIST (window_id);

-- The newest version of each of an entity's clocks. Reader: the gate, through Apply and Expire.
CREATE TABLE lines (
    fence     int NOT NULL,
    epoch     bigint NOT NULL,
    value     bigint NOT NULL,
    sub       int NOT NULL,
    filtered  boolean NOT NULL,
    event_key uuid NOT NULL,
    kind      text COLLATE "C" NOT NULL CHECK (kind IN ('sequence', 'monotonic', 'timestamp', 'none')),
    parked    text COLLATE "C", -- reason; null: not parked
    skipped   bigint[], -- from, to, from, to, ...; null: none
    entity    text COLLATE "C" NOT NULL,
    clock     text COLLATE "C" NOT NULL,
    PRIMARY KEY (fence, entity, clock)
) WITH (fillfactor = 60);

-- Events that wait for those before them, with their payload: they must outlive the log.
-- Reader: the gate, through Apply and Expire; NextDeadline.
CREATE TABLE buffer (
    fence        int NOT NULL,
    log_offset   bigint NOT NULL,
    window_id    int NOT NULL, -- of the event's row
    leader_epoch int NOT NULL,
    append_time  timestamptz NOT NULL, -- the broker's
    received_at  timestamptz NOT NULL, -- the intake's
    deadline     timestamptz,
    event_key    uuid NOT NULL,
    hash         uuid NOT NULL,
    epoch        bigint NOT NULL,
    value        bigint NOT NULL,
    sub          int NOT NULL,
    first        bigint,
    deleted      boolean NOT NULL,
    filtered     boolean NOT NULL,
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('buffered', 'parked')),
    payload      text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    clock        text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    packed       bytea NOT NULL,
    PRIMARY KEY (fence, log_offset),
    CHECK ((deadline IS NULL) = (decision = 'parked'))
);
CREATE INDEX buffer_by_line ON buffer (fence, entity, clock);
CREATE INDEX buffer_by_deadline ON buffer (fence, deadline) WHERE deadline IS NOT NULL;
CREATE INDEX buffer_by_window ON buffer (window_id);
