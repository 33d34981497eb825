package api

import (
	"strings"
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
	// DeadLetterGroup counts the dead letters of one class, code, destination and event type.
	DeadLetterGroup = inbox.DeadLetterGroup
	// CommandItem is a command that an operator gave about an action, and what became of it.
	CommandItem = inbox.CommandStatus
)

// Page is a list as it goes over the wire. Next is the cursor of the next page, empty on the last one. More is set where a list
// that has no next page (groups, the inbox's last one) may be incomplete: narrower filters find what is missing.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
	More  bool   `json:"more,omitempty"`
	// Search is of a list of a delivery's events (delivery=): what of the log it was looked for in, and what is no item of the inbox.
	Search *DeliverySearch `json:"search,omitempty"`
	// Elsewhere are subscriptions that the list leaves out, TEAM.SUBSCRIPTION: their ledger is another process's.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// DeliverySearch is how a delivery was looked for, and what is known of it beside the items of the list. Without items and with a cursor
// not all of the log was searched. With items, From and To may be one moment: the ledger knew the delivery, and nothing was searched.
type DeliverySearch struct {
	From        *time.Time       `json:"from"` // null: the log's start
	To          time.Time        `json:"to"`
	Undecided   []UndecidedItem  `json:"undecided,omitempty"`
	Quarantined []QuarantineItem `json:"quarantined,omitempty"`
	Withheld    []string         `json:"withheld,omitempty"` // where the team that asks may not look, in words
}

// UndecidedItem is an event that is in the log, and of which the ledger has nothing for a subscription that reads its source.
type UndecidedItem struct {
	Team         string    `json:"team"`
	Subscription string    `json:"subscription"`
	Source       string    `json:"source"`
	EventID      string    `json:"event_id"`
	Type         string    `json:"type"`
	Entity       string    `json:"entity"`
	Topic        string    `json:"topic"`
	Partition    int32     `json:"partition"`
	Offset       int64     `json:"offset"`
	ReceivedAt   time.Time `json:"received_at"`
	// NextOffset is where the subscription stands in the partition; null: it has not claimed it yet. Past it, the event is not decided
	// any more: it was before the subscription's begin, was passed over, or its retention has ended.
	NextOffset *int64 `json:"next_offset"`
	Passed     bool   `json:"passed"`
}

// InboxDetail is an event with its actions and their attempts.
type InboxDetail struct {
	InboxItem
	Title   string       `json:"title,omitempty"`  // what the entity is called
	Sender  *SenderItem  `json:"sender,omitempty"` // who made it happen
	Actions []ActionItem `json:"actions"`
	Filters []FilterItem `json:"filters,omitempty"` // of the subscription; none if the log has the event no more
	Story   []StoryItem  `json:"story,omitempty"`   // in the order of time
	Next    string       `json:"next,omitempty"`    // what happens next, and which command changes that
}

// SenderItem is who made an event happen, as its provider says.
type SenderItem struct {
	ID    string `json:"id"`
	Login string `json:"login,omitempty"`
	Kind  string `json:"kind,omitempty"` // human, automation
}

// Text is the sender in a line: its name, id and kind.
func (s *SenderItem) Text() string {
	if s.Login == "" {
		return strings.TrimSpace(s.ID + " " + s.Kind)
	}
	return strings.TrimSpace(s.Login + " (" + s.ID + ") " + s.Kind)
}

// ActionItem is one action of an event.
type ActionItem struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	Destination string        `json:"destination"`
	Status      string        `json:"status"`
	LaneSeq     int64         `json:"lane_seq"`
	Replay      string        `json:"replay,omitempty"` // the replay that runs the event again; its id as of ReplayItem
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
	Again  bool   `json:"again,omitempty"` // although it was redriven before
	DryRun bool   `json:"dry_run,omitempty"`
	// Discard discards the delivery instead: it becomes no event, and attention lists it no more.
	Discard bool `json:"discard,omitempty"`
}

// QuarantineRedriven is the delivery, the event that the mapping makes of it now, and what became of the request.
type QuarantineRedriven struct {
	QuarantineItem
	EventID string     `json:"event_id"`
	Type    string     `json:"type"`
	Entity  string     `json:"entity"`
	State   string     `json:"state"` // planned (a dry run) or done
	Note    string     `json:"note,omitempty"`
	To      *PlaceItem `json:"to,omitempty"` // where the event is
}

// QuarantineMark says that a delivery was redriven, and which event it is where.
type QuarantineMark struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	EventID string    `json:"event_id"`
	To      string    `json:"to"` // TOPIC/PARTITION@OFFSET
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

	Redriven *QuarantineMark `json:"redriven,omitempty"`
}

// People are who answers for something, as the configuration names them.
type People struct {
	Owners  []string `json:"owners,omitempty"`
	Contact string   `json:"contact,omitempty"` // where they are reached
}

