package ledger

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Keys that are not looked up. Most events are new, and to look up each of them in the current window is the most expensive read of a
// batch. So only keys are looked up that this process has seen lately; all are for a time after a late repetition.
//
//	                    Postgres CPU    WAL         of an action (forebay-bench lanes, one run each, 22 Nov 2026)
//	with                8.3 µs          488 B
//	without             9.7 µs          489 B
//
// The door, all called by the transaction and by what tries it again:
//
//	keys            which keys the current window is asked for          readSeen
//	countFound      an event that was looked up is there                readSeen
//	allInserted     false: ask again for all keys, errPossibleDuplicate decide
//	keysCommitted   counts how long nothing came late                   commit
//	askAllKeys      of a batch that is tried again                      batchWriter
//	askForAll       of what comes next, after a claim                   Claim
//
// To take it out, keys asks for all of them, and the rest goes.

// recentKeys remembers the last event keys of a subscription in this process. Providers repeat an event soon or not at all,
// so a key that is not among them is nearly always new. The current window is not asked for it: the unique index refuses
// the insert if the key is there. Then the batch is tried again with all its keys asked for, and so is a batch in which
// such an event would get no row. Closed windows take no inserts and are asked for every event.
//
// A late repetition seldom comes alone (a rewind, a partition that moved here). After one, all keys are asked for until
// askAllFor events have passed without another. Safe for concurrent use.
type recentKeys struct {
	mu         sync.Mutex
	sets       []recentSet
	askAllFor  int // after a late repetition, all keys are looked up until so many events have come without another
	askAllLeft int // of those, how many are still to come; 0: only recent keys are looked up
}

// recentSet holds the beginnings of a set's last keys, newest first; 0 is none. It fills a line of the processor's cache.
type recentSet [8]uint64

// maxRecent is how many keys are remembered: a MiB of them.
const maxRecent = 1 << 17

func newRecentKeys(keys, askAllFor int) *recentKeys {
	return &recentKeys{sets: make([]recentSet, max(1, keys/len(recentSet{}))), askAllFor: askAllFor, askAllLeft: askAllFor}
}

// remember remembers a key, and reports whether it was remembered already. The caller holds mu.
func (k *recentKeys) remember(key schemas.EventKey) bool {
	begin := max(1, binary.BigEndian.Uint64(key[:]))
	set := &k.sets[binary.BigEndian.Uint64(key[8:])%uint64(len(k.sets))]
	if slices.Contains(set[:], begin) {
		return true
	}
	copy(set[1:], set[:])
	set[0] = begin
	return false
}

// batchCommitted counts a committed batch of so many events. If one of them was a late repetition, all keys are asked for
// during the next askAllFor events.
func (k *recentKeys) batchCommitted(events int, late bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if late {
		k.askAllLeft = k.askAllFor
	} else {
		k.askAllLeft = max(0, k.askAllLeft-events)
	}
}

// askForAll has all keys looked up again for a time.
func (k *recentKeys) askForAll() { k.batchCommitted(0, true) }

// errPossibleDuplicate says that an event was taken for new without a look-up and gets no row: no unique index checks that it is new.
var errPossibleDuplicate = errors.New("an event that was taken for new may be a duplicate")

// keyLookups are the counts of one try by which a late repetition is recognised: more events were found than keys were recent.
type keyLookups struct {
	recent int // keys that this process has seen lately
	found  int // events that are in the current window
}

// countFound counts an event that was found in a window, if that is the current one.
func (t *batchTx) countFound(window int32) {
	if window == t.win.current {
		t.lookups.found++
	}
}

// keysCommitted counts the batch, once it is committed.
func (t *batchTx) keysCommitted() {
	t.n.recent.batchCommitted(t.records(), t.lookups.found > t.lookups.recent)
}

// keys returns the event keys to look up in the current window, and all keys.
func (t *batchTx) keys() (toLookUp, all *pg.UUIDs) {
	toLookUp, all = &pg.UUIDs{}, &pg.UUIDs{}
	all.Grow(t.records())
	k := t.n.recent
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range t.parts {
		w.lookedUp = zeroed(w.lookedUp, len(w.Records))
		for i := range w.Records {
			if w.broken(i) {
				continue
			}
			r := &w.Records[i]
			all.Add(r.Key)
			if w.replay != nil { // of old events, which would displace recent ones
				w.lookedUp[i] = true
				toLookUp.Add(r.Key)
				continue
			}
			known := k.remember(r.Key)
			if known {
				t.lookups.recent++
			}
			w.lookedUp[i] = known || w.askAllKeys || k.askAllLeft > 0 || r.Filtered || r.Broken != "" // a filtered event gets no row, and neither does one on which match has failed
			if w.lookedUp[i] {
				toLookUp.Add(r.Key)
			}
		}
	}
	return toLookUp, all
}

// allInserted reports whether every event that was taken for new without a look-up gets a row, or was found in a closed window.
func (t *batchTx) allInserted() bool {
	for _, w := range t.parts {
		if w.fenced {
			continue
		}
		for i := range w.verdicts {
			if w.lookedUp[i] || w.broken(i) {
				continue
			}
			if w.verdicts[i].Reason == gate.ReasonKey {
				continue // it gets a row
			}
			switch w.verdicts[i].Decision {
			case gate.Duplicate, gate.Conflict, gate.Quarantined, gate.Filtered:
				if _, found := t.seenAt[w.Records[i].Key]; !found {
					return false
				}
			}
		}
	}
	return true
}

// askAllKeys has all keys of a batch looked up, and those of the batches after it for a time.
func (b batchWriter) askAllKeys(parts []*partitionBatch) {
	b.n.recent.askForAll()
	for _, w := range parts {
		w.askAllKeys = true
	}
}
