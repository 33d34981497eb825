package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Kinds of what waits for an operator, beside those of the ledger (inbox.AttentionKinds). Each is a label of forebay_attention_items.
const (
	KindQuarantinedDelivery = "quarantined_delivery" // an authentic delivery that could not become an event
	KindStopped             = "stopped_partition"    // a partition whose position cannot be continued, or that cannot be read or written
	KindUnread              = "unread_partition"     // a partition that nobody reads
	KindDown                = "destination_down"     // nothing gets through to a destination, and actions wait for it
	KindPaused              = "paused_destination"   // nothing is attempted at a destination until it is resumed
	KindForgotten           = "forgotten_actions"    // actions of a partition that are open in the ledger and in no lane of its owner: a fault of forebay
	KindPausedScope         = "paused_scope"         // all subscriptions, those of a team, or the destinations of an agent are paused
	KindPausedSubscription  = "paused_subscription"  // nothing is decided or attempted for a subscription until it is resumed
	KindBarred              = "barred_subscription"  // a subscription that does not run, as another team's source is not shared with it, or a topic cannot be used
	KindRefused             = "reload_refused"       // a file of the configuration that could not be taken: what it is of keeps what it had
	KindWaits               = "waits_for_restart"    // a key that was changed and is taken with the next start
	KindDiffers             = "differing_config"     // processes decide for a subscription by different files
	KindBudget              = "budget"               // a budget of which four fifths are used, or all, or too little is left: then what comes next waits, parks or is dropped
	KindApproval            = "approval"             // an action that waits for a person's word, and its entity with it
	KindKeys                = "unmatched_keys"       // a source none of whose secrets verifies what comes
	KindSpooling            = "spooling"             // deliveries of a source that were acknowledged wait on an intake's disk for the brokers
	KindExpires             = "secret_expires"       // a source's secret that ends soon, or has ended
	KindClock               = "wrong_clock"          // a source whose deliveries are signed right, at a time that is too far from now
)

// AttentionKinds lists all kinds, in the order in which they are listed.
func AttentionKinds() []string {
	kinds := []string{KindPausedScope, KindStopped, KindUnread, KindForgotten, KindPausedSubscription, KindBarred, KindRefused, KindWaits, KindDiffers, KindDown, KindPaused, KindBudget, KindApproval, KindSpooling, KindKeys, KindExpires, KindClock}
	for _, k := range inbox.AttentionKinds() {
		kinds = append(kinds, string(k))
	}
	return append(kinds, KindQuarantinedDelivery)
}

// AttentionItem is one thing that waits for an operator. What does not apply to its kind is empty.
type AttentionItem struct {
	People
	Kind         string     `json:"kind"`
	ID           string     `json:"id"`              // names it for the commands about it
	Team         string     `json:"team"`            // empty: several teams', or nobody's alone
	Teams        []string   `json:"teams,omitempty"` // whose it is as well, where several share it; "*": all
	Subscription string     `json:"subscription"`
	Source       string     `json:"source"`
	Destination  string     `json:"destination"`
	Entity       string     `json:"entity"`
	Type         string     `json:"type"`
	EventID      string     `json:"event_id"`
	Topic        string     `json:"topic"`
	Partition    *int32     `json:"partition"`
	Offset       *int64     `json:"offset"`
	Reason       string     `json:"reason"`
	Detail       string     `json:"detail"`
	Events       int64      `json:"events"`  // how many events wait in it; 0: not counted
	Since        *time.Time `json:"since"`   // null: nobody knows
	Command      string     `json:"command"` // the forebay command that deals with it
}

// Of reports whether an item is a team's; an empty team is any.
func (i *AttentionItem) Of(team string) bool {
	return team == "" || i.Team == team || slices.Contains(i.Teams, team) || slices.Contains(i.Teams, "*")
}

// AttentionCount is how much of a kind waits. More says that there is more than was counted.
type AttentionCount struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	More  bool   `json:"more,omitempty"`
}

// AttentionUnknown is a kind of which the asked process knows nothing, and why; or not all, since subscriptions have another ledger or cannot be counted.
type AttentionUnknown struct {
	Kind string `json:"kind"`
	Why  string `json:"why"`
}

// UnknownFor are kinds, with commas between, of which the asked process does not know all for one reason.
type UnknownFor struct{ Why, Kinds string }

// ByReason joins kinds that are not known for the same reason, in their order.
func ByReason(list []AttentionUnknown) (out []UnknownFor) {
	for _, u := range list {
		if i := slices.IndexFunc(out, func(o UnknownFor) bool { return o.Why == u.Why }); i >= 0 {
			out[i].Kinds += ", " + u.Kind
		} else {
			out = append(out, UnknownFor{u.Why, u.Kind})
		}
	}
	return out
}

// Attention is what waits for an operator, as far as the asked process knows: at most a limit of each kind is listed, and all of it
// counted. A kind is in Counts or in Unknown, or in both where a part of it is not known.
type Attention struct {
	Items   []AttentionItem    `json:"items"`
	Next    string             `json:"next"` // always empty: the list has one page
	Counts  []AttentionCount   `json:"counts"`
	Unknown []AttentionUnknown `json:"unknown"`
}

// AttentionFilter narrows the list. Empty fields select everything.
type AttentionFilter struct {
	Team, Kind string
	Limit      int // at most so many of each kind
}

// attention lists what waits for an operator.
func (s *server) attention(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	f := AttentionFilter{Team: q.Get("team"), Kind: q.Get("kind")}
	err := names.OneOf("kind", f.Kind, AttentionKinds())
	if err != nil {
		return nil, err
	}
	if f.Limit, err = parseLimit(q.Get("limit")); err != nil {
		return nil, err
	}
	found, err := s.Attention(ctx, f)
	if w := who(ctx); err == nil && !w.All() {
		shown := *found
		shown.Items = slices.Clone(shown.Items)
		for i := range shown.Items {
			shown.Items[i].Teams = w.Only(shown.Items[i].Teams)
		}
		found = &shown
	}
	return found, err
}

// Attention lists what waits for an operator.
func (c *Client) Attention(ctx context.Context, f AttentionFilter) (*Attention, error) {
	return getJSON[*Attention](ctx, c, "/v1/attention", query(f.Limit, time.Time{}, map[string]string{"team": f.Team, "kind": f.Kind}))
}
