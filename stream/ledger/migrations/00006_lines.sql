-- Lines that no event has moved for long can be forgotten.

-- +goose Up

-- The dedupe window that was current when the line moved last; 0: before this migration, then it is kept until it moves.
-- Reader: Forget.
ALTER TABLE lines ADD COLUMN seen_in int NOT NULL DEFAULT 0;
