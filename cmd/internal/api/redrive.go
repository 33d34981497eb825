package api

import (
	"context"
	"net/http"
)

// RedriveRequest asks that an event runs after all that waits, is held or is quarantined, or that a held one is given up.
// By is who says so, as the client tells it.
type RedriveRequest struct {
	Reason  string `json:"reason"`
	By      string `json:"by"`
	Discard bool   `json:"discard,omitempty"`
	Again   bool   `json:"again,omitempty"`   // a quarantined record once more
	NoWait  bool   `json:"no_wait,omitempty"` // do not wait for the partition's owner
	DryRun  bool   `json:"dry_run,omitempty"`
}

// RedriveItem is the event as it was, and what became of the request.
type RedriveItem struct {
	InboxItem
	Action  string     `json:"action"` // release, discard or produce
	State   string     `json:"state"`  // planned (a dry run), done, or asked: the partition's owner has not done it yet
	Detail  string     `json:"detail"`
	Command int64      `json:"command,omitempty"` // of release and discard
	To      *PlaceItem `json:"to,omitempty"`      // where the record is now
}

// What RedriveItem says.
const (
	ActionRelease = "release"
	ActionDiscard = "discard"
	ActionProduce = "produce"

	StatePlanned = "planned"
	StateDone    = "done"
	StateAsked   = "asked"
)

// PlaceItem is a place in the log.
type PlaceItem struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (s *server) redrive(ctx context.Context, r *http.Request) (any, error) {
	var req RedriveRequest
	if err := readBody(r, &req, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return s.Inbox.Redrive(ctx, r.PathValue("team"), r.PathValue("subscription"), r.PathValue("source"), r.PathValue("event"), req)
}

// Redrive redrives one event, or says what that would be. What has no id is named by its topic and PARTITION@OFFSET.
func (c *Client) Redrive(ctx context.Context, team, subscription, source, eventID string, r RedriveRequest) (*RedriveItem, error) {
	return post[*RedriveItem](ctx, c, itemPath(team, subscription, source, eventID)+"/redrive", r)
}
