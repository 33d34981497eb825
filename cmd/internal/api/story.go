package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// StoryItem is one thing that happened to an event in a subscription, as far as the ledger keeps it. Attempts are with the actions.
type StoryItem struct {
	At   *time.Time `json:"at"`   // null: it is so now
	What string     `json:"what"` // received, decided, buffered, parked, released, asked, backfill, redriven, discarded, stale, stands_behind, destination
	Text string     `json:"text"`
}

// EntityDetail is an entity of a source as a subscription sees it.
type EntityDetail struct {
	Team         string      `json:"team"`
	Subscription string      `json:"subscription"`
	Source       string      `json:"source"`
	Entity       string      `json:"entity"`
	Lines        []LineItem  `json:"lines"`
	Waiting      []WaitItem  `json:"waiting"`
	Track        []InboxItem `json:"track"` // its last events, the newest decision first
	// Note says what Track leaves out, if it does.
	Note string `json:"note,omitempty"`
}

// LineItem is a version line: one clock of the entity. Missing and Skipped are ranges of versions, both ends included.
type LineItem struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Clock     string     `json:"clock"`
	Kind      string     `json:"kind"`
	Version   string     `json:"version"` // the newest that was decided; sorts as text
	At        string     `json:"at"`      // the same to read
	Missing   [][2]int64 `json:"missing,omitempty"`
	Skipped   [][2]int64 `json:"skipped,omitempty"`
	Parked    string     `json:"parked,omitempty"` // why it stands still
}

// WaitItem is an event that waits behind a gap, or is held.
type WaitItem struct {
	Source   string     `json:"source"`
	EventID  string     `json:"event_id"`
	Type     string     `json:"type"`
	Clock    string     `json:"clock"`
	Version  string     `json:"version"`
	At       string     `json:"at"`       // the version to read
	Decision string     `json:"decision"` // buffered, parked or held
	Since    time.Time  `json:"since"`
	Until    *time.Time `json:"until"` // null: until an operator or what is missing comes
	Then     string     `json:"then"`  // the gap policy's word for what follows; operator, if it waits for one
}

// EntityFilter names an entity, and says how many of its last events are wanted, and since when.
type EntityFilter struct {
	Team, Subscription, Source string
	Entity                     schemas.EntityKey
	Since                      time.Time
	Limit                      int
}

// Entities answers questions about entities. Errors are *schemas.Error.
type Entities interface {
	Entity(ctx context.Context, f EntityFilter) (*EntityDetail, error)
}

func (s *server) entity(ctx context.Context, r *http.Request) (any, error) {
	f := EntityFilter{Team: r.PathValue("team"), Subscription: r.PathValue("subscription"), Source: r.PathValue("source"), Entity: schemas.EntityKey(r.PathValue("entity"))}
	var err error
	if f.Limit, f.Since, err = limitAndSince(r.URL.Query()); err != nil {
		return nil, err
	}
	return s.Entities.Entity(ctx, f)
}

// Entity returns one entity.
func (c *Client) Entity(ctx context.Context, f EntityFilter) (*EntityDetail, error) {
	return getJSON[*EntityDetail](ctx, c, fmt.Sprintf("/v1/entities/%s/%s/%s/%s", url.PathEscape(f.Team), url.PathEscape(f.Subscription), url.PathEscape(f.Source),
		url.PathEscape(string(f.Entity))), query(f.Limit, f.Since, nil))
}
