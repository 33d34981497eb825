-- One window's children. {w} is the window's number. They are made beside the parents and attached, which lets reads
-- and batches of other windows go on (CREATE TABLE ... PARTITION OF would lock everybody out).
CREATE TABLE events_w{w} (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX events_w{w}_key ON events_w{w} (event_key);
CREATE UNIQUE INDEX events_w{w}_lane ON events_w{w} (fence, lane_seq) WHERE lane_seq IS NOT NULL AND lane_window IS NULL;
CREATE INDEX events_w{w}_decided ON events_w{w} USING brin (decided_at) WITH (autosummarize = on, pages_per_range = 32);
ALTER TABLE events ATTACH PARTITION events_w{w} FOR VALUES IN ({w});

CREATE TABLE rejected_records_w{w} (LIKE rejected_records INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX rejected_records_w{w}_place ON rejected_records_w{w} (fence, log_offset);
CREATE INDEX rejected_records_w{w}_decided ON rejected_records_w{w} (decided_at);
CREATE INDEX rejected_records_w{w}_waiting ON rejected_records_w{w} (decision, fence, log_offset) WHERE decision IN ('conflict', 'quarantined') AND redriven_at IS NULL;
ALTER TABLE rejected_records ATTACH PARTITION rejected_records_w{w} FOR VALUES IN ({w});

CREATE TABLE actions_w{w} (LIKE actions INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX actions_w{w}_lane ON actions_w{w} (fence, lane_seq);
CREATE INDEX actions_w{w}_open ON actions_w{w} (fence, lane_seq) WHERE open;
CREATE INDEX actions_w{w}_dead ON actions_w{w} (fence, lane_seq) WHERE status IN ('dead_letter', 'unknown');
CREATE INDEX actions_w{w}_unexported ON actions_w{w} (fence, lane_seq) WHERE exported < deaths + (status = 'dead_letter')::int;
CREATE INDEX actions_w{w}_id ON actions_w{w} (action_id) WHERE action_id IS NOT NULL;
ALTER TABLE actions ATTACH PARTITION actions_w{w} FOR VALUES IN ({w});

CREATE TABLE completions_w{w} (LIKE completions INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE);
CREATE INDEX completions_w{w}_bucket ON completions_w{w} (fence, bucket);
ALTER TABLE completions ATTACH PARTITION completions_w{w} FOR VALUES IN ({w});

CREATE TABLE attempts_w{w} (LIKE attempts INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX attempts_w{w}_attempt ON attempts_w{w} (fence, lane_seq, attempt);
ALTER TABLE attempts ATTACH PARTITION attempts_w{w} FOR VALUES IN ({w});
