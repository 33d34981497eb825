package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Rekey copies a topic to a target topic with another number of partitions. A topic's own number must not change, since a key's records
// must stay in one partition to keep their order. Records keep key, value, headers and timestamp. Those of one key are copied in the
// order of their partition; if the topic has grown and a key is in two partitions, in the order of their timestamps.
//
// Nothing may write to the topic meanwhile; that is checked at the end. If a copy was interrupted, the next Run deletes the target and
// begins again. It recognises an interrupted copy by the settings that a target has until all is done, and because it has no record that
// the topic does not have. Any other target must be empty.
type Rekey struct {
	From string
	To   Topic // the target as it is to be; it is created if it does not exist
	// Client are the options of clients of the cluster.
	Client []kgo.Opt
	// RecordBytes is the topics' max.message.bytes.
	RecordBytes int32
	// Readers are the next offsets of the topic's readers, by name and partition; 0 for a partition that is not in it.
	Readers map[string]map[int32]int64
	// HandOver, if set, moves the readers to the target. It is called once the copy was checked, and before the target gets its final
	// settings: if it fails, the next Run begins again, with a target of another ID.
	HandOver func(Copied) error
	// Progress, if set, is called once a second with how many records were "copied", and later "checked", of how many.
	Progress func(doing string, done, of int64)
}

// Copied is what Run has copied. Every record was read back and compared.
type Copied struct {
	Records, Keys, Bytes int64
	ID                   [16]byte // of the target
	// Ends are the end offsets of the topic's partitions.
	Ends map[int32]int64
	// Begins is the offset at which each reader goes on, by name and partition of the target: that of the first record that the reader
	// has not read, or the end if there is none. Behind it there may be records that the reader has read already.
	Begins map[string]map[int32]int64
}

// span is the offsets of a partition from start up to before end.
type span struct{ start, end int64 }

// PartitionOf returns the partition of a key in a topic of count partitions, as the intake's producer chooses it.
func PartitionOf(key []byte, count int32) int32 {
	return record.PartitionOf(key, count)
}

// Holds returns how many offsets a topic's log has, and the end offset of each partition. Offsets of control records count.
func Holds(ctx context.Context, adm *kadm.Client, topic string) (records int64, ends map[int32]int64, err error) {
	all, err := spans(ctx, adm, topic)
	ends = make(map[int32]int64, len(all))
	for p, s := range all {
		ends[p] = s.end
	}
	return total(all), ends, err
}

// spans returns the offsets that each partition of a topic has, up to the end of what is committed.
func spans(ctx context.Context, adm *kadm.Client, topic string) (map[int32]span, error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, unavailable("list offsets of "+topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, unavailable("list offsets of "+topic, err)
	}
	all := map[int32]span{}
	starts.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(topic, o.Partition)
		all[o.Partition] = span{o.Offset, end.Offset}
	})
	return all, nil
}

// Run copies the topic, reads the copy back and compares, and hands the readers over. Errors of kind Conflict: the target has other
// records or another number of partitions, or the topic has grown meanwhile.
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
	if err := r.prepare(ctx, adm, from); err != nil {
		return Copied{}, err
	}
	got, err := r.copyAndCheck(ctx, adm, from)
	if err == nil && r.HandOver != nil {
		err = r.HandOver(got)
	}
	if err != nil {
		return got, fmt.Errorf("%w; %s is not finished: the next run makes it again", err, r.To.Name)
	}
	return got, r.finish(ctx, adm)
}

// unfinishedCopyConfigs are the settings of the target until the copy is finished: it keeps the timestamps of the copied records, and
// deletes none, however old they are.
var unfinishedCopyConfigs = map[string]string{timestampType: "CreateTime", retention: "-1"}

// prepare makes the target ready to be written: it deletes an interrupted copy, creates the target unless it exists and is empty, and gives
// it the settings of an unfinished copy. from are the topic's spans.
func (r Rekey) prepare(ctx context.Context, adm *kadm.Client, from map[int32]span) error {
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.To.Name)
	if err != nil {
		return unavailable("list topics", err)
	}
	exists := details.Has(r.To.Name) && details[r.To.Name].Err == nil
	if exists {
		interrupted, err := r.isInterrupted(ctx, adm, from)
		if err != nil {
			return err
		}
		if interrupted {
			if err := remove(ctx, adm, r.To.Name); err != nil {
				return err
			}
			exists = false
		}
	}
	if !exists {
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
	records, _, err := Holds(ctx, adm, r.To.Name)
	if err != nil {
		return err
	}
	if records > 0 {
		return schemas.Errorf(schemas.Conflict, "copy "+r.From, "%[1]s holds %[2]d records already: if an earlier run copied it, switch to it (what the intake has written to it since is in no other topic); "+
			"else name another topic with --to, or delete it (kafka-topics --delete --topic %[1]s)", r.To.Name, records)
	}
	return alter(ctx, adm, &Change{Topic: r.To.Name, alter: unfinishedCopyConfigs})
}

