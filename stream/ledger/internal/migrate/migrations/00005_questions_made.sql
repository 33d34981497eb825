-- serves: 2
-- +goose Up

-- What a destination has made of a question, such as a message of Slack's, so that it can be changed once the question has ended.
ALTER TABLE approvals ADD COLUMN made text COLLATE "C" NOT NULL DEFAULT '';
