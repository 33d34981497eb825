-- The ledger. Every table names its reader. Times are the database's clock except where a column says otherwise. Keys and
-- hashes are 16 bytes: type uuid holds them without a length word.
--
-- events, rejected_records, actions, completions and attempts are rotated: the hot path reads and writes the children of the live
-- windows by name (events_w17), which carry the keys; the parents exist for reading across windows. Children: window.sql.
--
-- An action that ends as most do, by its first attempt, has no row in actions: the event's row says that it is wanted
-- (lane_seq, actions, plan), a row of completions for up to a thousand of them says that it is done.

-- +goose Up

-- Which ledger this is, wherever its rows are moved to: other ledgers have fences, lanes and attempts of the same numbers. One row. Reader:
-- Open (through ID, for the tokens of attempts).
CREATE TABLE identity (
    id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO identity DEFAULT VALUES;

-- Reader: Namespace (identity of a subscription's generation), Inbox and Subscriptions (names).
CREATE TABLE subscriptions (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL CHECK (name <> ''),
    generation int NOT NULL DEFAULT 0 CHECK (generation >= 0),
    -- How long dedupe remembers; null is for ever. Reader: sweep.
    dedupe     interval CHECK (dedupe > interval '0'),
    -- How long finished and dead actions stay readable, with what belongs to them; null: as the sweep is told. Reader: sweep.
    keep_done  interval CHECK (keep_done > interval '0'),
    keep_dead  interval CHECK (keep_dead > interval '0'),
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
    -- When the subscription went over to another topic (HandOver); a later claim of a partition is a return. Reader: sweep.
    left_at      timestamptz,
    PRIMARY KEY (subscription, topic)
);

-- Members of a subscription's group, and the advisory lock that the process of each holds while it lives. The row of a process that died
-- stays until its member is taken out of the group. Reader: presence.
CREATE TABLE members (
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    member       text COLLATE "C" NOT NULL CHECK (member <> ''),
    presence     bigint NOT NULL,
    -- When the server began that gave the lock. On another one it says nothing that the lock is free.
    server       timestamptz NOT NULL,
    -- The lock was free for longer than its process takes itself for present without an answer: the member is to leave.
    judged       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (subscription, member)
);

-- One thing that a subscription does for an event; actions point here. Reader: Namespace, Open, Inbox.
CREATE TABLE effects (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    name         text COLLATE "C" NOT NULL,
    destination  text COLLATE "C" NOT NULL,
    on_dead      text COLLATE "C" NOT NULL CHECK (on_dead IN ('park', 'continue')),
    UNIQUE (subscription, name, destination, on_dead)
);

-- The effects of an event's actions, in listed order; events point here. Reader: Open, Inbox, Record.
CREATE TABLE plans (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    effects      int[] NOT NULL,
    UNIQUE (subscription, effects)
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
    -- The id of the topic that was deleted and created again under this name. Actions with a lane_seq below lanes_from, and
    -- rejected records in places below places, are from then. Reader: Claim, Open, WithoutCopy, Apply (places), Inbox, DeadLetters.
    former       uuid,
    lanes_from   bigint NOT NULL DEFAULT 1,
    places       bigint NOT NULL DEFAULT 0,
    -- Of a partition of a topic's copy: the id of the topic that was copied. What waits there goes along with the first claim.
    -- Reader: Claim.
    copy_of      uuid,
    -- The hand-over to this partition of a copy is void: the topic that was copied was claimed since, or copied again, so that
    -- the copy lacks what came there. Reader: Claim, Leave, sweep.
    copy_void    boolean NOT NULL DEFAULT false,
    -- Where the partitions of the topic that was copied ended, by number: what is written there later is not in the copy.
    -- Reader: Claim (through Standing).
    copy_ends    bigint[],
    -- An owner that did not release its fence may have attempted the first open action of each entity and not recorded it. Of
    -- those below doubt_to this is so since doubt_at; a release keeps both until all of them are recorded. Reader: Claim.
    doubt_to     bigint NOT NULL DEFAULT 0,
    doubt_at     timestamptz,
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
    -- What the events below this lane_seq did is in the rows of version_lines. Reader: Claim, Forget, HandOver, sweep.
    dirty_lines_from bigint NOT NULL DEFAULT 1,
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

-- What operators ask of a partition's owner: to go on at another offset. A claim carries it out, in its transaction; the owner of a
-- partition that runs claims it again for that. Reader: Commands (which partitions), Claim (through Standing), SeekRequests.
CREATE TABLE seek_requests (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence        int NOT NULL REFERENCES fences ON DELETE CASCADE,
    topic_id     uuid NOT NULL, -- whose offset it is: a topic that was created again may have the fence by now
    to_offset    bigint NOT NULL CHECK (to_offset >= 0),
    asked_by     text NOT NULL CHECK (asked_by <> ''),
    reason       text NOT NULL CHECK (reason <> ''),
    asked_at     timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    -- refused: the topic was created again since, and nothing was moved. replaced: by a later request.
    outcome      text COLLATE "C" CHECK (outcome IN ('moved', 'refused', 'replaced')),
    from_offset  bigint, -- the position that it moved from
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((outcome = 'moved') = (from_offset IS NOT NULL))
);
CREATE UNIQUE INDEX seek_requests_open ON seek_requests (fence) WHERE ended_at IS NULL;
CREATE INDEX seek_requests_by_fence ON seek_requests (fence, id);

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
    -- When it was parked after a wait, and when it left the gap buffer; null: it did not. Reader: Inbox.
    parked_at    timestamptz,
    released_at  timestamptz,
    lane_seq     bigint, -- of the event's first action; null: it has none
    epoch        bigint NOT NULL,
    value        bigint NOT NULL,
    sub          int NOT NULL,
    leader_epoch int NOT NULL,
    duplicates   int NOT NULL DEFAULT 0,
    plan         int, -- null: the event has no actions
    -- The window of the rows of the event's actions; null: no row needs to be, and if one is, it is in the event's own
    -- window. Set for events that left the gap buffer.
    lane_window  int,
    actions      smallint NOT NULL DEFAULT 0,
    -- The replay that runs the event again, as a generation of its own; its event_key is that generation's. null: it is the subscription's own.
    replay       int,
    delta        boolean, -- the payload is a delta; null: not written down, the subscription's backlog is not latest. Reader: Open
    -- duplicate: another event has said the same, by the subscription's second key. What comes again under its own id has no row.
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('applied', 'late', 'stale', 'buffered', 'parked', 'duplicate')),
    reason       text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    clock        text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL CHECK (source <> ''),
    event_id     text COLLATE "C" NOT NULL CHECK (event_id <> ''),
    type         text COLLATE "C" NOT NULL,
    version_text         text COLLATE "C" NOT NULL DEFAULT '', -- Version.Text; empty: the version is a number
    CHECK ((lane_seq IS NULL) = (actions = 0))
) PARTITION BY LIST (window_id);

-- Second keys of events: which event came first with each. A row outlives the time for which it counts, so that a rewind decides as before.
-- Reader: Apply, sweep.
CREATE TABLE second_keys (
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    key          uuid NOT NULL, -- its hash
    event_key    uuid NOT NULL,
    appended_at  timestamptz NOT NULL, -- the broker's clock
    decided_at   timestamptz NOT NULL,
    gone_at      timestamptz NOT NULL, -- when the sweep deletes it
    PRIMARY KEY (subscription, key)
);
CREATE INDEX second_keys_gone ON second_keys (subscription, gone_at);

-- What programs said about an entity, for each action that answers it: loops are counted of it. Reader: Said, sweep.
CREATE TABLE sayings (
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    source       text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    action       text COLLATE "C" NOT NULL,
    event_key    uuid NOT NULL,
    said_at      timestamptz NOT NULL, -- the intake's clock
    gone_at      timestamptz NOT NULL, -- when the sweep deletes it
    PRIMARY KEY (subscription, source, entity, action, event_key)
);
CREATE INDEX sayings_gone ON sayings (subscription, gone_at);

-- Decisions that are not remembered as seen: conflict, filtered, quarantined. One row per place in the log.
-- Reader: Inbox; raw is what a redrive of a quarantined record takes.
CREATE TABLE rejected_records (
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
    version_text         text COLLATE "C" NOT NULL DEFAULT '',
    error        text,
    raw          bytea,
    -- When the record was produced again, or discarded, by whom and why; null: neither. Reader: Redrive, Inbox, Attention.
    redriven_at     timestamptz,
    redriven_by     text COLLATE "C",
    redriven_reason text,
    discarded       boolean NOT NULL DEFAULT false, -- an operator has seen it and leaves it at that: it was not produced again
    CONSTRAINT rejected_records_redriven CHECK ((redriven_at IS NULL) = (redriven_by IS NULL) AND (redriven_at IS NULL) = (redriven_reason IS NULL)),
    CONSTRAINT rejected_records_discarded CHECK (NOT discarded OR redriven_at IS NOT NULL),
    CHECK (decision <> 'conflict' OR (event_key IS NOT NULL AND hash IS NOT NULL AND first_hash IS NOT NULL))
) PARTITION BY LIST (window_id);

-- Actions that went another way than done by the first attempt. open: a claim has to load it. No column of an index changes
-- on the way from pending to done, so that the update stays on its page. Reader: Open, Inbox, DeadLetters.
CREATE TABLE actions (
    window_id    int NOT NULL,
    fence        int NOT NULL,
    lane_seq     bigint NOT NULL CHECK (lane_seq > 0),
    event_key    uuid NOT NULL,
    -- The 16 bytes of its id; null in rows that no attempt has written. Reader: FindAction.
    action_id    uuid,
    event_window int NOT NULL,
    effect       int NOT NULL,
    created_at   timestamptz NOT NULL,
    first_at     timestamptz,
    next_at      timestamptz,
    finished_at  timestamptz,
    replayed_at  timestamptz, -- when it was asked to run again
    -- processing: the destination has taken the action and its result is waited for until result_by; where silence_us is set, no
    -- longer than that after its last sign of life, beat_at. Reader: Open, Quiet, Inbox.
    result_by    timestamptz,
    beat_at      timestamptz, -- the one column that others than the owner write
    silence_us   bigint CHECK (silence_us > 0),
    -- Where its destination wants to be told that the result is not wanted any more; null: nowhere, or it was told. Reader: Open
    cancel_url   text COLLATE "C",
    newer_at     timestamptz, -- since when that is so, because its entity has a newer version (on_newer: cancel). Reader: Open, ActionState
    doubt_end    timestamptz, -- an attempt may have been made before the first that is recorded, and was over by then
    attempts     int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The epoch of the owner that made the last recorded attempt. One that an owner did not record before it was killed may have the
    -- same number. Reader: Open, Reports, Beat, ActionState.
    attempt_epoch bigint NOT NULL DEFAULT 0,
    spent        int NOT NULL DEFAULT 0 CHECK (spent >= 0), -- attempts that the retry policy does not count: before it was last run again, or while its destination was away
    code         int NOT NULL DEFAULT 0,
    latency_us   int NOT NULL DEFAULT 0,
    deaths       smallint NOT NULL DEFAULT 0 CHECK (deaths >= 0), -- how often it had become a dead letter when it was last run again
    exported     smallint NOT NULL DEFAULT 0, -- how many of its deaths the dead topic has. Reader: Unexported
    open         boolean NOT NULL DEFAULT true,
    forced       boolean NOT NULL DEFAULT false, -- it runs whatever has been started since: somebody wants it so, or it had parked its lane
    guarded      boolean NOT NULL DEFAULT false, -- a guard has decided its status: dead, it parks its lane whatever on_dead says
    twice        boolean NOT NULL DEFAULT false, -- whoever had it run again knows that it may be done twice
    status       text COLLATE "C" NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'failed', 'processing', 'done',
                 'dead_letter', 'parked', 'unknown', 'stale', 'discarded', 'superseded', 'skipped', 'dropped', 'denied', 'waiting_approval', 'waiting_budget')),
    class        text COLLATE "C",
    error        text,
    response     bytea,
    packed       bytea,
    CONSTRAINT actions_open CHECK (open = (status NOT IN ('done', 'stale', 'discarded', 'superseded', 'skipped', 'dropped', 'denied'))),
    CONSTRAINT actions_finished CHECK ((finished_at IS NULL) = (status NOT IN ('done', 'dead_letter', 'stale', 'discarded', 'superseded', 'skipped', 'dropped', 'denied'))),
    CONSTRAINT actions_next CHECK ((next_at IS NULL) = (status NOT IN ('failed', 'waiting_approval', 'waiting_budget'))),
    CONSTRAINT actions_processing CHECK (status <> 'processing' OR result_by IS NOT NULL AND beat_at IS NOT NULL),
    CONSTRAINT actions_superseded CHECK (status <> 'superseded' OR attempts = 0 OR class IS NOT DISTINCT FROM 'newer')
) PARTITION BY LIST (window_id);

