package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Rekey moves what a topic's readers have not read yet to a target topic with another number of partitions. A topic's own number must not
// change, since a key's records must stay in one partition to keep their order. Records keep key, value, headers and timestamp. Those of one
// key are copied in the order of their partition; if the topic has grown and a key is in two partitions, in the order of their timestamps.
// What all have read stays in the topic alone.
//
// Nothing may write to the topic meanwhile; that is checked at the end. If a copy was interrupted, the next Run copies all of it again, behind
// what is there, and readers begin at the second copy. It recognises an interrupted copy by the settings that a target has until all is done,
// and because it has no record that the topic does not have. Any other target must be empty.
type Rekey struct {
	From string
	To   Topic // the target as it is to be; it is created if it does not exist
	// Client are the options of clients of the cluster.
	Client []kgo.Opt
	// RecordBytes is the max.message.bytes of the file; the topic's own counts where it is larger.
	RecordBytes int32
	// Readers are the next offsets of the topic's readers, by name and partition; 0 for a partition that is not in it. Without readers all is copied.
	Readers map[string]map[int32]int64
	// HandOver, if set, moves the readers to the target, before it gets its final settings.
	HandOver func(Copied) error
	// Progress, if set, is called once a second with how many records were copied, of how many.
	Progress func(done, of int64)
}

// Copied is what Run has copied.
type Copied struct {
	Records int64
	ID      [16]byte // of the target
	// Ends are the end offsets of the topic's partitions.
	Ends map[int32]int64
	// Begins is the offset at which each reader goes on, by name and partition of the target: that of the first record that the reader
	// has not read, or the end if there is none. Behind it there may be records that the reader has read already.
	Begins map[string]map[int32]int64
}

// span is the offsets of a partition from start up to before end.
type span struct{ start, end int64 }

// Unread returns how many offsets of a topic one of its readers has not read, and the start and end offsets of each partition. Offsets of
// control records count. Readers are as in [Rekey].
func Unread(ctx context.Context, adm *kadm.Client, topic string, readers map[string]map[int32]int64) (records int64, starts, ends map[int32]int64, err error) {
	all, err := spans(ctx, adm, topic)
	starts = make(map[int32]int64, len(all))
	for p, s := range all {
		starts[p] = s.start
	}
	return total(unread(all, readers)), starts, endsOf(all), err
}

func endsOf(all map[int32]span) map[int32]int64 {
	ends := make(map[int32]int64, len(all))
	for p, s := range all {
		ends[p] = s.end
	}
	return ends
}

// unread returns the spans without what all readers have read.
func unread(all map[int32]span, readers map[string]map[int32]int64) map[int32]span {
	rest := make(map[int32]span, len(all))
	for p, s := range all {
		first := s.end
		for _, next := range readers {
			first = min(first, next[p])
		}
		if len(readers) == 0 {
			first = 0
		}
		rest[p] = span{max(s.start, first), s.end}
	}
	return rest
}

