-- An action that ends as most do, by its first attempt, has no row: the event's row says that it is wanted (lane_seq,
-- actions, plan), a row of completions for up to a thousand of them says that it is done. Only what goes another way
-- gets a row in actions.

-- +goose Up

-- The effects of an event's actions, in listed order; events point here. Reader: Open, Inbox, Record.
CREATE TABLE plans (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    effects      int[] NOT NULL,
    UNIQUE (subscription, effects)
);

-- lane_window: where the rows of the event's actions are; null: no row needs to be, and if one is, it is in the
-- event's own window. Set for events that left the gap buffer.
ALTER TABLE events ADD COLUMN plan int, ADD COLUMN lane_window int;

-- open: everything but done, so that a claim finds it by an index of its own.
ALTER TABLE actions DROP CONSTRAINT actions_check;
ALTER TABLE actions RENAME COLUMN held TO open;
ALTER TABLE actions ALTER COLUMN open SET DEFAULT true;
UPDATE actions SET open = true WHERE status = 'pending';
ALTER TABLE actions ADD CONSTRAINT actions_open CHECK (open = (status <> 'done'));

-- First attempts that succeeded: lane_seq is bucket * 1024 + lane. A result that is recorded twice may stand here twice.
-- Reader: Claim (what is done), Inbox, sweep.
CREATE TABLE completions (
    window_id   int NOT NULL,
    fence       int NOT NULL,
    bucket      bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    code        int NOT NULL,
    lanes       smallint[] NOT NULL,
    latency_us  int[] NOT NULL,
    response    bytea[], -- null: all of them were empty
    CHECK (cardinality(lanes) = cardinality(latency_us)),
    CHECK (response IS NULL OR cardinality(lanes) = cardinality(response))
) PARTITION BY LIST (window_id);
ALTER TABLE completions ALTER COLUMN lanes SET STORAGE EXTERNAL, ALTER COLUMN latency_us SET STORAGE EXTERNAL;

-- +goose StatementBegin
DO $$
DECLARE w int;
BEGIN
    FOR w IN SELECT id FROM windows LOOP
        EXECUTE format('DROP INDEX actions_w%s_held', w);
        EXECUTE format('CREATE INDEX actions_w%s_open ON actions_w%s (fence, lane_seq) WHERE open', w, w);
        -- Of events decided before this migration the actions have rows.
        EXECUTE format('UPDATE events_w%s SET lane_window = (SELECT window_id FROM actions a
            WHERE a.fence = events_w%s.fence AND a.lane_seq = events_w%s.lane_seq LIMIT 1) WHERE lane_seq IS NOT NULL', w, w, w);
        EXECUTE format('CREATE UNIQUE INDEX events_w%s_lane ON events_w%s (fence, lane_seq)
            WHERE lane_seq IS NOT NULL AND lane_window IS NULL', w, w);
        -- Rows stand in the order of their time: ranges of pages tell enough, and cost an event next to nothing.
        EXECUTE format('DROP INDEX events_w%s_decided', w);
        EXECUTE format('CREATE INDEX events_w%s_decided ON events_w%s USING brin (decided_at)
            WITH (autosummarize = on, pages_per_range = 32)', w, w);
        EXECUTE format('CREATE TABLE completions_w%s (LIKE completions INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)', w);
        EXECUTE format('CREATE INDEX completions_w%s_bucket ON completions_w%s (fence, bucket)', w, w);
        EXECUTE format('ALTER TABLE completions ATTACH PARTITION completions_w%s FOR VALUES IN (%s)', w, w);
    END LOOP;
END $$;
-- +goose StatementEnd