-- First attempts that succeeded: lane_seq is bucket * 1024 + lane. A result that is recorded twice may stand here twice.
-- Reader: Claim (what is done), Inbox, sweep.
CREATE TABLE completions (
    window_id   int NOT NULL,
    fence       int NOT NULL,
    bucket      bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    code        int NOT NULL,
    superseded  boolean NOT NULL DEFAULT false, -- the actions of the row were superseded, and never tried. Reader: Inbox
    lanes       smallint[] NOT NULL,
    latency_us  int[] NOT NULL,
    response    bytea[], -- null: all of them were empty
    CHECK (cardinality(lanes) = cardinality(latency_us)),
    CHECK (response IS NULL OR cardinality(lanes) = cardinality(response))
) PARTITION BY LIST (window_id);
ALTER TABLE completions ALTER COLUMN lanes SET STORAGE EXTERNAL, ALTER COLUMN latency_us SET STORAGE EXTERNAL;

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
    response   bytea,
    trace      uuid -- the event's W3C trace id; null: it has none
) PARTITION BY LIST (window_id);

-- The newest version of each of an entity's clocks. A line that simply moves on is written some thousands of events later, or
-- never where it has moved again: the rows of the events that moved it tell where to. Reader: the gate, through Apply and Expire.
CREATE TABLE version_lines (
    fence     int NOT NULL,
    epoch     bigint NOT NULL,
    value     bigint NOT NULL,
    -- The next lane_seq of the partition when the row was written; events from there on may have moved the line.
    as_of     bigint NOT NULL DEFAULT 0,
    sub       int NOT NULL,
    seen_in   int NOT NULL DEFAULT 0, -- the dedupe window that was current when the line moved last. Reader: Forget
    filtered  boolean NOT NULL,
    event_key uuid NOT NULL,
    kind      text COLLATE "C" NOT NULL CHECK (kind IN ('sequence', 'monotonic', 'timestamp', 'none')),
    parked    text COLLATE "C", -- reason; null: not parked
    skipped   bigint[], -- from, to, from, to, ...; null: none
    entity    text COLLATE "C" NOT NULL,
    clock     text COLLATE "C" NOT NULL,
    version_text      text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (fence, entity, clock)
) WITH (fillfactor = 60);