// spans returns the offsets that each partition of a topic has. An error of kind Conflict: a transaction is open in the topic, and nobody can
// read yet what is behind it.
func spans(ctx context.Context, adm *kadm.Client, topic string) (map[int32]span, error) {
	list := func(of func(context.Context, ...string) (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
		all, err := of(ctx, topic)
		if err = cmp.Or(err, all.Error()); err != nil {
			err = unavailable("list offsets of "+topic, err)
		}
		return all, err
	}
	starts, err := list(adm.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := list(adm.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	stable, err := list(adm.ListCommittedOffsets) // after the ends: where it is lower, a transaction was open then
	if err != nil {
		return nil, err
	}
	all := map[int32]span{}
	starts.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(topic, o.Partition)
		all[o.Partition] = span{o.Offset, end.Offset}
		if to, _ := stable.Lookup(topic, o.Partition); to.Offset < end.Offset {
			err = schemas.Errorf(schemas.Conflict, "copy "+topic, "another writer's transaction is open in partition %d from offset %d on, and what is behind it cannot be read: "+
				"its timeout ends it; one that hangs, Kafka's `kafka-transactions.sh find-hanging` finds and `abort` ends", o.Partition, to.Offset)
		}
	})
	return all, err
}

// Run copies what is unread, and hands the readers over. Errors of kind Conflict: the target has other records or another number of
// partitions, a transaction is open in one of both, or the topic has grown meanwhile.
func (r Rekey) Run(ctx context.Context) (Copied, error) {
	cl, err := kgo.NewClient(r.Client...)
	if err != nil {
		return Copied{}, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	from, err := spans(ctx, adm, r.From)
	if err != nil {
		return Copied{}, err
	}
	if err := r.widen(ctx, adm, r.From); err != nil {
		return Copied{}, err
	}
	if err := r.prepare(ctx, adm, from); err != nil {
		return Copied{}, err
	}
	got, err := r.copyUnread(ctx, adm, from)
	if err == nil && r.HandOver != nil {
		err = r.HandOver(got)
	}
	if err != nil {
		return got, fmt.Errorf("%w; %s is not finished: run it again", err, r.To.Name)
	}
	return got, r.finish(ctx, adm)
}

const (
	largestRequest = 100 << 20 // what brokers take by default, socket.request.max.bytes, and kgo sends
	requestRoom    = 1 << 20   // for what is around a batch
)

// widen raises the limits of records to those of a topic. max_body may be lower than when its records came, and they are copied all the same. A topic that
// takes anything makes no larger requests than brokers do.
func (r *Rekey) widen(ctx context.Context, adm *kadm.Client, topic string) error {
	have, err := describe(ctx, adm, []string{topic})
	if err != nil {
		return err
	}
	limit, _ := strconv.ParseInt(have[topic][maxMessage], 10, 64)
	if limit == 0 { // the broker does not have the setting
		return nil
	}
	r.RecordBytes = max(r.RecordBytes, int32(min(limit, largestRequest-requestRoom)))
	if own, _ := strconv.ParseInt(r.To.Configs[maxMessage], 10, 64); own < limit {
		r.To.Configs = maps.Clone(r.To.Configs)
		r.To.Configs[maxMessage] = have[topic][maxMessage]
	}
	return nil
}

// unfinishedCopyConfigs are the settings of the target until the copy is finished: it keeps the timestamps of the copied records, and
// deletes none, however old they are.
var unfinishedCopyConfigs = map[string]string{timestampType: "CreateTime", retention: "-1"}

// prepare makes the target ready to be written: it creates it unless it exists and is empty, or was left by a Run that was interrupted, and
// gives it the settings of an unfinished copy. from are the topic's spans.
func (r Rekey) prepare(ctx context.Context, adm *kadm.Client, from map[int32]span) error {
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.To.Name)
	if err != nil {
		return unavailable("list topics", err)
	}
	if !details.Has(r.To.Name) || details[r.To.Name].Err != nil {
		c := Change{Topic: r.To.Name, Action: Create, want: r.To}
		c.want.Configs = maps.Clone(r.To.Configs)
		maps.Copy(c.want.Configs, unfinishedCopyConfigs)
		if err := create(ctx, adm, &c); err != nil {
			return err
		}
		return waitForLeaders(ctx, adm, []Change{c})
	}
	if n := len(details[r.To.Name].Partitions); n != int(r.To.Partitions) {
		return schemas.Errorf(schemas.Conflict, "copy "+r.From, "%s exists with %d partitions, not %d: name another topic with --to, or delete it if nobody reads or writes it",
			r.To.Name, n, r.To.Partitions)
	}
	to, err := spans(ctx, adm, r.To.Name)
	if err != nil {
		return err
	}
	if records := total(to); records > 0 {
		interrupted, err := r.isInterrupted(ctx, adm, from, to)
		if err != nil {
			return err
		}
		if !interrupted {
			return schemas.Errorf(schemas.Conflict, "copy "+r.From, "%[1]s holds %[2]d records already: if an earlier run copied it, switch to it (what the intake has written to it since is in no other topic); "+
				"else name another topic with --to, or delete it (kafka-topics --delete --topic %[1]s)", r.To.Name, records)
		}
	}
	if err := r.widen(ctx, adm, r.To.Name); err != nil { // its own limit may be the larger one
		return err
	}
	settings := maps.Clone(unfinishedCopyConfigs)
	for _, key := range []string{maxMessage, mostBytes} {
		if value, ok := r.To.Configs[key]; ok {
			settings[key] = value
		}
	}
	return alter(ctx, adm, &Change{Topic: r.To.Name, alter: settings})
}

// isInterrupted reports whether a target that is not empty is an interrupted copy of an earlier Run: it has the settings of an unfinished
// copy, and no record that is not in the topic.
func (r Rekey) isInterrupted(ctx context.Context, adm *kadm.Client, from, to map[int32]span) (bool, error) {
	have, err := describe(ctx, adm, []string{r.To.Name})
	if err != nil || !unfinishedCopy(have[r.To.Name]) || unfinishedCopy(r.To.Configs) { // the last: it may be finished
		return false, err
	}
	known := map[uint64]bool{} // the topic's records, by their hash
	if err := r.scan(ctx, r.From, from, func(rec *kgo.Record) { known[hashOf(rec)] = true }); err != nil {
		return false, err
	}
	foreign := false
	err = r.scan(ctx, r.To.Name, to, func(rec *kgo.Record) { foreign = foreign || !known[hashOf(rec)] })
	return !foreign, err
}

// scan calls each with every record in the spans of a topic.
func (r Rekey) scan(ctx context.Context, topic string, all map[int32]span, each func(*kgo.Record)) error {
	s, err := newScanner(r, topic, all)
	if err != nil {
		return err
	}
	defer s.cl.Close()
	for !s.done() {
		if err := s.poll(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of everything that a copy keeps of a record, with lengths.
func hashOf(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	fmt.Fprintf(&h, "%d %d:%s %d:%s", r.Timestamp.UnixMilli(), len(r.Key), r.Key, len(r.Value), r.Value)
	for _, header := range r.Headers {
		fmt.Fprintf(&h, " %d:%s %d:%s", len(header.Key), header.Key, len(header.Value), header.Value)
	}
	return h.Sum64()
}

// finish gives the target its final settings.
func (r Rekey) finish(ctx context.Context, adm *kadm.Client) error {
	final := map[string]string{}
	for key := range unfinishedCopyConfigs {
		if value, ok := r.To.Configs[key]; ok {
			final[key] = value
		}
	}
	return alter(ctx, adm, &Change{Topic: r.To.Name, alter: final})
}

// copyUnread copies what is unread of the topic's spans, and checks that the topic has not grown meanwhile.
func (r Rekey) copyUnread(ctx context.Context, adm *kadm.Client, from map[int32]span) (Copied, error) {
	places := newPlaces(r.Readers)
	records, err := r.copy(ctx, unread(from, r.Readers), places)
	if err != nil {
		return Copied{}, err
	}
	after, err := spans(ctx, adm, r.From)
	if err != nil {
		return Copied{}, err
	}
	for p, s := range from {
		if grown := after[p].end - s.end; grown != 0 {
			return Copied{}, schemas.Errorf(schemas.Conflict, "copy "+r.From, "partition %d has grown by %d records meanwhile: something still writes to it, stop the intake first",
				p, grown)
		}
	}
	if len(after) != len(from) {
		return Copied{}, schemas.Errorf(schemas.Conflict, "copy "+r.From, "the topic has got partitions meanwhile")
	}
	to, err := spans(ctx, adm, r.To.Name)
	if err != nil {
		return Copied{}, err
	}
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.To.Name)
	if err != nil {
		return Copied{}, unavailable("list topics", err)
	}
	places.rest(to)
	return Copied{Records: records, ID: details[r.To.Name].ID, Begins: places.begins, Ends: endsOf(from)}, nil
}

// copy produces every record of the topic's spans to the target, and returns how many. It tells the places where each record went.
func (r Rekey) copy(ctx context.Context, from map[int32]span, to *places) (int64, error) {
	producer, err := kgo.NewClient(append(append([]kgo.Opt{}, r.Client...),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(r.RecordBytes),
		kgo.BrokerMaxWriteBytes(max(largestRequest, r.RecordBytes+requestRoom)), kgo.MaxBufferedBytes(max(waitingBytes, 2*int(r.RecordBytes))),
		record.Compressor())...)
	if err != nil {
		return 0, err
	}
	defer producer.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	stop := r.reportProgress(&done, total(from))
	defer stop()
	err = r.merged(ctx, from, func(rec *kgo.Record) {
		copied := &kgo.Record{Topic: r.To.Name, Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp}
		copied.Partition = rec.Partition % r.To.Partitions // of a record without a key: it has no order to keep
		if rec.Key != nil {
			copied.Partition = record.PartitionOf(rec.Key, r.To.Partitions)
		}
		partition, offset := rec.Partition, rec.Offset
		producer.Produce(ctx, copied, func(rec *kgo.Record, err error) {
			if err != nil {
				cancel(fmt.Errorf("produce to %s: %w", r.To.Name, err))
				return
			}
			to.put(partition, offset, rec)
			done.Add(1)
		})
	})
	if err == nil {
		err = producer.Flush(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return done.Load(), err
}

// total counts the offsets in all spans.
func total(all map[int32]span) (n int64) {
	for _, s := range all {
		n += s.end - s.start
	}
	return n
}

// reportProgress calls Progress once a second, until stop is called, and then once more.
func (r Rekey) reportProgress(done *atomic.Int64, of int64) (stop func()) {
	if r.Progress == nil {
		return func() {}
	}
	end := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.Progress(done.Load(), of)
			case <-end:
				r.Progress(done.Load(), of)
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(end); reporting.Wait() })
}

// errDeleted is the error of a scan whose records were deleted before it had read them.
var errDeleted = errors.New("records were deleted by the topic's retention while it was read; run it again")
