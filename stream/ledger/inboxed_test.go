package ledger

import (
	"context"
	"reflect"
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

// seenAs reads what the inbox has said, by the names of its fields.
func seenAs[T any](t testing.TB, said any) (v T) {
	t.Helper()
	if said != nil {
		copyFields(t, reflect.ValueOf(&v).Elem(), reflect.ValueOf(said))
	}
	return v
}

// copyFields copies a value into one of the same shape: structs field by field, a slice element by element. A field that from does not
// have fails the test.
func copyFields(t testing.TB, to, from reflect.Value) {
	t.Helper()
	switch {
	case from.Type().ConvertibleTo(to.Type()):
		to.Set(from.Convert(to.Type()))
	case to.Kind() == reflect.Slice && from.Len() > 0:
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			copyFields(t, to.Index(i), from.Index(i))
		}
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			f := to.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			source := from.FieldByName(f.Name)
			if !source.IsValid() {
				t.Fatalf("%s has no field %s", from.Type(), f.Name)
			}
			copyFields(t, to.Field(i), source)
		}
	}
}

// seen is what the inbox says of an event.
type seen struct {
	Team, Subscription, Source, Version, Status, Topic string
	EventID                                            string
	Partition                                          int32
	Reason                                             gate.Reason
	Attempts                                           int
	NextActionAt                                       *time.Time
	Actions                                            []seenAction

	of any // the item
}

type seenAction struct {
	Name       string
	LaneSeq    int64
	Status     Status
	Attempts   int
	Class      string
	Code       int
	Error      string
	Response   []byte
	NextAt     *time.Time
	FinishedAt *time.Time
	History    []seenAttempt
}

type seenAttempt struct {
	Attempt   int
	Status    Status
	Class     string
	Code      int
	LatencyMS float64
	Error     string
	Response  []byte
	TraceID   string
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
	OpenActions    int64
	LastSeeks      []seenSeek
}

type seenSeek struct {
	From    int64
	To      int64
	Skipped int64
	Owner   string
	FoundAt time.Time
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
	EndedAt     *time.Time
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
