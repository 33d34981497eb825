-- What all processes share of destinations.

-- +goose Up

-- Destinations that nothing has got through to for a while. Reader: every stream process, each second; writer: a process
-- at which a destination has failed for a minute, and one that gets through to it.
CREATE TABLE destinations (
    name          text COLLATE "C" PRIMARY KEY, -- "<team>/<destination>"
    failing_since timestamptz NOT NULL
);

-- Pauses, and who ended them. Reader: every stream process, each second (those that stand), and the operator API.
CREATE TABLE pauses (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination   text COLLATE "C" NOT NULL,
    paused_at     timestamptz NOT NULL DEFAULT now(),
    paused_by     text NOT NULL CHECK (paused_by <> ''),
    class         text COLLATE "C" NOT NULL, -- of the last failure, where nobody asked for it; else empty
    reason        text NOT NULL CHECK (reason <> ''),
    ended_at      timestamptz,
    ended_by      text,
    ended_reason  text CHECK (ended_reason <> ''),
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX pauses_open ON pauses (destination) WHERE ended_at IS NULL;
