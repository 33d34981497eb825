package api

import (
	"context"
	"net/http"
)

// RedriveRequest asks that an event be run which waits behind a gap, is held or is quarantined, or that a held one be discarded.
// By is who says so, as the client tells it.
type RedriveRequest struct {
	Reason  string `json:"reason"`
	By      string `json:"by"`
	Discard bool   `json:"discard,omitempty"`
	Again   bool   `json:"again,omitempty"`   // redrive a quarantined record although it was redriven before
	NoWait  bool   `json:"no_wait,omitempty"` // answer at once, before the partition's owner has applied the command
	DryRun  bool   `json:"dry_run,omitempty"`
}

// RedriveItem is the event as it was before the request, and what became of the request.
type RedriveItem struct {
	InboxItem
	Action  string     `json:"action"` // release, discard or produce
	State   string     `json:"state"`  // planned (a dry run), done, or asked: the partition's owner has not done it yet
	Detail  string     `json:"detail"`
	Command int64      `json:"command,omitempty"` // the command's id; 0 for produce, which needs no owner
	To      *PlaceItem `json:"to,omitempty"`      // where a produced record is now
}

// Values of RedriveItem.Action and RedriveItem.State.
const (
	ActionRelease = "release"
	ActionDiscard = "discard"
	ActionProduce = "produce"

	StatePlanned = "planned"
	StateDone    = "done"
	StateStale   = "stale" // of a replay that watches: it did not run, because its entity had a newer version
	StateAsked   = "asked"
)

// PlaceItem is a place in the log.
type PlaceItem struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// redrive redrives the event that the path names.
func (s *server) redrive(ctx context.Context, r *http.Request) (any, error) {
	var req RedriveRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return s.Inbox.Redrive(ctx, r.PathValue("team"), r.PathValue("subscription"), r.PathValue("source"), r.PathValue("event"), req)
}

// Redrive redrives one event; a dry run says what would follow. A record without id is named by its topic and PARTITION@OFFSET.
func (c *Client) Redrive(ctx context.Context, team, subscription, source, eventID string, r RedriveRequest) (*RedriveItem, error) {
	return postJSON[*RedriveItem](ctx, c, itemPath(team, subscription, source, eventID)+"/redrive", r)
}
