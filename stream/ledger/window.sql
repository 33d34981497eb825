-- One window's children. {id} is the window's number. They are made beside the parents and attached, which lets reads
-- and batches of other windows go on (CREATE TABLE ... PARTITION OF would lock everybody out).
CREATE TABLE events_w{id} (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX events_w{id}_key ON events_w{id} (event_key);
CREATE UNIQUE INDEX events_w{id}_lane ON events_w{id} (fence, lane_seq) WHERE lane_seq IS NOT NULL AND lane_window IS NULL;
CREATE INDEX events_w{id}_decided ON events_w{id} USING brin (decided_at) WITH (autosummarize = on, pages_per_range = 32);
ALTER TABLE events ATTACH PARTITION events_w{id} FOR VALUES IN ({id});

CREATE TABLE asides_w{id} (LIKE asides INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX asides_w{id}_place ON asides_w{id} (fence, log_offset);
CREATE INDEX asides_w{id}_decided ON asides_w{id} (decided_at);
ALTER TABLE asides ATTACH PARTITION asides_w{id} FOR VALUES IN ({id});

CREATE TABLE actions_w{id} (LIKE actions INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX actions_w{id}_lane ON actions_w{id} (fence, lane_seq);
CREATE INDEX actions_w{id}_open ON actions_w{id} (fence, lane_seq) WHERE open;
CREATE INDEX actions_w{id}_dead ON actions_w{id} (fence, lane_seq) WHERE status IN ('dead_letter', 'unknown');
CREATE INDEX actions_w{id}_unexported ON actions_w{id} (fence, lane_seq) WHERE exported < deaths + (status = 'dead_letter')::int;
CREATE INDEX actions_w{id}_id ON actions_w{id} (action_id) WHERE action_id IS NOT NULL;
ALTER TABLE actions ATTACH PARTITION actions_w{id} FOR VALUES IN ({id});

CREATE TABLE completions_w{id} (LIKE completions INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE);
CREATE INDEX completions_w{id}_bucket ON completions_w{id} (fence, bucket);
ALTER TABLE completions ATTACH PARTITION completions_w{id} FOR VALUES IN ({id});

CREATE TABLE attempts_w{id} (LIKE attempts INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX attempts_w{id}_attempt ON attempts_w{id} (fence, lane_seq, attempt);
ALTER TABLE attempts ATTACH PARTITION attempts_w{id} FOR VALUES IN ({id});
