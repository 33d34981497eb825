package ledger

import (
	"errors"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// eventCols is how many columns eventRows has; those with a word have one more.
const eventCols = 20

// deltas adds to the events that are written which of them are deltas, where lanes want to know it of what they read back.
func (t *try) deltas(out *writer) error {
	// The writer may be one that another batch has used, of a subscription that wanted it.
	out.events, out.words = out.events[:eventCols], out.words[:eventCols+1]
	if !t.n.spec.Latest {
		return nil
	}
	numbers, words := boolColumn(int(out.events.n())), boolColumn(0)
	for _, w := range t.works {
		if w.fenced {
			continue
		}
		for i := range w.final {
			v, r := &w.final[i], &w.Records[i]
			switch {
			case !remembered(v, r):
			case v.Version.Word != "":
				words.bool(isDelta(r.Payload))
			default:
				numbers.bool(isDelta(r.Payload))
			}
		}
	}
	if numbers.n != out.events.n() || words.n != out.words.n() {
		return refusal{errors.New("the kinds of payload do not match the events that are written")}
	}
	out.events, out.words = append(out.events, numbers), append(out.words, words)
	return nil
}

// payload is the kind of an action's payload as it is read back.
func (t *try) payload(k schemas.PayloadKind) schemas.PayloadKind {
	if !t.n.spec.Latest {
		return ""
	}
	return kindOfPayload(isDelta(k))
}

// remembered reports whether a record gets a row of events; see writer.work.
func remembered(v *verdict, r *Record) bool {
	switch v.Decision {
	case gate.Duplicate, gate.Conflict, gate.Quarantined, gate.Filtered:
		return false
	}
	return !r.Filtered
}

// isDelta: one of unknown kind goes as a delta.
func isDelta(k schemas.PayloadKind) bool { return k != schemas.Snapshot }

func kindOfPayload(delta bool) schemas.PayloadKind {
	if delta {
		return schemas.Delta
	}
	return schemas.Snapshot
}
