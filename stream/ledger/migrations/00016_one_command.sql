-- Of an action one thing is asked at a time.

-- +goose Up

-- What two had asked at once: the first stands.
UPDATE commands c SET ended_at = now(), outcome = 'something was asked of it already', epoch = 0
 WHERE c.lane_seq IS NOT NULL AND c.ended_at IS NULL
   AND EXISTS (SELECT FROM commands b WHERE b.fence = c.fence AND b.lane_seq = c.lane_seq AND b.ended_at IS NULL AND b.id < c.id);

-- Reader: AskAction.
CREATE UNIQUE INDEX commands_one ON commands (fence, lane_seq) WHERE lane_seq IS NOT NULL AND ended_at IS NULL;