-- Events that wait for those before them, with their payload: they must outlive the log. held: kept alone for an operator;
-- the gate does not know of it any more. Reader: the gate, through Apply and Expire; NextDeadline; Release (commands), Inbox.
CREATE TABLE buffer (
    fence        int NOT NULL,
    log_offset   bigint NOT NULL,
    window_id    int NOT NULL, -- of the event's row
    leader_epoch int NOT NULL,
    append_time  timestamptz NOT NULL, -- the broker's
    received_at  timestamptz NOT NULL, -- the intake's
    deadline     timestamptz,
    buffered_at  timestamptz NOT NULL DEFAULT now(), -- for the cap by age
    event_key    uuid NOT NULL,
    hash         uuid NOT NULL,
    epoch        bigint NOT NULL,
    value        bigint NOT NULL,
    sub          int NOT NULL,
    first        bigint,
    deleted      boolean NOT NULL,
    filtered     boolean NOT NULL,
    unmatched    boolean NOT NULL DEFAULT false, -- filtered by match, not by types
    backfill     boolean NOT NULL DEFAULT false, -- a synthetic event
    repeats      boolean NOT NULL DEFAULT false, -- another event has said the same: it only fills its place
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('buffered', 'parked', 'held')),
    stage        text COLLATE "C" NOT NULL DEFAULT '' CHECK (stage IN ('', 'backfilling', 'releasing')),
    payload      text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    entity       text COLLATE "C" NOT NULL,
    clock        text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    version_text         text COLLATE "C" NOT NULL DEFAULT '',
    packed       bytea NOT NULL,
    PRIMARY KEY (fence, log_offset),
    CHECK ((deadline IS NULL) = (decision <> 'buffered' AND stage <> 'releasing'))
);
CREATE INDEX buffer_by_line ON buffer (fence, entity, clock, value);
CREATE INDEX buffer_by_deadline ON buffer (fence, deadline) WHERE deadline IS NOT NULL;
CREATE INDEX buffer_by_window ON buffer (window_id);
-- Reader: Attention.
CREATE INDEX buffer_standing ON buffer (decision, fence, log_offset) WHERE decision <> 'buffered';

