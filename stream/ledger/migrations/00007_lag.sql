-- Lines that simply move on are written some thousands of events later, or never where they have moved again: the rows of
-- the events that moved them tell where to.

-- +goose Up

-- as_of: the next lane_seq of the partition when the row was written; events from there on may have moved the line.
ALTER TABLE lines ADD COLUMN as_of bigint NOT NULL DEFAULT 0;

-- lines_low: what the events below this lane_seq did is in the rows of lines. Reader: Claim, Forget, HandOver, sweep.
ALTER TABLE progress ADD COLUMN lines_low bigint NOT NULL DEFAULT 1;
UPDATE progress SET lines_low = next_lane_seq;
