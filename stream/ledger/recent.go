package ledger

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// recentKeys are the events that this process has met last in a subscription. Providers repeat soon, so one that is not among
// them is nearly always new, and the current window is not asked for it: its own row tells, for the window takes a key once. It
// refuses the batch of one that came back late, which is tried again with all of its keys asked for; so is a batch in which such
// an event gets no row. Closed windows take no rows any more and are asked for every event.
//
// Where one comes back late, more do (a rewind, a partition that moved here): all keys are asked for until as many events as are
// remembered have passed without another. Safe for concurrent use.
type recentKeys struct {
	mu    sync.Mutex
	sets  []recentSet
	calm  int // events without a late one after which those that are not among these count as new
	doubt int // of those, how many are still to pass
}

// recentSet holds the beginnings of a set's last keys, newest first; 0 is none. It fills a line of the processor's cache.
type recentSet [8]uint64

// maxRecent is how many keys are remembered, in a MiB.
const maxRecent = 1 << 17

func newRecentKeys(keys, calm int) *recentKeys {
	return &recentKeys{sets: make([]recentSet, max(1, keys/len(recentSet{}))), calm: calm, doubt: calm}
}

// meet notes a key and reports whether it is among the last. The caller holds mu.
func (k *recentKeys) meet(key schemas.EventKey) bool {
	begin := max(1, binary.BigEndian.Uint64(key[:]))
	set := &k.sets[binary.BigEndian.Uint64(key[8:])%uint64(len(k.sets))]
	if slices.Contains(set[:], begin) {
		return true
	}
	copy(set[1:], set[:])
	set[0] = begin
	return false
}

// passed notes a batch of so many events that was committed, and whether one of them had come back late.
func (k *recentKeys) passed(events int, late bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if late {
		k.doubt = k.calm
	} else {
		k.doubt = max(0, k.doubt-events)
	}
}

// distrust lets all keys be asked for again.
func (k *recentKeys) distrust() { k.passed(0, true) }

// errUnproven says that an event was taken for new and gets no row that would tell otherwise.
var errUnproven = errors.New("an event that was taken for new may have been there")

// keys are the events' that the current window is asked for, and all of them.
func (t *try) keys() (asked, all *column) {
	asked, all = uuidColumn(0), uuidColumn(t.records())
	k := t.n.recent
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range t.works {
		w.asked = zeroed(w.asked, len(w.Records))
		for i := range w.Records {
			if w.broken(i) {
				continue
			}
			r := &w.Records[i]
			all.uuid(r.Key)
			met := k.meet(r.Key)
			if met {
				t.met++
			}
			// What is filtered gets no row.
			if w.asked[i] = met || w.sure || k.doubt > 0 || r.Filtered; w.asked[i] {
				asked.uuid(r.Key)
			}
		}
	}
	return asked, all
}

// proven reports whether every event that was taken for new gets a row of its own, or was found elsewhere.
func (t *try) proven() bool {
	for _, w := range t.works {
		if w.fenced {
			continue
		}
		for i := range w.final {
			if w.asked[i] || w.broken(i) {
				continue
			}
			switch w.final[i].Decision {
			case gate.Duplicate, gate.Conflict, gate.Quarantined, gate.Filtered:
				if _, found := t.seenAt[w.Records[i].Key]; !found {
					return false
				}
			}
		}
	}
	return true
}

// sureOf lets all keys of the works be asked for.
func (n *Namespace) sureOf(works []*work) {
	n.recent.distrust()
	for _, w := range works {
		w.sure = true
	}
}