-- Questions for what is missing on a line, put by the batch that found it missing. Reader: Backfills (the owner), Inbox.
CREATE TABLE backfills (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    entity      text COLLATE "C" NOT NULL,
    clock       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    epoch       bigint NOT NULL DEFAULT 0, -- of the line's counter; 0: its provider does not say
    from_value  bigint NOT NULL,
    to_value    bigint NOT NULL,
    reason      text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL,
    asked_at    timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    -- Why it failed; empty: it did not.
    failure     text COLLATE "C",
    detail      text,
    code        int,
    produced    int,
    CHECK ((ended_at IS NULL) = (failure IS NULL))
);
CREATE UNIQUE INDEX backfills_open ON backfills (fence, entity, clock) WHERE ended_at IS NULL;
CREATE INDEX backfills_by_line ON backfills (fence, entity, clock, id);
-- Reader: sweep.
CREATE INDEX backfills_ended ON backfills (fence, ended_at) WHERE ended_at IS NOT NULL;

-- What operators ask of a partition's owner, who alone writes its gate and lanes: about an event in the buffer (log_offset) or
-- about an action (lane_seq). detail is what goes with its kind. Reader: Commands (the owner), CommandStatus.
CREATE TABLE commands (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    kind        text COLLATE "C" NOT NULL,
    log_offset  bigint,
    lane_seq    bigint CHECK (lane_seq > 0),
    event_key   uuid NOT NULL,
    entity      text COLLATE "C" NOT NULL,
    clock       text COLLATE "C" NOT NULL,
    detail      jsonb,
    asked_by    text NOT NULL,
    reason      text NOT NULL CHECK (reason <> ''),
    asked_at    timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    outcome     text CHECK (outcome <> ''),
    epoch       bigint, -- of the claim that did it
    CHECK ((ended_at IS NULL) = (outcome IS NULL) AND (ended_at IS NULL) = (epoch IS NULL)),
    CONSTRAINT commands_about CHECK ((lane_seq IS NULL) <> (log_offset IS NULL)),
    CONSTRAINT commands_kind_check CHECK (
        log_offset IS NOT NULL AND kind IN ('release', 'discard') OR lane_seq IS NOT NULL AND kind IN ('replay', 'discard', 'resolve', 'ask'))
);
CREATE INDEX commands_open ON commands (fence, id) WHERE ended_at IS NULL;
-- Reader: AskAction. Of an action one thing is asked at a time.
CREATE UNIQUE INDEX commands_one ON commands (fence, lane_seq) WHERE lane_seq IS NOT NULL AND ended_at IS NULL;
-- Reader: DeadLetter (what was asked about an action).
CREATE INDEX commands_by_lane ON commands (fence, lane_seq, id) WHERE lane_seq IS NOT NULL;
-- Reader: sweep.
CREATE INDEX commands_ended ON commands (fence, ended_at) WHERE ended_at IS NOT NULL;

