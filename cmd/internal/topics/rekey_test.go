package topics

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// rekeyRig is a broker with a topic to copy.
type rekeyRig struct {
	t       testing.TB
	cluster *kfake.Cluster
	adm     *kadm.Client
	cl      *kgo.Client
	rekey   Rekey
}

const oldTopic, newTopic = "events.acme.orders", "events.acme.orders.7"

func newRekeyRig(t testing.TB, partitions int32) *rekeyRig {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, oldTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	seed := kgo.SeedBrokers(cluster.ListenAddrs()...)
	cl, err := kgo.NewClient(seed, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &rekeyRig{t: t, cluster: cluster, adm: kadm.NewClient(cl), cl: cl, rekey: Rekey{From: oldTopic, Client: []kgo.Opt{seed, kgo.MetadataMinAge(10 * time.Millisecond)}, RecordBytes: 1 << 20,
		To: Topic{Name: newTopic, Partitions: 7, Replication: 1, Configs: map[string]string{
			cleanupPolicy: "delete", timestampType: "LogAppendTime", retention: "604800000", mostBytes: "-1"}}}}
}

func (r *rekeyRig) send(recs ...*kgo.Record) {
	r.t.Helper()
	for _, rec := range recs {
		rec.Topic = oldTopic
	}
	if err := r.cl.ProduceSync(r.t.Context(), recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// read is a topic's records by key, in order, as text: everything that a copy keeps. It begins at offsets by partition, or at the start.
func (r *rekeyRig) read(topic string, from map[int32]int64) map[string][]string {
	r.t.Helper()
	got := map[string][]string{}
	r.scan(topic, from, func(rec *kgo.Record) {
		key := fmt.Sprintf("%q %v", rec.Key, rec.Key == nil)
		got[key] = append(got[key], fmt.Sprintf("%q %v %q %d", rec.Value, rec.Value == nil, rec.Headers, rec.Timestamp.UnixMilli()))
	})
	return got
}

func (r *rekeyRig) run() Copied {
	r.t.Helper()
	got, err := r.rekey.Run(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func day(minute int) time.Time {
	return time.Date(2026, 11, 20, 0, minute, 0, int(7*time.Millisecond), time.UTC)
}

func TestRekeyCopiesEverythingInOrderPerKey(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 3)
	var recs []*kgo.Record
	for i := range 300 {
		key := []byte(fmt.Sprintf("order/%d", i%37))
		recs = append(recs, &kgo.Record{Key: key, Partition: record.PartitionOf(key, 3), Value: []byte(fmt.Sprintf(`{"n":%d}`, i)), Timestamp: day(i),
			Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte{byte(i)}}, {Key: "ce_id", Value: nil}, {Key: "", Value: []byte{}}}})
	}
	r.send(recs...)
	r.send(&kgo.Record{Value: []byte("nobody's"), Partition: 2, Timestamp: day(1)}, &kgo.Record{Key: []byte{}, Partition: 1, Timestamp: day(2)},
		&kgo.Record{Key: []byte("order/1"), Partition: record.PartitionOf([]byte("order/1"), 3), Value: nil, Timestamp: day(3)})
	want := r.read(oldTopic, nil)
	var told atomic.Int64
	r.rekey.Progress = func(done, of int64) {
		if done > of || of != 303 {
			t.Errorf("%d of %d", done, of)
		}
		told.Add(1)
	}
	got := r.run()
	if d := cmp.Diff(want, r.read(newTopic, nil)); d != "" {
		t.Error(d)
	}
	if got.Records != 303 || got.ID != r.cluster.TopicInfo(newTopic).TopicID || told.Load() < 1 {
		t.Errorf("%+v, told %d times", got, told.Load())
	}
	have, err := describe(t.Context(), r.adm, []string{newTopic})
	if err != nil || have[newTopic][timestampType] != "LogAppendTime" || have[newTopic][retention] != "604800000" {
		t.Errorf("settings after the copy: %v %v", have, err)
	}
}

// A topic that has grown has a key in two partitions. Its records come in the order of their times, and those of one
// partition in that partition's order even where a clock went back.
func TestRekeyOfATopicThatHasGrown(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 6)
	key := []byte("order/1")
	value := func(n int) []byte { return []byte{byte('a' + n)} }
	for n, minute := range []int{1, 5, 3} { // the third goes by the second's time
		r.send(&kgo.Record{Key: key, Partition: 0, Value: value(n), Timestamp: day(minute)})
	}
	for n, minute := range []int{6, 7} { // after the growth
		r.send(&kgo.Record{Key: key, Partition: 5, Value: value(3 + n), Timestamp: day(minute)})
	}
	var others []*kgo.Record // so that partitions are read apart
	for i := range 2000 {
		others = append(others, &kgo.Record{Key: []byte(fmt.Sprint(i)), Partition: int32(1 + i%4), Value: value(0), Timestamp: day(i)})
	}
	r.send(others...)
	r.run()
	var order []string
	for _, rec := range r.read(newTopic, nil)[`"order/1" false`] {
		order = append(order, rec[1:2])
	}
	if got := strings.Join(order, ""); got != "abcde" {
		t.Errorf("the key's records came as %s", got)
	}
}

// Whatever one reader has not read is in the copy, and nothing else, in order per key; who has read some of it finds all of the rest.
func TestRekeyOfAnyTopic(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 1)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		from, to := int32(rapid.IntRange(1, 5).Draw(t, "from")), int32(rapid.IntRange(1, 9).Draw(t, "to"))
		r.rekey.From, r.rekey.To.Name, r.rekey.To.Partitions = fmt.Sprintf("old-%d", run), fmt.Sprintf("new-%d", run), to
		if err := r.cluster.CreateTopic(r.rekey.From, from, nil); err != nil {
			t.Fatal(err)
		}
		var recs []*kgo.Record
		for range rapid.IntRange(0, 60).Draw(t, "records") {
			key := []byte(rapid.SampledFrom([]string{"a", "b", "c", "order/1", "order/2", ""}).Draw(t, "key"))
			recs = append(recs, &kgo.Record{Topic: r.rekey.From, Key: key, Partition: record.PartitionOf(key, from),
				Value: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value"), Timestamp: day(rapid.IntRange(0, 50).Draw(t, "minute"))})
		}
		if err := r.cl.ProduceSync(r.t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		next := map[int32]int64{} // partitions without an entry are unread
		ends := map[int32]int64{}
		for _, rec := range recs {
			ends[rec.Partition]++
		}
		for p, end := range ends {
			if n := rapid.Int64Range(0, end).Draw(t, "read"); n > 0 {
				next[p] = n
			}
		}
		first := next
		r.rekey.Readers = map[string]map[int32]int64{"some": next, "all": ends}
		if rapid.Bool().Draw(t, "one has read nothing") {
			r.rekey.Readers["nothing"], first = nil, nil
		}
		unread, _, _, err := Unread(r.t.Context(), r.adm, r.rekey.From, r.rekey.Readers)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.rekey.Run(r.t.Context())
		if err != nil || got.Records != unread {
			t.Fatal(got, unread, err)
		}
		r.checkBegins(t, got, next)
		if d := cmp.Diff(r.read(r.rekey.From, first), r.read(r.rekey.To.Name, nil)); d != "" {
			t.Fatal(d)
		}
	})
}

// checkBegins reads the copy from where its readers go on.
func (r *rekeyRig) checkBegins(t *rapid.T, got Copied, next map[int32]int64) {
	_, _, ends, err := Unread(r.t.Context(), r.adm, r.rekey.To.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ends, got.Begins["all"]); d != "" {
		t.Fatalf("who has read all goes on at the end\n%s", d)
	}
	unread := map[string]int{}
	r.scan(r.rekey.From, nil, func(rec *kgo.Record) {
		if rec.Offset >= next[rec.Partition] {
			unread[fmt.Sprintf("%q %q %s", rec.Key, rec.Value, rec.Timestamp)]++
		}
	})
	first := map[int32]string{}
	r.scan(r.rekey.To.Name, got.Begins["some"], func(rec *kgo.Record) {
		text := fmt.Sprintf("%q %q %s", rec.Key, rec.Value, rec.Timestamp)
		if _, ok := first[rec.Partition]; !ok {
			if first[rec.Partition] = text; unread[text] == 0 {
				t.Fatalf("partition %d begins at %s, which was read", rec.Partition, text)
			}
		}
		unread[text]--
	})
	for text, n := range unread {
		if n > 0 {
			t.Fatalf("%s lies before where its reader goes on", text)
		}
	}
	for p, at := range got.Begins["nothing"] { // if it is one of the readers
		if at != 0 {
			t.Fatalf("who has read nothing goes on at %d of partition %d", at, p)
		}
	}
}

// scan reads a topic from offsets, or from its start.
func (r *rekeyRig) scan(topic string, from map[int32]int64, each func(*kgo.Record)) {
	r.t.Helper()
	all, err := spans(r.t.Context(), r.adm, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	for p, at := range from {
		all[p] = span{at, all[p].end}
	}
	s, err := newScanner(r.rekey, topic, all)
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.cl.Close()
	for !s.done() {
		if err := s.poll(r.t.Context(), each); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestUnreadOfWhatWasDeleted: what retention has taken is not there to be read, and the start says so.
func TestUnreadOfWhatWasDeleted(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	r.send(&kgo.Record{Partition: 0}, &kgo.Record{Partition: 0}, &kgo.Record{Partition: 0})
	gone := kadm.Offsets{}
	gone.AddOffset(r.rekey.From, 0, 2, -1)
	if _, err := r.adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	unread, starts, ends, err := Unread(t.Context(), r.adm, r.rekey.From, map[string]map[int32]int64{"a": {0: 1}})
	if d := cmp.Diff([]map[int32]int64{{0: 2, 1: 0}, {0: 3, 1: 0}}, []map[int32]int64{starts, ends}); err != nil || unread != 1 || d != "" {
		t.Error(unread, err, d)
	}
}

func TestRekeyRefusesATargetThatIsNotEmpty(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	r.send(&kgo.Record{Key: []byte("k"), Partition: 0})
	r.run()
	if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "holds 1 records already: if an earlier run copied it, switch to it") {
		t.Error(err)
	}
	r.rekey.To.Partitions = 9
	if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "exists with 7 partitions, not 9") {
		t.Error(err)
	}
	// One that was made before, and is empty, is taken; it loses nothing of the copy, whatever its limit was.
	r.rekey.To.Name, r.rekey.To.Partitions = "events.acme.orders.4", 4
	if _, err := r.adm.CreateTopic(t.Context(), 4, 1, map[string]*string{mostBytes: new("1")}, r.rekey.To.Name); err != nil {
		t.Fatal(err)
	}
	r.rekey.HandOver = func(Copied) error {
		have, err := describe(t.Context(), r.adm, []string{r.rekey.To.Name})
		if got := have[r.rekey.To.Name][mostBytes]; got != "-1" {
			t.Errorf("retention.bytes of the copy is %s", got)
		}
		return err
	}
	if got := r.run(); got.Records != 1 {
		t.Errorf("%+v", got)
	}
}

// A Run that ends between any two of its steps is made good by the next one: its readers find all of the topic, once.
func TestRekeyBegunAgain(t *testing.T) {
	t.Parallel()
	crash := errors.New("the process has ended")
	for name, end := range map[string]func(*rekeyRig, context.CancelCauseFunc){
		"when the target is made": func(r *rekeyRig, stop context.CancelCauseFunc) {
			fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: newTopic, Err: kerr.NotEnoughReplicas, Count: -1})
			go func() {
				if fault.Wait(r.t.Context(), 1) == nil {
					stop(crash)
				}
				fault.Remove()
			}()
		},
		"half copied": func(r *rekeyRig, stop context.CancelCauseFunc) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: newTopic, Partitions: []int32{3}, Err: kerr.MessageTooLarge, Count: 1})
		},
		"copied": func(r *rekeyRig, stop context.CancelCauseFunc) {
			r.rekey.Progress = func(done, of int64) {
				if done == of {
					stop(crash)
				}
			}
		},
		"handed over in part": func(r *rekeyRig, stop context.CancelCauseFunc) {
			r.rekey.HandOver = func(Copied) error { return crash }
		},
		"handed over": func(r *rekeyRig, stop context.CancelCauseFunc) {
			r.rekey.HandOver = func(Copied) error { stop(crash); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRekeyRig(t, 3)
			var recs []*kgo.Record
			for i := range 200 {
				key := fmt.Appendf(nil, "order/%d", i%37)
				recs = append(recs, &kgo.Record{Key: key, Partition: record.PartitionOf(key, 3), Value: fmt.Append(nil, i), Timestamp: day(i)})
			}
			r.send(recs...)
			r.rekey.Readers = map[string]map[int32]int64{"acme.triage/0": {0: 1, 1: 1, 2: 1}}
			ctx, stop := context.WithCancelCause(t.Context())
			end(r, stop)
			if _, err := r.rekey.Run(ctx); err == nil {
				t.Fatal("it was not broken off")
			}
			stop(nil)
			var handed Copied
			r.rekey.Progress, r.rekey.HandOver = nil, func(c Copied) error { handed = c; return nil }
			got := r.run()
			if d := cmp.Diff(r.read(oldTopic, r.rekey.Readers["acme.triage/0"]), r.read(newTopic, handed.Begins["acme.triage/0"])); d != "" || got.Records != 197 {
				t.Errorf("%+v %s", got, d)
			}
			if now := r.cluster.TopicInfo(newTopic).TopicID; handed.ID != now {
				t.Errorf("handed over to %x, the topic is %x", handed.ID, now)
			}
			have, err := describe(t.Context(), r.adm, []string{newTopic})
			if err != nil || have[newTopic][timestampType] != "LogAppendTime" || have[newTopic][retention] != "604800000" {
				t.Errorf("settings: %v %v", have, err)
			}
			if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict { // a finished one is not made again
				t.Error(err)
			}
		})
	}
}

