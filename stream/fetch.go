package stream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// fetcher reads claimed partitions from exact offsets and hands them over decoded, while the loop commits the batch
// before. It has a client of its own that knows nothing of the group, so that positions only ever come from the ledger:
// no reset policy, no committed offset, no rebalance can move it.
//
// Every claim is read under its own [intake]: what was polled for a claim that has ended is told from what belongs to
// its successor, which may have to start lower. Partitions are therefore added, removed and polled by one goroutine,
// and a poll is labelled before the next change: removing a partition drops what kgo has buffered for it.
//
// Whatever goes wrong with a partition, it is read again from behind what was handed over last: kgo's own cursor may have
// moved over records that nobody got.
type fetcher struct {
	cl      *kgo.Client
	chunks  *chunkReader // for a batch as it stands in the log; nil in tests
	filter  func(eventType, source string) bool
	records int
	bytes   int
	most    int                                                   // bytes of a record
	onError func(err error)                                       // about no claimed partition
	count   func(ctx context.Context, name string) (topic, error) // see counting

	out     chan unit   // unbuffered: at most one decoded poll waits for the loop. Never closed
	cmds    chan func() // never closed
	waiting atomic.Int32
	wake    atomic.Pointer[context.CancelFunc]

	intakes map[topicPartition]*intake // owned by run
}

type topicPartition struct {
	topic  string
	number int32
}

// intake is one claim's reading of its partition.
type intake struct {
	at   topicPartition
	next ledger.Position // what was read up to; owned by the fetcher
	own  *owned

	failures int       // in a row
	again    time.Time // when to read again after one; zero: it is being read
}

// part is what one poll brought of one partition.
type part struct {
	own     *owned
	from    int64 // where what is in it begins to have been read
	records []ledger.Record
	events  []*schemas.Event // nil where undecodable; as long as records
	next    ledger.Position
	bytes   int
	end     int64 // of the log for readers of committed records, as of the poll
	err     error // reading stands still at from: nothing else is set
}

// unit is what fits a batch.
type unit struct {
	parts   []part
	records int
	bytes   int
}

func newFetcher(cl *kgo.Client, cfg Config, onError func(error)) *fetcher {
	return &fetcher{
		cl: cl, filter: cfg.Filter, records: cfg.BatchRecords, bytes: cfg.BatchBytes, most: cfg.MaxRecordBytes, onError: onError,
		out: make(chan unit), cmds: make(chan func()), intakes: map[topicPartition]*intake{},
	}
}

// fetchBytes bounds what one fetch brings, as it is on the wire: bodies that compress well unpack to ten times as much,
// and all of it is in memory at once.
const fetchBytes = 4 << 20

// fetchOptions make a client that reads committed records from where it is told and never moves by itself. Control
// records are kept and dropped here, because they are what carries a position over the end of a transaction: without
// them a partition that ends in an aborted batch would never be read to its end.
func fetchOptions(cfg Config) ([]kgo.Opt, error) {
	maxRead := int32(cfg.MaxRecordBytes)
	unpack, err := unpackOptions(cfg.MaxRecordBytes)
	if err != nil {
		return nil, err
	}
	return append(append(unpack, cfg.Client...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(min(int32(cfg.BatchBytes), fetchBytes)), // a larger record still comes, alone (KIP-74)
		kgo.FetchMaxPartitionBytes(min(int32(cfg.BatchBytes), fetchBytes/4)),
		kgo.BrokerMaxReadBytes(max(maxRead+1<<20, 100<<20)),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond), // a new claim waits for the long poll that is under way at its broker
	), nil
}

// do runs fn between two polls and returns when it has run, or when ctx is done.
func (f *fetcher) do(ctx context.Context, fn func()) {
	f.waiting.Add(1)
	if c := f.wake.Load(); c != nil {
		(*c)()
	}
	ran := make(chan struct{})
	select {
	case f.cmds <- func() { fn(); close(ran) }:
		<-ran
	case <-ctx.Done():
		f.waiting.Add(-1)
	}
}

func (f *fetcher) add(ctx context.Context, o *owned) {
	f.do(ctx, func() {
		at := o.at
		f.remove(at)
		f.intakes[at] = &intake{at: at, next: o.next, own: o}
		f.read(at, o.next)
	})
}

// read has kgo read a partition from a position on. With the epoch, it checks for truncation before it reads, and again
// whenever the leader changes.
func (f *fetcher) read(at topicPartition, from ledger.Position) {
	offset := kgo.NewOffset().At(from.Offset)
	if from.LeaderEpoch >= 0 {
		offset = offset.WithEpoch(from.LeaderEpoch)
	}
	f.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.topic: {at.number: offset}})
}