-- Tells the owners that listen: the payload is the subscription's id. Readers: Namespace.Listen. Who misses it sweeps.
-- +goose StatementBegin
CREATE FUNCTION commands_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('forebay_commands_' || TG_TABLE_SCHEMA, subscription::text) FROM fences WHERE id = NEW.fence;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER commands_notify AFTER INSERT ON commands FOR EACH ROW EXECUTE FUNCTION commands_notify();
CREATE TRIGGER seek_requests_notify AFTER INSERT ON seek_requests FOR EACH ROW EXECUTE FUNCTION commands_notify();

-- What destinations said later, one row per attempt: commands to the partition's owner, who alone writes its lanes.
-- Reader: Reports (the owner), Report (what was said before), ActionState, sweep.
CREATE TABLE results (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    lane_seq    bigint NOT NULL,
    attempt     int NOT NULL CHECK (attempt > 0),
    epoch       bigint NOT NULL CHECK (epoch > 0), -- of the owner that made the attempt
    status      text COLLATE "C" NOT NULL CHECK (status IN ('done', 'failed', 'dead_letter')),
    wait_us     bigint NOT NULL DEFAULT 0 CHECK (wait_us >= 0), -- before the next attempt, at least
    code        int NOT NULL DEFAULT 0,
    error       text NOT NULL DEFAULT '',
    response    bytea,
    cost        bigint NOT NULL DEFAULT 0 CHECK (cost >= 0), -- of the run, in millionths; 0: nothing was said
    digest      uuid NOT NULL, -- of what was said, to tell the same from another
    received_at timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    -- applied: it was the attempt's end; late: the action had ended, or was attempted again, and it changed nothing.
    outcome     text COLLATE "C" CHECK (outcome IN ('applied', 'late')),
    UNIQUE (fence, lane_seq, attempt, epoch),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX results_open ON results (fence, id) WHERE ended_at IS NULL;
CREATE INDEX results_ended ON results (fence, ended_at) WHERE ended_at IS NOT NULL;

-- What a partition was stopped for. An acceptance covers exactly the row that it is in: its kind, topic id and offsets.
-- The claim that goes on ends it, however it came to go on. Reader: Claim (a stop stands until it is accepted or the
-- position is moved, also when the log hides it by growing again), Stops (status views), Accept.
CREATE TABLE stops (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription    int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    topic           text COLLATE "C" NOT NULL,
    topic_id        uuid NOT NULL,
    partition       int NOT NULL CHECK (partition >= 0),
    kind            text COLLATE "C" NOT NULL CHECK (kind IN ('below_log_start', 'above_log_end', 'truncated',
                    'topic_recreated', 'ledger_behind', 'dedupe_forgotten')),
    -- The offsets concerned, [from, to), and where the partition goes on once they are accepted.
    from_offset     bigint NOT NULL,
    to_offset       bigint NOT NULL,
    resume_offset   bigint NOT NULL CHECK (resume_offset >= 0),
    records         bigint CHECK (records >= 0), -- null: nobody can count them
    -- Between which of the broker's append times they lie, as well as could be told; null: not known.
    first_at        timestamptz,
    last_at         timestamptz,
    detail          text NOT NULL,
    found_at        timestamptz NOT NULL DEFAULT now(),
    found_by        text NOT NULL,
    accepted_at     timestamptz,
    accepted_by     text,
    accepted_reason text CHECK (accepted_reason <> ''),
    ended_at        timestamptz,
    -- accepted: the claim rested on the acceptance; moved: it went on without, after a seek or a mend of the log;
    -- replaced: another stop was found.
    outcome         text COLLATE "C" CHECK (outcome IN ('accepted', 'moved', 'replaced')),
    ended_epoch     bigint, -- of the claim that ended it
    CHECK (from_offset <= to_offset OR kind = 'topic_recreated'),
    CHECK ((accepted_at IS NULL) = (accepted_by IS NULL) AND (accepted_at IS NULL) = (accepted_reason IS NULL)),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK (outcome IS DISTINCT FROM 'accepted' OR accepted_at IS NOT NULL)
);
CREATE UNIQUE INDEX stops_open ON stops (subscription, topic, partition) WHERE ended_at IS NULL;

-- Destinations that nothing has got through to for a while. Reader: every stream process, each second; writer: a process
-- at which a destination has failed for a minute, and one that gets through to it.
CREATE TABLE destinations (
    name          text COLLATE "C" PRIMARY KEY, -- "<team>/<destination>"
    failing_since timestamptz NOT NULL,
    away_since    timestamptz -- since when its breaker is open; null: it did not open
);

-- When breakers were open: no time of that counts for an action's retries. Kept for 30 days. Reader: a stream process that begins;
-- writer: the process that gets through again.
CREATE TABLE outages (
    destination   text COLLATE "C" NOT NULL,
    from_at       timestamptz NOT NULL,
    to_at         timestamptz NOT NULL
);
CREATE INDEX outages_to ON outages (to_at);

-- Pauses, and who ended them. Reader: every stream process, each second (those that stand), and the operator API.
CREATE TABLE pauses (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination   text COLLATE "C" NOT NULL,
    paused_at     timestamptz NOT NULL DEFAULT now(),
    paused_by     text NOT NULL CHECK (paused_by <> ''),
    class         text COLLATE "C" NOT NULL, -- of the last failure, where nobody asked for it; else empty
    reason        text NOT NULL CHECK (reason <> ''),
    ended_at      timestamptz,
    ended_by      text,
    ended_reason  text CHECK (ended_reason <> ''),
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX pauses_open ON pauses (destination) WHERE ended_at IS NULL;

-- Pauses of subscriptions, and who ended them. Reader: every stream process, each second (those that stand, and those of 30 days, since no
-- time of theirs counts for an action's retries), and the operator API.
CREATE TABLE subscription_pauses (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription  text COLLATE "C" NOT NULL, -- "<team>.<subscription>"
    paused_at     timestamptz NOT NULL DEFAULT now(),
    paused_by     text NOT NULL CHECK (paused_by <> ''),
    reason        text NOT NULL CHECK (reason <> ''),
    ended_at      timestamptz,
    ended_by      text,
    ended_reason  text CHECK (ended_reason <> ''),
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX subscription_pauses_open ON subscription_pauses (subscription) WHERE ended_at IS NULL;
CREATE INDEX subscription_pauses_ended ON subscription_pauses (ended_at);

-- What is used of limits that all processes share: budgets, loops and rates. A row whose until has passed says nothing. Readers: every stream
-- process, as it takes units; what operators list; sweep.
CREATE TABLE counters (
    name    text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    at      timestamptz NOT NULL, -- the window's beginning; of a bucket: until when it was drained
    used    bigint NOT NULL CHECK (used >= 0),
    cap     bigint NOT NULL, -- the limit, as it was when units were taken last
    unit    bigint NOT NULL CHECK (unit > 0), -- parts that used and cap count of a unit: above 1 of a bucket
    granted bigint NOT NULL, -- by the last statement, which reads it from here
    until   timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX counters_until ON counters (until);

-- Plans of replays, and what was asked of them. Reader: Replays (operators), ReplayParts (the owners).
CREATE TABLE replays (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription     int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    mode             text COLLATE "C" NOT NULL CHECK (mode IN ('fill', 'reprocess', 'shadow')),
    even_stale       boolean NOT NULL DEFAULT false, -- of reprocess: older snapshots run again, too
    filter           jsonb NOT NULL,
    config           text COLLATE "C" NOT NULL, -- a digest of what decides, as it was when the plan was made
    bounds           jsonb NOT NULL,            -- by partition, with how far each was counted
    counts           jsonb NOT NULL,
    rate             int NOT NULL CHECK (rate >= 0),       -- events that run in a second; 0 is no bound
    max_errors       int NOT NULL CHECK (max_errors >= 0), -- dead letters; with one more it ends
    planned_at       timestamptz NOT NULL DEFAULT now(),
    planned_by       text NOT NULL,
    counted_at       timestamptz, -- null: it is being counted still
    started_at       timestamptz,
    started_by       text,
    reason           text CHECK (reason <> ''),
    cancelled_at     timestamptz,
    cancelled_by     text,
    cancelled_reason text CHECK (cancelled_reason <> ''),
    CHECK ((started_at IS NULL) = (started_by IS NULL) AND (started_at IS NULL) = (reason IS NULL)),
    CHECK ((cancelled_at IS NULL) = (cancelled_by IS NULL) AND (cancelled_at IS NULL) = (cancelled_reason IS NULL))
);
CREATE INDEX replays_of ON replays (subscription, id);

-- How far a replay that was started has come in a partition. The partition's owner moves it, in the transactions that decide.
-- Reader: Replays, ReplayParts, ApplyReplay; NextDeadline and Expire (waits of what it brought do not end before it); sweep.
CREATE TABLE replay_parts (
    replay      bigint NOT NULL REFERENCES replays ON DELETE CASCADE,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    topic_id    uuid NOT NULL,
    from_offset bigint NOT NULL CHECK (from_offset >= 0),
    to_offset   bigint NOT NULL CHECK (to_offset > from_offset),
    next_offset bigint NOT NULL CHECK (next_offset BETWEEN from_offset AND to_offset),
    done        bigint NOT NULL DEFAULT 0, -- decided before, of reprocess: in this replay, and left out
    applied     bigint NOT NULL DEFAULT 0,
    late        bigint NOT NULL DEFAULT 0,
    stale       bigint NOT NULL DEFAULT 0,
    waits       bigint NOT NULL DEFAULT 0, -- buffered or parked
    rejected    bigint NOT NULL DEFAULT 0, -- filtered, in conflict or quarantined
    -- The lane_seqs that its transactions gave are in [lane_from, lane_to), with others. null: it gave none. Reader: ReplayParts, Replays.
    lane_from   bigint,
    lane_to     bigint,
    moved_at    timestamptz,
    ended_at    timestamptz,
    failure     text COLLATE "C" CHECK (failure IN ('', 'cancelled', 'errors', 'topic_recreated', 'topic_grown', 'retention', 'config_changed', 'unreadable', 'left')),
    detail      text,
    PRIMARY KEY (replay, fence),
    CHECK ((ended_at IS NULL) = (failure IS NULL)),
    CHECK (failure IS DISTINCT FROM '' OR next_offset = to_offset)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX replay_parts_open ON replay_parts (fence) WHERE ended_at IS NULL;

-- What a replay of mode shadow has found: how many events of a type were decided so, would be decided so now, and how that differs.
-- Reader: Shadow.
CREATE TABLE replay_shadows (
    replay  bigint NOT NULL REFERENCES replays ON DELETE CASCADE,
    fence   int NOT NULL REFERENCES fences ON DELETE CASCADE,
    type    text COLLATE "C" NOT NULL,
    was     text COLLATE "C" NOT NULL,
    would   text COLLATE "C" NOT NULL,
    differs text COLLATE "C" NOT NULL CHECK (differs IN ('', 'new', 'gone', 'other')),
    events  bigint NOT NULL,
    PRIMARY KEY (replay, fence, type, was, would, differs)
);

-- The first differences that it has found in each partition. Reader: Shadow.
CREATE TABLE replay_differences (
    replay     bigint NOT NULL REFERENCES replays ON DELETE CASCADE,
    fence      int NOT NULL REFERENCES fences ON DELETE CASCADE,
    log_offset bigint NOT NULL,
    was        text COLLATE "C" NOT NULL,
    would      text COLLATE "C" NOT NULL,
    differs    text COLLATE "C" NOT NULL,
    was_plan   int, -- of what ran; null: nothing did
    plan       int NOT NULL, -- of what would
    type       text COLLATE "C" NOT NULL,
    entity     text COLLATE "C" NOT NULL,
    source     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (replay, fence, log_offset)
);

-- Tokens of the operator API. Reader: every process that has operators prove who they are, every few seconds, and the operator API.
CREATE TABLE tokens (
    name           text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,39}$'), -- never used twice
    hash           bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32), -- SHA-256; the token itself is nowhere
    role           text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'responder', 'operator', 'source-admin', 'approver', 'auditor', 'admin')),
    teams          text[] COLLATE "C" CHECK (cardinality(teams) > 0), -- null: all
    payloads       boolean NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    created_by     text NOT NULL CHECK (created_by <> ''),
    reason         text NOT NULL CHECK (reason <> ''),
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz,
    revoked_at     timestamptz,
    revoked_by     text,
    revoked_reason text CHECK (revoked_reason <> ''),
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL) AND (revoked_at IS NULL) = (revoked_reason IS NULL))
);