// A target with a record that the topic does not hold is no copy of it, whatever its settings: it is left alone.
func TestRekeyLeavesWhatIsNoCopy(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	r.send(&kgo.Record{Key: []byte("k"), Partition: 0, Timestamp: day(1)})
	r.rekey.HandOver = func(Copied) error { return errors.New("ended") }
	if _, err := r.rekey.Run(t.Context()); err == nil {
		t.Fatal("it was not broken off")
	}
	if err := r.cl.ProduceSync(t.Context(), &kgo.Record{Topic: newTopic, Key: []byte("k"), Partition: 1, Timestamp: day(2)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict {
		t.Error(err)
	}
	r.rekey.To.Configs[timestampType], r.rekey.To.Configs[retention] = "CreateTime", "-1" // a finished one would look the same
	if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict {
		t.Error(err)
	}
}

// What writes to the topic while it is copied is found out, and the copy is not taken for whole.
func TestRekeyFindsOutWhoStillWrites(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	r.send(&kgo.Record{Key: []byte("k"), Partition: 0})
	hold := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: newTopic, Err: kerr.NotEnoughReplicas, Count: -1})
	late := make(chan error, 1)
	go func() {
		err := hold.Wait(t.Context(), 1) // the copy is under way
		if err == nil {
			err = r.cl.ProduceSync(t.Context(), &kgo.Record{Topic: oldTopic, Key: []byte("k"), Partition: 1}).FirstErr()
		}
		hold.Remove()
		late <- err
	}()
	_, err := r.rekey.Run(t.Context())
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	if schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "stop the intake first") || !strings.Contains(err.Error(), "is not finished: run it again") {
		t.Error(err)
	}
}