func (f *fetcher) drop(ctx context.Context, o *owned) {
	f.do(ctx, func() {
		if in := f.intakes[o.at]; in != nil && in.own == o {
			f.remove(o.at)
		}
	})
}

func (f *fetcher) remove(at topicPartition) {
	if f.intakes[at] == nil {
		return
	}
	delete(f.intakes, at)
	f.cl.RemoveConsumePartitions(map[string][]int32{at.topic: {at.number}})
}

func (f *fetcher) command(fn func()) {
	f.waiting.Add(-1)
	fn()
}

// run polls until ctx is done.
func (f *fetcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := f.poll(ctx)
		for _, u := range f.units(ctx, fetches) {
			if !f.hand(ctx, u) {
				return
			}
		}
		if fetches.NumRecords() == 0 && fetches.Err() != nil && !isDone(fetches.Err()) {
			f.pause(ctx)
		}
	}
}

// isDone reports whether a poll only ended because its context did.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pause keeps an error that comes back at once from spinning.
func (f *fetcher) pause(ctx context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hand gives a unit to the loop, and goes on taking commands while the loop is busy: the loop gives some of them.
func (f *fetcher) hand(ctx context.Context, u unit) bool {
	for {
		select {
		case f.out <- u:
			return true
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return false
		}
	}
}

func (f *fetcher) poll(ctx context.Context) kgo.Fetches {
	pctx, cancel := f.untilAgain(ctx)
	defer cancel()
	f.wake.Store(&cancel)
	for f.waiting.Load() > 0 || len(f.intakes) == 0 {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return nil
		}
	}
	if pctx.Err() != nil {
		return nil // woken for a command that has run by now
	}
	return f.cl.PollRecords(pctx, f.records)
}

// untilAgain reads partitions again whose pause is over, and gives the context of a poll that ends when the next one's is.
func (f *fetcher) untilAgain(ctx context.Context) (context.Context, context.CancelFunc) {
	var first time.Time
	for _, in := range f.intakes {
		switch {
		case in.again.IsZero():
		case !time.Now().Before(in.again):
			in.again = time.Time{}
			f.read(in.at, in.next)
		case first.IsZero() || in.again.Before(first):
			first = in.again
		}
	}
	if first.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, first)
}

// failed stops the reading of a partition for a while, longer each time, and tells the loop why.
func (f *fetcher) failed(in *intake, err error) part {
	f.cl.RemoveConsumePartitions(map[string][]int32{in.at.topic: {in.at.number}})
	in.again = time.Now().Add(min(200*time.Millisecond<<min(in.failures, 5), 5*time.Second))
	in.failures++
	return part{own: in.own, from: in.next.Offset, err: err}
}

// units cuts a poll into what fits a batch each, in order. A record that is larger than a batch comes alone.
func (f *fetcher) units(ctx context.Context, fetches kgo.Fetches) []unit {
	c := cutting{f: f, counts: counting{ask: f.count}}
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		in := f.intakes[topicPartition{tp.Topic, tp.Partition}]
		if in == nil { // an error about the client, or a partition given up
			if tp.Err != nil && !isDone(tp.Err) {
				f.onError(tp.Err)
			}
			return
		}
		if !in.again.IsZero() { // failed in this poll: it is read again from before this
			return
		}
		if err := moved(fetches, tp.Topic, tp.Partition); err != nil {
			c.parts = append(c.parts, f.failed(in, err)) // records beside it are not trusted: they may lie behind a truncation
			return
		}
		if tp.LogStartOffset > in.next.Offset { // kgo moves an offset into the log where it had to look the partition up first
			c.parts = append(c.parts, f.failed(in, kerr.OffsetOutOfRange))
			return
		}
		c.part = nil
		for _, r := range tp.Records {
			if err := c.record(ctx, in, r, tp.LastStableOffset); err != nil {
				c.parts = append(c.parts, f.failed(in, err))
				return
			}
		}
		e, large := errors.AsType[*kgo.ErrDecompressTooLarge](tp.Err)
		switch {
		case large && e.NextOffset > in.next.Offset:
			next := ledger.Position{Offset: e.NextOffset, LeaderEpoch: e.Epoch}
			rec := f.unread(ctx, in, e) // before kgo goes on behind it
			c.put(in, next, tp.LastStableOffset, 0)
			c.add(rec, nil)
			f.skip(in, next)
		case tp.Err != nil: // a batch that is broken: the records before it are good
			c.parts = append(c.parts, f.failed(in, tp.Err))
		}
	})
	if len(c.parts) > 0 {
		c.units = append(c.units, c.unit)
	}
	return c.units
}