-- Sessions of people who have logged in to the console: of a token, while that opens, or of an OIDC provider. Reader: every process that has
-- people log in, at each page.
CREATE TABLE sessions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32), -- SHA-256 of what the cookie has, which is nowhere else
    token      text COLLATE "C" REFERENCES tokens, -- null: of a provider
    name       text COLLATE "C" NOT NULL CHECK (name <> ''),
    role       text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'responder', 'operator', 'source-admin', 'approver', 'auditor', 'admin')),
    teams      text[] COLLATE "C" CHECK (cardinality(teams) > 0), -- null: all
    payloads   boolean NOT NULL,
    rules      bytea CHECK (octet_length(rules) = 32), -- by which a provider's claims became a role, as SHA-256; null: of a token
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CHECK ((token IS NULL) = (rules IS NOT NULL))
);

-- A person's word on one run of an action, as its arguments were rendered when it was asked for. Of an action at most one row is waiting or
-- approved. Reader: AskApproval (the guard), Approvals, Approval, TakeUntold (every process, for the destinations that are told).
CREATE TABLE approvals (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    action_id    uuid NOT NULL, -- the 16 bytes of it
    action       text COLLATE "C" NOT NULL,
    destination  text COLLATE "C" NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32), -- of what is to be sent, as SHA-256
    entity       text COLLATE "C" NOT NULL,
    version      text COLLATE "C" NOT NULL,
    source       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    why          text NOT NULL, -- it is asked for
    sends        text NOT NULL, -- what the digest is of, for people; emptied when it ends
    roles        text[] NOT NULL,
    four_eyes    boolean NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    state        text COLLATE "C" NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'approved', 'used', 'denied', 'expired', 'void')),
    first_by     text, -- of two persons, the one who has approved it
    answered_by  text,
    reason       text,
    answered_at  timestamptz, -- when it got its state, but for used
    asks         text COLLATE "C" NOT NULL DEFAULT '', -- the destination that is told of the question, as its team calls it; empty: none is
    tell_at      timestamptz, -- when that is tried, or tried again; null: it is not
    tell_tries   int NOT NULL DEFAULT 0, -- begun
    tell_first   timestamptz, -- when the first was
    tell_error   text NOT NULL DEFAULT '', -- of the last, if it failed
    told_at      timestamptz,
    CHECK (told_at IS NULL OR tell_at IS NULL),
    CHECK ((state = 'waiting') = (answered_at IS NULL)),
    CHECK (state IN ('waiting', 'approved') OR sends = '')
);
CREATE UNIQUE INDEX approvals_open ON approvals (action_id) WHERE state IN ('waiting', 'approved');
CREATE INDEX approvals_by_action ON approvals (action_id, id);
CREATE INDEX approvals_waiting ON approvals (expires_at) WHERE state = 'waiting';
CREATE INDEX approvals_untold ON approvals (tell_at) WHERE state = 'waiting' AND tell_at IS NOT NULL;
CREATE INDEX approvals_by_subscription ON approvals (subscription, id);
CREATE INDEX approvals_ended ON approvals (subscription, answered_at) WHERE state NOT IN ('waiting', 'approved');

