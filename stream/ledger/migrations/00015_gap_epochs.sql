-- A question is about one incarnation of its line's counter.

-- +goose Up

-- Of the line; 0: its provider does not say. Reader: Backfills (the owner).
ALTER TABLE backfills ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
UPDATE backfills f SET epoch = b.epoch FROM buffer b
WHERE f.ended_at IS NULL AND b.fence = f.fence AND b.entity = f.entity AND b.clock = f.clock AND b.decision = 'buffered';