// isInterrupted reports whether the target is an interrupted copy of an earlier Run: it has the settings of an unfinished copy, and no
// record that is not in the topic. It takes about forty bytes of memory per record.
func (r Rekey) isInterrupted(ctx context.Context, adm *kadm.Client, from map[int32]span) (bool, error) {
	have, err := describe(ctx, adm, []string{r.To.Name})
	if err != nil {
		return false, err
	}
	if !unfinishedCopy(have[r.To.Name]) {
		return false, nil
	}
	if unfinishedCopy(r.To.Configs) { // the target's final settings are the same, so it may be finished
		return false, nil
	}
	to, err := spans(ctx, adm, r.To.Name)
	if err != nil {
		return false, err
	}
	if total(to) == 0 {
		return true, nil
	}
	missing := map[uint64]int64{} // records of the topic that are not in the target: how many, by their hash
	err = r.scan(ctx, r.From, from, func(rec *kgo.Record) { missing[hashOf(rec)]++ })
	if err != nil {
		return false, err
	}
	foreign := false // the target has a record that is not the topic's
	err = r.scan(ctx, r.To.Name, to, func(rec *kgo.Record) {
		hash := hashOf(rec)
		missing[hash]--
		foreign = foreign || missing[hash] < 0
	})
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

// remove deletes a topic and waits until the brokers no longer list it.
func remove(ctx context.Context, adm *kadm.Client, topic string) error {
	if _, err := adm.DeleteTopic(ctx, topic); err != nil {
		return unavailable("delete topic "+topic, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, topicChangeTimeout, errors.New("the brokers still list it"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), topic) // this option bypasses the client's cache, which may be 5 s old
		if err == nil && errors.Is(details[topic].Err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		select {
		case <-ctx.Done():
			return unavailable("delete topic "+topic, errors.Join(err, context.Cause(ctx)))
		case <-tick.C:
		}
	}
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

// copyAndCheck copies the topic's spans, checks that the topic has not grown meanwhile, reads the target back and compares. It returns
// what it knows of the copy with an error, too.
func (r Rekey) copyAndCheck(ctx context.Context, adm *kadm.Client, from map[int32]span) (Copied, error) {
	places := newPlaces(r.Readers)
	sent, err := r.copy(ctx, from, places)
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
	got := Copied{Records: sent.records, Keys: int64(len(sent.keys)), Bytes: sent.bytes, Begins: places.begins, Ends: map[int32]int64{}}
	for p, s := range from {
		got.Ends[p] = s.end
	}
	to, err := spans(ctx, adm, r.To.Name)
	if err != nil {
		return got, err
	}
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.To.Name)
	if err != nil {
		return got, unavailable("list topics", err)
	}
	got.ID = details[r.To.Name].ID
	places.rest(to)
	return got, r.check(ctx, to, sent)
}

// copy produces every record of the topic's spans to the target. It returns the digest of what it sent, and tells the places where each
// record went.
func (r Rekey) copy(ctx context.Context, from map[int32]span, to *places) (*digest, error) {
	producer, err := kgo.NewClient(append(append([]kgo.Opt{}, r.Client...),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(r.RecordBytes),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()))...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := newDigest()
	var done atomic.Int64
	stop := r.reportProgress("copied", &done, total(from))
	defer stop()
	err = r.merged(ctx, from, func(rec *kgo.Record) {
		d.add(rec)
		copied := &kgo.Record{Topic: r.To.Name, Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp}
		copied.Partition = rec.Partition % r.To.Partitions // of a record without a key: it has no order to keep
		if rec.Key != nil {
			copied.Partition = PartitionOf(rec.Key, r.To.Partitions)
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
	return d, err
}

// check reads the target's spans back and compares their digest with that of what was sent.
func (r Rekey) check(ctx context.Context, to map[int32]span, sent *digest) error {
	var done atomic.Int64
	stop := r.reportProgress("checked", &done, total(to))
	defer stop()
	d := newDigest()
	misplaced := int64(0)
	s, err := newScanner(r, r.To.Name, to)
	if err != nil {
		return err
	}
	defer s.cl.Close()
	for !s.done() {
		err := s.poll(ctx, func(rec *kgo.Record) {
			d.add(rec)
			if rec.Key != nil && PartitionOf(rec.Key, r.To.Partitions) != rec.Partition {
				misplaced++
			}
			done.Add(1)
		})
		if err != nil {
			return err
		}
	}
	if misplaced > 0 {
		return schemas.Errorf(schemas.Internal, "check "+r.To.Name, "%d records are not in their key's partition", misplaced)
	}
	return d.compare(sent, r.To.Name)
}

// total counts the offsets in all spans.
func total(all map[int32]span) (n int64) {
	for _, s := range all {
		n += s.end - s.start
	}
	return n
}

// reportProgress calls Progress once a second, until stop is called, and then once more.
func (r Rekey) reportProgress(doing string, done *atomic.Int64, of int64) (stop func()) {
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
				r.Progress(doing, done.Load(), of)
			case <-end:
				r.Progress(doing, done.Load(), of)
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(end); reporting.Wait() })
}

// errDeleted is the error of a scan whose records were deleted before it had read them.
var errDeleted = errors.New("records were deleted by the topic's retention while it was read; run it again")
