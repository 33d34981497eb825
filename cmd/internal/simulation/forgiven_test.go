package simulation

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// TestForgiven holds what the world knows of an event's record against what Forebay says of it: one alone excuses nothing.
func TestForgiven(t *testing.T) {
	t.Parallel()
	const id = "a-1-7"
	life := ledger.TopicID{1}
	record := removedRecord{topic: topicOf(arrival), partition: 1, offset: 7, id: id, life: life, since: epoch, at: epoch.Add(time.Minute)}
	of := func(kind string) removedRecord { g := record; g.kind = kind; return g }
	stop := func(reason owner.StopReason, from, to int64) *owner.StopError {
		p := ledger.Partition{Topic: record.topic, TopicID: life, Number: 1}
		return &owner.StopError{Partition: p, Reason: reason, Stop: &ledger.Stop{Partition: p, Kind: string(reason), From: from, To: to}}
	}
	dead := `stream-1: WARN action is dead event_id=` + id + ` class=payload_lost`
	for _, test := range []struct {
		name string
		set  func(w *world)
		want bool
	}{
		{"nothing", func(*world) {}, false},
		{"deleted, and nothing said", func(w *world) { w.removed = []removedRecord{of(cutOff)} }, false},
		{"a stop, and nothing deleted", func(w *world) { w.reports = []*owner.StopError{stop(owner.StopBelowStart, 0, 9)} }, false},
		{"a cut that is reported, and none was made", func(w *world) { w.reports = []*owner.StopError{stop(owner.StopTruncated, 0, 9)} }, false},
		{"a payload that is lost, and nothing deleted", func(w *world) { w.trace.lines = []string{dead} }, false},
		{"deleted, and the stop covers it", func(w *world) {
			w.removed, w.reports = []removedRecord{of(cutOff)}, []*owner.StopError{stop(owner.StopBelowStart, 0, 9)}
		}, true},
		{"deleted, and the stop ends before it", func(w *world) {
			w.removed, w.reports = []removedRecord{of(cutOff)}, []*owner.StopError{stop(owner.StopBelowStart, 0, 7)}
		}, false},
		{"deleted, and the log has another record of it", func(w *world) {
			w.removed, w.reports = []removedRecord{of(cutOff)}, []*owner.StopError{stop(owner.StopBelowStart, 0, 9)}
			w.inLogs[id] = true
		}, false},
		{"deleted, and it was decided", func(w *world) {
			w.removed, w.reports = []removedRecord{of(cutOff)}, []*owner.StopError{stop(owner.StopBelowStart, 0, 9)}
			w.trace.decided[id] = true
		}, false},
		{"deleted and decided, and its payload is reported", func(w *world) {
			w.removed, w.trace.lines = []removedRecord{of(cutOff)}, []string{dead}
			w.trace.decided[id] = true
		}, true},
		{"the retention was over, and its payload was to be copied", func(w *world) {
			w.removed, w.trace.lines = []removedRecord{of(retained)}, []string{dead}
		}, false},
		{"deleted, and the topic was created again behind that, which is said", func(w *world) {
			w.removed = []removedRecord{of(cutOff)}
			w.reports = []*owner.StopError{stop(owner.StopRecreated, 4, 0)}
			w.reports[0].Stop.Partition.TopicID = ledger.TopicID{2}
		}, true},
		{"deleted in the topic that was created again", func(w *world) {
			w.removed, w.reports = []removedRecord{of(cutOff)}, []*owner.StopError{stop(owner.StopRecreated, 4, 0)}
		}, false},
		{"in another partition than its entity's, and the topic has grown", func(w *world) {
			w.grown[record.topic], w.trace.misplaced[id], w.trace.decided[id] = true, record.topic, true
		}, true},
		{"in another partition than its entity's, and nothing has moved it", func(w *world) {
			w.trace.misplaced[id], w.trace.decided[id] = record.topic, true
		}, false},
		{"cut off unread, and the cut is reported", func(w *world) {
			w.removed, w.reports = []removedRecord{of(unclean)}, []*owner.StopError{stop(owner.StopTruncated, 4, 6)}
		}, true},
		{"cut off unread, and nothing said", func(w *world) { w.removed = []removedRecord{of(unclean)} }, false},
		{"cut off unread, and the cut is said to be behind it", func(w *world) {
			w.removed, w.reports = []removedRecord{of(unclean)}, []*owner.StopError{stop(owner.StopAboveEnd, 8, 9)}
		}, false},
		{"cut off unread, and the log's start is reported", func(w *world) {
			w.removed, w.reports = []removedRecord{of(unclean)}, []*owner.StopError{stop(owner.StopBelowStart, 4, 9)}
		}, false},
		{"cut off unread, and the cut is said to be in another partition", func(w *world) {
			s := stop(owner.StopTruncated, 4, 6)
			s.Stop.Partition.Number = 2
			w.removed, w.reports = []removedRecord{of(unclean)}, []*owner.StopError{s}
		}, false},
		{"cut off after it was read", func(w *world) {
			g := of(unclean)
			g.read = true
			w.removed, w.reports = []removedRecord{g}, []*owner.StopError{stop(owner.StopTruncated, 4, 9)}
		}, false},
		{"the topic is said to have grown, and has not", func(w *world) { w.reports = []*owner.StopError{stop(owner.StopPartitions, 2, 3)} }, false},
		{"the topic has grown, and nothing said", func(w *world) { w.grown[record.topic] = true }, false},
		{"the topic has grown, and that is said", func(w *world) {
			w.grown[record.topic], w.reports = true, []*owner.StopError{stop(owner.StopPartitions, 2, 3)}
		}, true},
	} {
		w := &world{trace: &trace{decided: map[string]bool{}, misplaced: map[string]string{}}, inLogs: map[string]bool{}, grown: map[string]bool{}, lives: map[string][][16]byte{},
			sender: &sender{delivered: map[string]*delivered{id: {event: &event{id: id, source: arrival}}}}}
		test.set(w)
		if got := w.forgiven()[id]; got != test.want {
			t.Errorf("%s: may be missing: %t, want %t", test.name, got, test.want)
		}
	}
}
