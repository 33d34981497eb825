package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// States of an alert in a message.
const (
	firing   = "firing"
	resolved = "resolved"
)

// Message is what receivers are told of an alert: the body of the event that they get.
type Message struct {
	Status     string            `json:"status"` // firing or resolved
	Alert      string            `json:"alert"`
	Severity   string            `json:"severity"`
	Summary    string            `json:"summary"`
	Team       string            `json:"team"` // empty: nobody's alone
	Labels     map[string]string `json:"labels"`
	Value      *float64          `json:"value"` // null once it is resolved
	Since      time.Time         `json:"since"`
	At         time.Time         `json:"at"` // when it was found
	RunbookURL string            `json:"runbook_url"`

	key string
}

func message(status string, t *ledger.FiringAlert, value *float64, now time.Time) Message {
	return Message{Status: status, Alert: t.Name, Severity: t.Severity, Summary: t.Summary, Team: TeamOf(t.Labels), Labels: t.Labels, Value: value,
		Since: t.Since.UTC(), At: now.UTC(), RunbookURL: RunbookURL(t.Name), key: t.Key}
}

// source is what the events of messages are from; no team has this name.
const source = "/_forebay/alerts"

// action returns a message as a sink takes it. Entity is the alert with its labels: what PagerDuty knows an incident by.
func (m Message) action(receiver string) (sink.Action, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return sink.Action{}, err
	}
	sum := sha256.Sum256(fmt.Append(nil, m.key, m.Status, m.At.UnixNano()))
	e := &schemas.Event{ID: hex.EncodeToString(sum[:16]), Source: source, Type: "forebay.alert." + m.Status, Entity: schemas.EntityKey(m.key),
		Time: m.At, RecordedTime: m.At, DataContentType: "application/json", Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Snapshot, Data: body}
	return sink.Action{ID: schemas.NewActionID("_forebay.alerts", 0, e.Source, e.ID, receiver), Name: "tell", Subscription: "_forebay.alerts", Destination: receiver, Event: e}, nil
}