// cutting is a poll on its way into units.
type cutting struct {
	f      *fetcher
	counts counting
	units  []unit
	unit
	part *part // of the partition at hand in the unit at hand; nil: none yet
}

// record takes one record of a partition. An error means that it cannot be decided yet.
func (c *cutting) record(ctx context.Context, in *intake, r *kgo.Record, end int64) error {
	if r.Offset < in.next.Offset {
		return nil
	}
	size, next := weight(r), ledger.Position{Offset: r.Offset + 1, LeaderEpoch: r.LeaderEpoch}
	if r.Attrs.IsControl() {
		c.put(in, next, end, size)
		return nil
	}
	rec, event := decode(r, c.f.filter, bounds{partitions: in.own.partitions, bytes: c.f.most})
	if rec.Broken == gate.ReasonMisplaced {
		if err := c.counts.check(ctx, in.own); err != nil {
			return err
		}
	}
	c.put(in, next, end, size)
	c.add(rec, event)
	c.bytes += size
	c.part.bytes += size
	return nil
}

// put makes room for size bytes of a partition that is read up to next.
func (c *cutting) put(in *intake, next ledger.Position, end int64, size int) {
	if c.unit.records >= c.f.records || c.unit.records > 0 && c.bytes+size > c.f.bytes {
		c.units, c.unit, c.part = append(c.units, c.unit), unit{}, nil
	}
	if c.part == nil {
		c.parts = append(c.parts, part{own: in.own, from: in.next.Offset})
		c.part = &c.parts[len(c.parts)-1]
	}
	in.next, in.failures = next, 0
	c.part.end, c.part.next = max(end, next.Offset), next
}

func (c *cutting) add(rec ledger.Record, event *schemas.Event) {
	c.part.records, c.part.events = append(c.part.records, rec), append(c.part.events, event)
	c.unit.records++
}

// skip reads on behind a batch that cannot be read: kgo has stopped in front of it.
func (f *fetcher) skip(in *intake, to ledger.Position) {
	f.cl.RemoveConsumePartitions(map[string][]int32{in.at.topic: {in.at.number}})
	f.read(in.at, to)
}

// unreadTimeout bounds the reading of a batch as it stands in the log: the fetcher takes no commands meanwhile.
const unreadTimeout = 2 * time.Second

// unread is the ledger's view of a batch that decompresses to more than is read: one row for all of its records, at
// the first one's place, with the batch as it stands in the log where that can be had and kept.
func (f *fetcher) unread(ctx context.Context, in *intake, e *kgo.ErrDecompressTooLarge) ledger.Record {
	from := max(e.Offset, in.next.Offset)
	rec := ledger.Record{Record: gate.Record{Offset: from, Broken: gate.ReasonTooLarge}, LeaderEpoch: e.Epoch}
	rec.Error = fmt.Sprintf("the batch of offsets %d to %d decompresses to more than the %d bytes that are read, or to more records than are; all of it is in the log for as long as the topic keeps it",
		from, e.NextOffset-1, f.most)
	if f.chunks == nil {
		return rec
	}
	ctx, cancel := context.WithTimeout(ctx, unreadTimeout)
	defer cancel()
	p := in.own.claim.Partition
	raw, err := f.chunks.batch(ctx, place{p.Topic, p.TopicID, p.Number}, from)
	if err == nil && len(raw) <= keptBatch {
		rec.Packed = func() []byte { return raw }
		rec.Error += "; kept here is the batch as it stands there, compressed"
	}
	return rec
}

// keptBatch is the largest batch that is kept as it is.
const keptBatch = 1 << 20

// moved is the error of a partition in a poll that says that its log may not be what it was: the broker's own, or kgo's notes
// about lost data, which come as fetches of their own, after those with records. An error of kgo's about a batch that it
// could not decode says nothing against the records before it.
func moved(fetches kgo.Fetches, topic string, number int32) (found error) {
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		if tp.Topic != topic || tp.Partition != number || tp.Err == nil {
			return
		}
		_, broker := errors.AsType[*kerr.Error](tp.Err)
		_, lost := errors.AsType[*kgo.ErrDataLoss](tp.Err)
		if broker || lost {
			found = tp.Err
		}
	})
	return found
}

// mustRecheck reports whether an error means that the position and the log may not fit each other any more: then the
// partition is claimed again, and the claim's own questions say what is wrong. After other errors it is just read again.
func mustRecheck(err error) bool {
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return true
	}
	return errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)
}

func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