-- Who changed what through the operator API, and why. A row is there before the change is tried; what became of it is said once. Nothing
-- else changes a row, and nothing deletes one. Reader: Changes (operators).
CREATE TABLE audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    actor    text COLLATE "C" NOT NULL CHECK (actor <> ''),
    role     text COLLATE "C" NOT NULL,
    said_by  text NOT NULL,
    action   text COLLATE "C" NOT NULL CHECK (action <> ''),
    team     text COLLATE "C" NOT NULL,
    object   text COLLATE "C" NOT NULL,
    reason   text NOT NULL,
    outcome  text COLLATE "C" CHECK (outcome IN ('done', 'refused', 'failed')),
    detail   text NOT NULL DEFAULT '',
    ended_at timestamptz,
    before   jsonb,
    after    jsonb,
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX audit_team ON audit (team, id);
CREATE INDEX audit_actor ON audit (actor, id);
CREATE INDEX audit_action ON audit (action, id);
CREATE INDEX audit_object ON audit (object, id);
CREATE INDEX audit_at ON audit (at);

-- +goose StatementBegin
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
        AND (NEW.id, NEW.at, NEW.actor, NEW.role, NEW.said_by, NEW.action, NEW.object, NEW.reason)
          = (OLD.id, OLD.at, OLD.actor, OLD.role, OLD.said_by, OLD.action, OLD.object, OLD.reason)
        AND (NEW.team = OLD.team OR OLD.team = '') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of the audit are neither changed nor deleted' USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_stays_whole BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();

