package ledger

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// TestInbox is package inbox, which imports this one, so that the tests in here cannot: inbox_test.go, which stands outside of
// the package, fills it in. What is any is a type of inbox, read by seenAs.
var TestInbox struct {
	List           func(ctx context.Context, l *Ledger, status string, d gate.Decision) ([]any, error)
	Item           func(ctx context.Context, l *Ledger, source, id string) (any, error)
	Payload        func(ctx context.Context, l *Ledger, item any) ([]byte, Pointer, error)
	Subscriptions  func(ctx context.Context, l *Ledger) (any, error)
	Ask            func(ctx context.Context, l *Ledger, item any, kind CommandKind, by, reason string) (int64, error)
	Place          func(fence int32, offset int64, key schemas.EventKey) any
	AskAction      func(ctx context.Context, l *Ledger, id schemas.ActionID, kind CommandKind, d CommandDetail, by, reason string) (int64, error)
	CommandStatus  func(ctx context.Context, l *Ledger, id int64) (any, error)
	DeadLetter     func(ctx context.Context, l *Ledger, id schemas.ActionID) (any, error)
	FindDeadLetter func(ctx context.Context, l *Ledger, id schemas.ActionID) (DeadLetter, error)
	Report         func(ctx context.Context, l *Ledger, r Report) (string, error)
	Beat           func(ctx context.Context, l *Ledger, r AttemptRef) (bool, error)
	ActionState    func(ctx context.Context, l *Ledger, r AttemptRef) (any, error)
}

// seenAs reads what the inbox has said by the names of its JSON.
func seenAs[T any](t testing.TB, said any) (v T) {
	t.Helper()
	text, err := json.Marshal(said)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// seen is what the inbox says of an event.
type seen struct {
	Team, Subscription, Source, Version, Status, Topic string
	EventID                                            string `json:"event_id"`
	Partition                                          int32
	Reason                                             gate.Reason
	Attempts                                           int
	NextActionAt                                       *time.Time `json:"next_action_at"`
	Actions                                            []seenAction

	of any // the item
}

type seenAction struct {
	Name       string
	LaneSeq    int64 `json:"lane_seq"`
	Status     Status
	Attempts   int
	Class      string
	Code       int
	Error      string
	Response   []byte
	NextAt     *time.Time `json:"next_at"`
	FinishedAt *time.Time `json:"finished_at"`
	History    []seenAttempt
}

type seenAttempt struct {
	Attempt   int
	Status    Status
	Class     string
	Code      int
	LatencyMS float64 `json:"latency_ms"`
	Error     string
	Response  []byte
	TraceID   string `json:"trace_id"`
}

// item is what the inbox says of an event of acme.triage.
func (f *fixture) item(id string) (seen, error) {
	f.t.Helper()
	i, err := TestInbox.Item(f.t.Context(), f.l, "/acme/github", id)
	s := seenAs[seen](f.t, i)
	s.of = i
	return s, err
}

// list is the inbox, newest first.
func (f *fixture) list(status string, d gate.Decision) (list []seen, err error) {
	f.t.Helper()
	items, err := TestInbox.List(f.t.Context(), f.l, status, d)
	for _, i := range items {
		s := seenAs[seen](f.t, i)
		s.of = i
		list = append(list, s)
	}
	return list, err
}

// bytes are an item's payload, or where it is.
func (f *fixture) bytes(s seen) ([]byte, Pointer, error) {
	return TestInbox.Payload(f.t.Context(), f.l, s.of)
}

// seenPartition is where a partition stands.
type seenPartition struct {
	Seeks, Skipped int64
	OpenActions    int64      `json:"open_actions"`
	LastSeeks      []seenSeek `json:"last_seeks"`
}

type seenSeek struct {
	From    int64 `json:"from_offset"`
	To      int64 `json:"to_offset"`
	Skipped int64
	Owner   string
	FoundAt time.Time `json:"found_at"`
}

func (f *fixture) partitions() ([]seenPartition, error) {
	f.t.Helper()
	s, err := TestInbox.Subscriptions(f.t.Context(), f.l)
	return seenAs[[]seenPartition](f.t, s), err
}

// seenCommand is what became of a command.
type seenCommand struct {
	Kind        CommandKind
	By, Outcome string
	EndedAt     *time.Time `json:"ended_at"`
}

func (f *fixture) commandStatus(id int64) (seenCommand, error) {
	f.t.Helper()
	s, err := TestInbox.CommandStatus(f.t.Context(), f.l, id)
	return seenAs[seenCommand](f.t, s), err
}

// seenState is where an action stands, as its destination is told.
type seenState struct {
	ID                           schemas.ActionID
	Subscription, Name           string
	Destination, Source, EventID string
	Status                       Status
	Attempts                     int
	ResultBy, BeatAt             *time.Time
	Silence                      time.Duration
	Reported                     Status
	Outcome                      string
}
