-- Commands about actions, and what is known of those that ended otherwise than by being done.

-- +goose Up

-- A command is about an event in the buffer (log_offset) or about an action (lane_seq). detail is what goes with its kind.
ALTER TABLE commands ALTER COLUMN log_offset DROP NOT NULL;
ALTER TABLE commands
    ADD COLUMN lane_seq bigint CHECK (lane_seq > 0),
    ADD COLUMN detail jsonb,
    ADD CONSTRAINT commands_about CHECK ((lane_seq IS NULL) <> (log_offset IS NULL));
ALTER TABLE commands DROP CONSTRAINT commands_kind_check;
ALTER TABLE commands ADD CONSTRAINT commands_kind_check CHECK (
    log_offset IS NOT NULL AND kind IN ('release', 'discard') OR lane_seq IS NOT NULL AND kind IN ('redrive', 'discard', 'result'));
-- Reader: DeadLetter (what was asked about an action).
CREATE INDEX commands_by_lane ON commands (fence, lane_seq, id) WHERE lane_seq IS NOT NULL;

-- Tells the owners that listen: the payload is the subscription's id. Readers: Namespace.Listen. Who misses it sweeps.
-- +goose StatementBegin
CREATE FUNCTION commands_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('forebay_commands_' || TG_TABLE_SCHEMA, subscription::text) FROM fences WHERE id = NEW.fence;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER commands_notify AFTER INSERT ON commands FOR EACH ROW EXECUTE FUNCTION commands_notify();

-- action_id: the 16 bytes of its id; null in rows that no attempt has written. Reader: FindAction.
-- deaths: how often it had become a dead letter when it was last run again; spent: how many attempts had been made, from
-- which the retry policy counts on; redriven_at: when that was asked. forced: it runs whatever has been
-- started since, because a person wants it so or because it had parked its lane. exported: how many of its deaths the dead
-- topic has.
-- Reader: Open, DeadLetters, Unexported.
ALTER TABLE actions
    ADD COLUMN action_id uuid,
    ADD COLUMN deaths smallint NOT NULL DEFAULT 0 CHECK (deaths >= 0),
    ADD COLUMN spent int NOT NULL DEFAULT 0 CHECK (spent >= 0),
    ADD COLUMN redriven_at timestamptz,
    ADD COLUMN forced boolean NOT NULL DEFAULT false,
    ADD COLUMN exported smallint NOT NULL DEFAULT 0;

-- stale, discarded: ended without being done; nothing waits for them and nothing of them is kept to be sent.
ALTER TABLE actions DROP CONSTRAINT actions_status_check;
ALTER TABLE actions ADD CONSTRAINT actions_status_check CHECK (status IN
    ('pending', 'failed', 'done', 'dead_letter', 'parked', 'unknown', 'stale', 'discarded'));
ALTER TABLE actions DROP CONSTRAINT actions_open;
ALTER TABLE actions ADD CONSTRAINT actions_open CHECK (open = (status NOT IN ('done', 'stale', 'discarded')));
ALTER TABLE actions DROP CONSTRAINT actions_check1;
ALTER TABLE actions ADD CONSTRAINT actions_finished CHECK
    ((finished_at IS NULL) = (status NOT IN ('done', 'dead_letter', 'stale', 'discarded')));

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

-- +goose StatementBegin
DO $$
DECLARE w int;
BEGIN
    FOR w IN SELECT id FROM windows LOOP
        EXECUTE format('UPDATE actions_w%s a SET action_id = action_id(s.name, s.generation, e.source, e.event_id, x.name)
            FROM fences f, subscriptions s, effects x, events e WHERE a.open AND f.id = a.fence AND s.id = f.subscription AND x.id = a.effect
              AND e.window_id = a.event_window AND e.event_key = a.event_key', w);
        EXECUTE format('CREATE INDEX actions_w%s_unexported ON actions_w%s (fence, lane_seq)
            WHERE exported < deaths + (status = ''dead_letter'')::int', w, w);
        EXECUTE format('CREATE INDEX actions_w%s_id ON actions_w%s (action_id) WHERE action_id IS NOT NULL', w, w);
        EXECUTE format('CREATE INDEX actions_w%s_dead ON actions_w%s (fence, lane_seq) WHERE status IN (''dead_letter'', ''unknown'')', w, w);
    END LOOP;
END $$;
-- +goose StatementEnd
