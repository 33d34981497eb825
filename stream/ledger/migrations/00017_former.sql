-- What is open of a topic that was deleted and created again goes on in the new one.

-- +goose Up

-- former: the id that the topic had before. Actions with a lane_seq below lanes_from, and records set aside in places below
-- places, are from then. Reader: Claim, Open, Uncopied, Apply (places), Inbox, DeadLetters.
ALTER TABLE fences
    ADD COLUMN former uuid,
    ADD COLUMN lanes_from bigint NOT NULL DEFAULT 1,
    ADD COLUMN places bigint NOT NULL DEFAULT 0;