-- Alerts that fire. A row goes once no process sees it fire any more: whoever deletes it tells that it has ended. Reader: every process
-- that tells alerts, every few seconds.
CREATE TABLE alerts_told (
    key      text COLLATE "C" PRIMARY KEY, -- name and labels
    name     text COLLATE "C" NOT NULL,
    severity text COLLATE "C" NOT NULL,
    labels   jsonb NOT NULL,
    summary  text NOT NULL,
    since    timestamptz NOT NULL,
    seen_at  timestamptz NOT NULL DEFAULT now(),
    told_at  timestamptz -- null: not yet, it is silenced
);

-- Alerts that are not told for a time. Reader: the same, and operators.
CREATE TABLE alert_silences (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert        text COLLATE "C" NOT NULL CHECK (alert <> ''),
    team         text COLLATE "C" NOT NULL, -- empty: of all
    reason       text NOT NULL CHECK (reason <> ''),
    created_by   text NOT NULL CHECK (created_by <> ''),
    created_at   timestamptz NOT NULL DEFAULT now(),
    until        timestamptz NOT NULL,
    ended_at     timestamptz, -- before its time
    ended_by     text,
    ended_reason text,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE INDEX alert_silences_until ON alert_silences (until) WHERE ended_at IS NULL;

-- What each process decides by for its subscriptions: hashes, so that one with another file is found. Reader: every stream process, at each
-- look for what waits for an operator.
CREATE TABLE deciders (
    id      uuid PRIMARY KEY, -- of a run of the process
    process text NOT NULL,
    counts_until timestamptz NOT NULL, -- it is heard of before, unless it was killed
    decides jsonb NOT NULL, -- by subscription: digest, and since when by that
    keys    jsonb NOT NULL  -- by subscription and key of the file: a hash of its value
);

-- The id of an action as schemas.NewActionID makes it.
-- +goose StatementBegin
CREATE FUNCTION action_id(namespace text, generation int, source text, event_id text, action text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(
        int8send(octet_length(namespace)) || convert_to(namespace, 'UTF8') || int8send(4) || int4send(generation)
        || int8send(octet_length(source)) || convert_to(source, 'UTF8') || int8send(octet_length(event_id)) || convert_to(event_id, 'UTF8')
        || int8send(octet_length(action)) || convert_to(action, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid
$$;
-- +goose StatementEnd