// SourceItem is a configured source.
type SourceItem struct {
	People
	Team     string `json:"team"`
	Source   string `json:"source"`
	Preset   string `json:"preset"`
	Path     string `json:"path"`
	URL      string `json:"url,omitempty"` // that the provider calls, where the file says it
	Topic    string `json:"topic"`
	MaxBody  int64  `json:"max_body"`
	Keys     int    `json:"keys"`     // how many secrets it has that have not ended
	Sequence bool   `json:"sequence"` // its versions are of kind sequence
	// Share has the other teams that may read it; "*": all.
	Share []string `json:"share,omitempty"`
	// Seen is what its secrets have verified in the asked process; null: that has no intake role.
	Seen *SeenItem `json:"seen"`
}

// SeenItem is what the secrets of a source have verified in a process, since that began or since they were changed.
type SeenItem struct {
	Verified   int64      `json:"verified"`
	Refused    int64      `json:"refused"`
	VerifiedAt *time.Time `json:"verified_at"` // of the last delivery that was; null: none was
	// Mismatches are the signatures since then that no secret matches, and MismatchedAt is when the first of them came.
	Mismatches   int64      `json:"mismatches"`
	MismatchedAt *time.Time `json:"mismatched_at"`
	// Secrets are what each secret has verified, in the order of the file. One that stays counts on when another is changed.
	Secrets []SecretItem `json:"secrets"`
	Skew    *SkewItem    `json:"skew"` // null: nothing was verified that is signed with a time
}

// SecretItem is what one secret of a source has verified in a process. That has no way to know how old the secret is: Since is when it had it
// first.
type SecretItem struct {
	Since    time.Time  `json:"since"`
	Verified int64      `json:"verified"`
	LastUsed *time.Time `json:"last_used"` // null: it has verified nothing
	Until    *time.Time `json:"until"`     // when it ends; null: never
}

// SkewItem is how far the times of signing of the last verified deliveries were behind the process's clock, below zero ahead of it. The least
// says most of how the clocks differ: the others were longer on the way.
type SkewItem struct {
	Deliveries int     `json:"deliveries"`
	Least      float64 `json:"least_seconds"`
	Most       float64 `json:"most_seconds"`
}

// SubscriptionItem is a configured subscription and how it is doing in the process that was asked.
type SubscriptionItem struct {
	People
	Team         string   `json:"team"`
	Subscription string   `json:"subscription"`
	Sources      []string `json:"sources"`
	Ready        bool     `json:"ready"`
	Missing      string   `json:"missing"` // why it is not ready
	// Paused is set while an operator has it paused, in all processes: nothing is decided and nothing attempted.
	Paused     *PauseItem      `json:"paused"`
	Partitions []PartitionItem `json:"partitions"`
	// Counts are of all partitions of its topics, whichever process has them; null: the asked process does not know.
	Counts *PartitionCounts `json:"partition_counts"`
	// Attention is how much of it waits for an operator, as `forebay attention` lists it; null: the asked process does not know.
	Attention     *int64 `json:"attention"`
	AttentionMore bool   `json:"attention_more,omitempty"` // there is more than was counted
}

// PartitionCounts are how many partitions are in each state. Those that are being claimed are in none of them.
type PartitionCounts struct {
	Total   int `json:"total"`
	Running int `json:"running"`
	Stopped int `json:"stopped"`
	Unread  int `json:"unread"` // nobody reads them
}

// PartitionItem is a partition of a subscription that the asked process owns, or that is stopped in any process.
type PartitionItem struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	State     string `json:"state"`
	Detail    string `json:"detail"`
	// Position is the partition's position in the ledger. It is set where one subscription was asked for, not in lists.
	Position *PositionItem `json:"position,omitempty"`
	// Seek is set while a change of position is asked for and not carried out yet, where one subscription was asked for.
	Seek *SeekAskedItem `json:"seek,omitempty"`
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
	Name  string `json:"name"`           // "subscription acme.triage"
	Role  string `json:"role,omitempty"` // the role that cannot work without it; empty: none can
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"` // what does not run, or waits for somebody else, although the process is ready
}

// Readiness is the body of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// Roles says of each role that was asked about whether it is ready.
	Roles  map[string]bool `json:"roles"`
	Checks []Check         `json:"checks"`
}

// Problem is an RFC 9457 problem body.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// QuarantineFilter narrows a list of quarantined deliveries. An empty Team, Source or Kind means all.
type QuarantineFilter struct {
	Team, Source string
	Kind         string // unusable or refused
	Limit        int    // at most so many
	Waiting      bool   // only what was not redriven
	Cursor       string
}

// Raw is an event's body as it was received. Headers are those of its record: the event's attributes, and the request's headers that are
// kept. They go over the wire in an [InboxRecord] alone.
type Raw struct {
	ContentType string
	Data        []byte
	Headers     []DeadHeader
}

// InboxRecord is an event's record in the log: its headers, and its body as it was received, or the beginning of it.
type InboxRecord struct {
	ContentType string       `json:"content_type"`
	Headers     []DeadHeader `json:"headers"`
	Body        []byte       `json:"body"`
	Bytes       int          `json:"bytes"` // of the whole body
}
