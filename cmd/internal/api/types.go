package api

import (
	"time"

	"github.com/forebay-io/forebay/stream/inbox"
)

// These types of the inbox go over the wire as they are.
type (
	// InboxItem is one event in one subscription.
	InboxItem = inbox.Item
	// InboxFilter narrows a list of InboxItems.
	InboxFilter = inbox.Query
	// RedrivenItem is a note that an operator had a quarantined record produced again.
	RedrivenItem = inbox.Redriven
	// DeadLetterFilter narrows a list of dead letters.
	DeadLetterFilter = inbox.DeadLetterQuery
	// DeadLetterGroup counts the dead letters of one class, destination and event type.
	DeadLetterGroup = inbox.DeadLetterGroup
	// CommandItem is a command that an operator gave about an action, and what became of it.
	CommandItem = inbox.CommandStatus
)

// Page is a list as it goes over the wire. Next is the cursor of the next page, empty on the last one. More is set where a list
// that has no next page (groups) is incomplete: a filter finds what is missing.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
	More  bool   `json:"more,omitempty"`
}

// InboxDetail is an event with its actions and their attempts.
type InboxDetail struct {
	InboxItem
	Actions []ActionItem `json:"actions"`
}

// ActionItem is one action of an event.
type ActionItem struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	Destination string        `json:"destination"`
	Status      string        `json:"status"`
	LaneSeq     int64         `json:"lane_seq"`
	NextAt      *time.Time    `json:"next_at"`
	Attempts    []AttemptItem `json:"attempts"`
}

// AttemptItem is one try of an action.
type AttemptItem struct {
	Attempt   int       `json:"attempt"`
	At        time.Time `json:"at"`
	Class     string    `json:"class"`
	Code      int       `json:"code"`
	LatencyMS float64   `json:"latency_ms"`
	Error     string    `json:"error"`
	Response  string    `json:"response"`
	TraceID   string    `json:"trace_id"` // of the trace that the call was part of, 32 hex digits; empty for a first attempt that succeeded
}

// QuarantinePlace names a quarantined delivery.
type QuarantinePlace struct {
	Team, Source string
	Partition    int32
	Offset       int64
}

// QuarantineRedrive asks that a quarantined delivery be mapped again, by its source's mapping of today, and its event produced. By
// is who says so, as the client tells it.
type QuarantineRedrive struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// QuarantineRedriven is the delivery, the event that the mapping makes of it now, and what became of the request.
type QuarantineRedriven struct {
	QuarantineItem
	EventID string     `json:"event_id"`
	Type    string     `json:"type"`
	Entity  string     `json:"entity"`
	State   string     `json:"state"`        // planned (a dry run) or done
	To      *PlaceItem `json:"to,omitempty"` // where the event is
}

// QuarantineItem is a quarantined delivery: one that could not become an event, or that was refused and kept all the same.
type QuarantineItem struct {
	Team       string    `json:"team"`
	Source     string    `json:"source"`
	Kind       string    `json:"kind"`
	Reason     string    `json:"reason"`
	Detail     string    `json:"detail"`
	Bytes      int       `json:"bytes"`
	Topic      string    `json:"topic"`
	Partition  int32     `json:"partition"`
	Offset     int64     `json:"offset"`
	ReceivedAt time.Time `json:"received_at"`
}

// SourceItem is a configured source.
type SourceItem struct {
	Team     string `json:"team"`
	Source   string `json:"source"`
	Preset   string `json:"preset"`
	Path     string `json:"path"`
	Topic    string `json:"topic"`
	MaxBody  int64  `json:"max_body"`
	Keys     int    `json:"keys"`     // how many secrets it has
	Sequence bool   `json:"sequence"` // its versions are of kind sequence
}

// SubscriptionItem is a configured subscription and how it is doing in the process that was asked.
type SubscriptionItem struct {
	Team         string          `json:"team"`
	Subscription string          `json:"subscription"`
	Sources      []string        `json:"sources"`
	Ready        bool            `json:"ready"`
	Missing      string          `json:"missing"` // why it is not ready
	Partitions   []PartitionItem `json:"partitions"`
}

// PartitionItem is a partition of a subscription that the asked process owns, or that is stopped in any process.
type PartitionItem struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	State     string `json:"state"`
	Detail    string `json:"detail"`
	// Position is the partition's position in the ledger. It is set where one subscription was asked for, not in lists.
	Position *PositionItem `json:"position,omitempty"`
	// Stopped is set where State is stopped. Another process may own such a partition.
	Stopped *StopItem `json:"stopped,omitempty"`
}

// PositionItem is the position of a partition.
type PositionItem struct {
	NextOffset int64 `json:"next_offset"`
	Seeks      int64 `json:"seeks"`   // how often an operator moved the position
	Skipped    int64 `json:"skipped"` // offsets that moves forward passed over
	// LastSeeks are the last seeks, at most five, the newest first.
	LastSeeks []SeekItem `json:"last_seeks,omitempty"`
}

// SeekItem is a move of a position. A move forward skipped the offsets from From up to before To.
type SeekItem struct {
	From    int64     `json:"from"`
	To      int64     `json:"to"`
	Skipped int64     `json:"skipped"`
	FoundAt time.Time `json:"found_at"`
	FoundBy string    `json:"found_by"` // the process that claimed the partition next
}

// Check is one thing that must work before the process is ready.
type Check struct {
	Name  string `json:"name"` // "subscription acme.triage"
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// Problem is an RFC 9457 problem body.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// QuarantineFilter narrows a list of quarantined deliveries. An empty Team or Source means all.
type QuarantineFilter struct {
	Team, Source string
	Limit        int // at most so many
}

// Raw is an event's body as it was received.
type Raw struct {
	ContentType string
	Data        []byte
}
