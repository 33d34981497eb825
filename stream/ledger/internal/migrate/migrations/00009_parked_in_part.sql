-- serves: 2
-- +goose Up

-- Of a line on which very many events are parked a batch reads the lowest, the highest, and those whose keys its records have. What waits with a
-- deadline pays for neither index. The first one has the gate's order to its last column: beside a sort, a plan may find the line by another index
-- and read all of it. Reader: the gate, through Apply and Expire; Claim, which counts some.
CREATE INDEX buffer_parked ON buffer (fence, entity, clock, kind, epoch, value, sub, log_offset) WHERE decision = 'parked';
CREATE INDEX buffer_parked_keys ON buffer (fence, event_key) WHERE decision = 'parked';
