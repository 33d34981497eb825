package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// StoryItem is one thing that happened to an event in a subscription, as far as the ledger keeps it. Attempts are with the actions.
type StoryItem struct {
	At   *time.Time `json:"at"`   // null: it is so now
	What string     `json:"what"` // received, decided, buffered, parked, released, asked, backfill, redriven, discarded, stale, stands_behind, destination
	Text string     `json:"text"`
}

// EntityDetail is an entity of a source as a subscription sees it.
type EntityDetail struct {
	Team         string            `json:"team"`
	Subscription string            `json:"subscription"`
	Source       string            `json:"source"`
	Entity       string            `json:"entity"`
	Lines        []VersionLineItem `json:"lines"`
	Waiting      []WaitItem        `json:"waiting"`
	Track        []InboxItem       `json:"track"` // its last events, the newest decision first
	// Note says what Track leaves out, if it does.
	Note string `json:"note,omitempty"`
}

// VersionLineItem is a version line: one clock of the entity. Missing and Skipped are ranges of versions, both ends included.
type VersionLineItem struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Clock     string     `json:"clock"`
	Kind      string     `json:"kind"`
	Version   string     `json:"version"`           // the newest that was decided; sorts as text
	At        string     `json:"at"`                // the same to read
	Missing   [][2]int64 `json:"missing,omitempty"` // up to the 1000th version that waits
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
	// Entities lists entities by partition and key: with f.Gaps those of which something waits.
	Entities(ctx context.Context, f EntitiesFilter) (Page[EntityItem], error)
}

// EntityItem is an entity of a source as a subscription sees it, in short: where it stands, and what waits of it behind a gap or is held.
type EntityItem struct {
	Team         string            `json:"team"`
	Subscription string            `json:"subscription"`
	Source       string            `json:"source"` // CESource if it is another team's
	Entity       string            `json:"entity"`
	Lines        []VersionLineItem `json:"lines"`
	// Waiting is how many events wait; null if they were not counted to the end: then WaitingAtLeast says how far the count came, and
	// Since, Until and Then are of these.
	Waiting        *int64     `json:"waiting"`
	WaitingAtLeast *int64     `json:"waiting_at_least,omitempty"`
	Since          *time.Time `json:"since"` // of the one that waits longest; null: none does
	Until          *time.Time `json:"until"` // the nearest deadline; null: there is none
	Then           string     `json:"then"`  // as of WaitItem; empty: nothing waits
}

// EntitiesFilter narrows a list of entities. Waits and Since are of a list of gaps alone.
type EntitiesFilter struct {
	Team, Subscription, Source string
	Gaps                       bool          // only entities of which something waits
	Waits                      gate.Decision // buffered: for what is missing; parked: for an operator; empty: both
	Since                      time.Time     // something waits since then or later
	Limit                      int
	Cursor                     string
}

func (s *server) entity(ctx context.Context, r *http.Request) (any, error) {
	f := EntityFilter{Team: r.PathValue("team"), Subscription: r.PathValue("subscription"), Source: r.PathValue("source"), Entity: schemas.EntityKey(r.PathValue("entity"))}
	var err error
	if f.Limit, f.Since, err = limitAndSince(r.URL.Query()); err != nil {
		return nil, err
	}
	return s.Entities.Entity(ctx, f)
}

func (s *server) entities(ctx context.Context, r *http.Request) (any, error) {
	return s.listEntities(ctx, r, false)
}

func (s *server) gaps(ctx context.Context, r *http.Request) (any, error) {
	return s.listEntities(ctx, r, true)
}

func (s *server) listEntities(ctx context.Context, r *http.Request, gaps bool) (any, error) {
	q := r.URL.Query()
	f := EntitiesFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Gaps: gaps, Waits: gate.Decision(q.Get("waits")), Cursor: q.Get("cursor")}
	var err error
	if f.Limit, f.Since, err = limitAndSince(q); err != nil {
		return nil, err
	}
	if err := names.OneOf("waits", string(f.Waits), []string{string(gate.Buffered), string(gate.Parked)}); err != nil {
		return nil, err
	}
	return paged(s.Entities.Entities(ctx, f))
}

// Entities lists entities, in the order of partition and key; with f.Gaps those that have events waiting behind a gap or for an operator.
func (c *Client) Entities(ctx context.Context, f EntitiesFilter) (Page[EntityItem], error) {
	path := "/v1/entities"
	if f.Gaps {
		path = "/v1/gaps"
	}
	return getJSON[Page[EntityItem]](ctx, c, path, query(f.Limit, f.Since, map[string]string{"team": f.Team, "subscription": f.Subscription, "source": f.Source, "waits": string(f.Waits), "cursor": f.Cursor}))
}

// Entity returns one entity.
func (c *Client) Entity(ctx context.Context, f EntityFilter) (*EntityDetail, error) {
	return getJSON[*EntityDetail](ctx, c, fmt.Sprintf("/v1/entities/%s/%s/%s/%s", url.PathEscape(f.Team), url.PathEscape(f.Subscription), url.PathEscape(f.Source),
		url.PathEscape(string(f.Entity))), query(f.Limit, f.Since, nil))
}