// What lies behind a transaction that is open cannot be copied, and is not left out. One that was aborted is none.
func TestRekeyWaitsForTheEndOfATransaction(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 1)
	tx, err := kgo.NewClient(append(r.rekey.Client, kgo.TransactionalID("tx"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tx.Close)
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r.send(&kgo.Record{Key: []byte("k"), Value: []byte("before")})
	if err := tx.ProduceSync(t.Context(), &kgo.Record{Topic: oldTopic, Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.send(&kgo.Record{Key: []byte("k"), Value: []byte("behind")})
	r.rekey.HandOver = func(Copied) error { t.Error("handed over"); return nil }
	const want = "open in partition 0 from offset 1 on"
	if _, err := r.rekey.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if _, _, _, err := Unread(t.Context(), r.adm, oldTopic, nil); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("planned: %v", err)
	}
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	r.rekey.HandOver = nil
	if got := r.run(); got.Records != 2 {
		t.Errorf("%d records copied", got.Records)
	}
}

// TestRekeyCopiesWhatTheFileWouldRefuse: max_body was lowered since the records came, and the topic has kept its limit; also where an earlier run has left
// a target with the file's.
func TestRekeyCopiesWhatTheFileWouldRefuse(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		r := newRekeyRig(t, 2)
		r.rekey.To.Configs[maxMessage] = "1048576"
		set(t, r.adm, oldTopic, map[string]string{maxMessage: "2097152"})
		large, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			t.Fatal(err)
		}
		defer large.Close()
		random := make([]byte, 3<<19)
		_, _ = rand.NewChaCha8([32]byte{}).Read(random) // what does not get smaller
		if err := large.ProduceSync(t.Context(), &kgo.Record{Topic: oldTopic, Key: []byte("k"), Value: random}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if left {
			if _, err := r.adm.CreateTopic(t.Context(), 7, 1, map[string]*string{maxMessage: new("1048576")}, newTopic); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if got, err := r.rekey.Run(ctx); err != nil || got.Records != 1 {
			t.Errorf("with a target that was left %t: %+v %v", left, got, err)
		}
		if have, err := describe(t.Context(), r.adm, []string{newTopic}); err != nil || have[newTopic][maxMessage] != "2097152" {
			t.Errorf("with a target that was left %t, it takes %s: %v", left, have[newTopic][maxMessage], err)
		}
	}
}

// TestRekeyOfTheLargestRecords: with the largest max_body that the file may have, and a topic that takes whatever a broker does.
func TestRekeyOfTheLargestRecords(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"1048576", "2147483647"} {
		r := newRekeyRig(t, 2)
		r.rekey.RecordBytes = 100<<20 + HeaderRoom
		set(t, r.adm, oldTopic, map[string]string{maxMessage: limit})
		r.send(&kgo.Record{Key: []byte("k"), Partition: 0})
		if got := r.run(); got.Records != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// TestRekeyWaitsForTheBrokers: what the brokers have not taken yet is bounded by its bytes, however many records that is.
func TestRekeyWaitsForTheBrokers(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	const size, count = 100 << 10, 2000 // three times the bound
	for range count / 50 {
		recs := make([]*kgo.Record, 50)
		for i := range recs {
			recs[i] = &kgo.Record{Key: []byte("k"), Value: make([]byte, size)}
		}
		r.send(recs...)
	}
	hold := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: newTopic, Err: kerr.NotEnoughReplicas, Count: -1})
	waits := waiting{full: make(chan struct{})}
	r.rekey.Client = append(r.rekey.Client, kgo.WithHooks(&waits))
	ended := make(chan error, 1)
	go func() { _, err := r.rekey.Run(t.Context()); ended <- err }()
	<-waits.full
	if err := hold.Wait(t.Context(), hold.Hits()+3); err != nil { // time to read on
		t.Fatal(err)
	}
	hold.Remove()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if most := waits.most.Load(); most > waitingBytes+size { // the record that waits for room counts
		t.Errorf("%d bytes have waited, want %d at most", most, waitingBytes+size)
	}
}

// waiting counts the bytes of records that wait in a client to be written.
type waiting struct {
	bytes, most atomic.Int64
	full        chan struct{} // closed when waitingBytes are reached
	once        sync.Once
}

func (w *waiting) OnProduceRecordBuffered(r *kgo.Record) {
	if n := w.bytes.Add(int64(len(r.Value))); n > w.most.Load() { // called one after the other
		if w.most.Store(n); n >= waitingBytes {
			w.once.Do(func() { close(w.full) })
		}
	}
}

func (w *waiting) OnProduceRecordUnbuffered(r *kgo.Record, _ error) {
	w.bytes.Add(-int64(len(r.Value)))
}

func TestRekeyThatFails(t *testing.T) {
	t.Parallel()
	r := newRekeyRig(t, 2)
	r.send(&kgo.Record{Key: []byte("k"), Partition: 0})
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: newTopic, Err: kerr.MessageTooLarge, Count: -1})
	if _, err := r.rekey.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "produce to "+newTopic) || !strings.Contains(err.Error(), "is not finished: run it again") {
		t.Error(err)
	}
	r.rekey.From = "events.acme.none"
	if _, err := r.rekey.Run(t.Context()); err == nil {
		t.Error("a topic that does not exist was copied")
	}
}
