package ledger

import (
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// rejectedRows are rejected records: the parameters of rejectedInsert.
type rejectedRows struct {
	columns
	fence, leaderEpoch, sub       pg.Int32s
	offset, epoch, value          pg.Int64s
	key, hash, firstHash          pg.UUIDs
	received                      pg.Times
	decision, reason, kind        pg.Texts
	versionText, clock, entity    pg.Texts
	source, id, eventType, errors pg.Texts
	raw                           pg.Blobs
}

func newRejectedRows() *rejectedRows {
	r := &rejectedRows{}
	r.columns = columns{{"fence", &r.fence}, {"log_offset", &r.offset}, {"leader_epoch", &r.leaderEpoch}, {"event_key", &r.key}, {"hash", &r.hash},
		{"first_hash", &r.firstHash}, {"received_at", &r.received}, {"decision", &r.decision}, {"reason", &r.reason}, {"kind", &r.kind},
		{"epoch", &r.epoch}, {"value", &r.value}, {"version_text", &r.versionText}, {"sub", &r.sub}, {"clock", &r.clock}, {"entity", &r.entity},
		{"source", &r.source}, {"event_id", &r.id}, {"type", &r.eventType}, {"error", &r.errors}, {"raw", &r.raw}}
	return r
}

// addRejected adds a row for the i-th record of a partition's batch, which was rejected: a conflict, a quarantined or a filtered record.
func (w *writer) addRejected(k *partitionBatch, i int) {
	r, v, c := &k.Records[i], &k.verdicts[i], w.rejected
	decision, reason := v.Decision, v.Reason
	if decision != gate.Conflict && decision != gate.Quarantined && decision != gate.Filtered {
		decision, reason = gate.Filtered, r.FilteredBy() // a filtered event that waits only to fill its place
	}
	c.fence.Add(k.Claim.ID)
	c.offset.Add(r.Offset)
	c.leaderEpoch.Add(r.LeaderEpoch)
	c.received.AddOrNull(r.ReceivedAt)
	c.decision.Add(string(decision))
	c.reason.Add(string(reason))
	if decision == gate.Quarantined && reason != gate.ReasonMisplaced && !reason.KnowsEvent() {
		c.addUntrusted(r)
	} else {
		c.addIdentity(r, v.Version)
		if decision == gate.Conflict {
			c.firstHash.Add(k.state.Seen[r.Key].Hash)
		} else {
			c.firstHash.Null()
		}
	}
	withoutBytes, refused := k.refusedData[i]
	text := pg.Clean(r.Error, 4096)
	if refused && r.Error == "" {
		text = "the database refused the record's data"
	}
	c.errors.AddOrNull(text)
	if decision == gate.Filtered || withoutBytes || r.Packed == nil {
		c.raw.Null()
	} else {
		c.raw.Add(r.Packed())
	}
}

// addIdentity sets the columns that say which event the record is.
func (c *rejectedRows) addIdentity(r *Record, v schemas.Version) {
	c.key.Add(r.Key)
	c.hash.Add(r.Hash)
	c.addVersion(v)
	c.entity.Add(string(r.Entity))
	c.source.Add(r.Source)
	c.id.Add(r.ID)
	c.eventType.Add(r.Type)
}

// addUntrusted sets the same columns for a record that could not be decoded or stored: what it says of itself, cleaned and cut, and no key.
func (c *rejectedRows) addUntrusted(r *Record) {
	c.key.Null()
	c.hash.Null()
	c.firstHash.Null()
	c.addVersion(schemas.Version{Kind: schemas.None})
	c.entity.Add("")
	c.source.Add(pg.Clean(r.Source, 512))
	c.id.Add(pg.Clean(r.ID, 512))
	c.eventType.Add(pg.Clean(r.Type, 512))
}

// addVersion sets the columns of the version.
func (c *rejectedRows) addVersion(v schemas.Version) {
	c.kind.Add(string(v.Kind))
	c.epoch.Add(v.Epoch)
	c.value.Add(v.Value)
	c.versionText.Add(v.Text)
	c.sub.Add(v.Sub)
	c.clock.Add(v.Clock)
}
