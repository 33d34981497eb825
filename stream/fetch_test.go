package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// cutter is a fetcher that reads one partition from an offset on, and nothing else.
func cutter(t *testing.T, next int64, records, bytes int) (*fetcher, *owned, *[]error) {
	t.Helper()
	var errs []error
	cl, err := kgo.NewClient(kgo.ConsumeResetOffset(kgo.NoResetOffset())) // never connects
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	f := newFetcher(cl, Config{BatchRecords: records, BatchBytes: bytes, MaxRecordBytes: 1 << 20, Filter: func(string, string) bool { return true }},
		func(err error) { errs = append(errs, err) })
	o := &owned{at: topicPartition{testTopic, 0}, next: ledger.Position{Offset: next}}
	f.intakes[o.at] = &intake{at: o.at, next: o.next, own: o}
	return f, o, &errs
}

func fetched(p kgo.FetchPartition) kgo.Fetch {
	return kgo.Fetch{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{p}}}}
}

func records(offsets ...int64) []*kgo.Record {
	recs := make([]*kgo.Record, len(offsets))
	for i, o := range offsets {
		recs[i] = record.Encode(testTopic, event(int(o)))
		recs[i].Offset, recs[i].LeaderEpoch = o, 7
	}
	return recs
}

// summary shows units as the offsets in them and where to read on, or as where reading failed and why. Parts that do not join
// are shown as such.
func summary(units []unit) string {
	var all []string
	for _, u := range units {
		for _, p := range u.parts {
			if p.err != nil {
				all = append(all, fmt.Sprintf("%d! %v", p.from, p.err))
				continue
			}
			var offs []string
			for _, r := range p.records {
				offs = append(offs, fmt.Sprint(r.Offset))
			}
			all = append(all, strings.Join(offs, ",")+">"+fmt.Sprint(p.next.Offset))
		}
	}
	return strings.Join(all, " ")
}

func TestUnits(t *testing.T) {
	t.Parallel()
	size := weight(records(1)[0])
	broken := errors.New("encoded crc 1 does not match calculated crc 2")
	lost := &kgo.ErrDataLoss{Topic: testTopic, ConsumedTo: 9, ResetTo: 4}
	for _, tt := range []struct {
		name           string
		next           int64
		records, bytes int
		fetches        kgo.Fetches
		want           string
	}{
		{"as it comes", 1, 10, 1 << 20, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(1, 2, 3)})}, "1,2,3>4"},
		{"holes are normal", 1, 10, 1 << 20, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(5, 9)})}, "5,9>10"},
		{"what was read before is dropped", 3, 10, 1 << 20, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(1, 2, 3)})}, "3>4"},
		{"cut by number", 1, 2, 1 << 20, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(1, 2, 3)})}, "1,2>3 3>4"},
		{"cut by bytes", 1, 10, 2*size + 1, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(1, 2, 3)})}, "1,2>3 3>4"},
		{"a large one comes alone", 1, 10, 1, kgo.Fetches{fetched(kgo.FetchPartition{Records: records(1, 2)})}, "1>2 2>3"},
		{"two fetches of one partition", 1, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{Records: records(1)}), fetched(kgo.FetchPartition{Records: records(2)})}, "1>2 2>3"},
		{"the log's start has passed us", 3, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{LogStartOffset: 5, Records: records(5)})}, "3! " + kerr.OffsetOutOfRange.Error()},
		{"records before a broken batch are good", 1, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{Records: records(1, 2), Err: broken})}, "1,2>3 3! " + broken.Error()},
		{"a broken batch at once", 3, 10, 1 << 20, kgo.Fetches{fetched(kgo.FetchPartition{Err: broken})}, "3! " + broken.Error()},
		{"nothing behind an error is taken", 1, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{Records: records(1), Err: broken}), fetched(kgo.FetchPartition{Records: records(5, 6)})}, "1>2 2! " + broken.Error()},
		{"records beside a broker's error are not trusted", 1, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{Records: records(1, 2), Err: kerr.TopicAuthorizationFailed})}, "1! " + kerr.TopicAuthorizationFailed.Error()},
		{"records beside a note of lost data are not trusted", 1, 10, 1 << 20, kgo.Fetches{
			fetched(kgo.FetchPartition{Records: records(9)}), fetched(kgo.FetchPartition{Err: lost})}, "1! " + lost.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, o, errs := cutter(t, tt.next, tt.records, tt.bytes)
			units := f.units(t.Context(), tt.fetches)
			if got := summary(units); got != tt.want || len(*errs) > 0 {
				t.Errorf("got %q %v, want %q", got, *errs, tt.want)
			}
			at, failed := tt.next, false
			for _, u := range units {
				for _, p := range u.parts {
					if p.from != at {
						t.Errorf("a part begins at %d, the one before it ends at %d", p.from, at)
					}
					if failed = p.err != nil; !failed {
						at = p.next.Offset
					}
				}
			}
			if in := f.intakes[o.at]; in.next.Offset != at || in.again.IsZero() == failed {
				t.Errorf("reading goes on at %d, again %v; handed over up to %d, failed %v", in.next.Offset, in.again, at, failed)
			}
		})
	}
}

func TestUnitsOfNobody(t *testing.T) {
	t.Parallel()
	f, _, errs := cutter(t, 0, 10, 1<<20)
	clear(f.intakes)
	refused := errors.New("refused")
	got := f.units(t.Context(), kgo.Fetches{
		fetched(kgo.FetchPartition{Records: records(1, 2)}), fetched(kgo.FetchPartition{Err: refused}),
		fetched(kgo.FetchPartition{Err: context.Canceled}),
	})
	if len(got) > 0 || !slices.Equal(*errs, []error{refused}) {
		t.Errorf("got %v and errors %v", got, *errs)
	}
}

// What was polled for a claim that has ended never reaches its successor, which here has to start lower: otherwise the
// records in between were skipped for good.
func TestStaleRecordsAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.produce(0, 0, 1, 2, 3, 4, 5)
	m := newMemory()
	failed := false
	polled := make(chan struct{})
	m.onApply = func(_ context.Context, b []ledger.Slice) error {
		if len(b[0].Records) > 0 && b[0].Records[0].Offset == 3 && !failed {
			failed = true
			<-polled // the record behind it is on its way to the loop
			m.store(0, 1, -1)
			return errors.New("connection lost; the database came back from a backup")
		}
		return nil
	}
	cfg := r.config(m, newLanes())
	cfg.BatchRecords = 1
	cfg.MirrorInterval = patience // or the mirror would tell that the ledger lost history
	cfg.Client = append(cfg.Client, kgo.WithHooks(onPolled{4, polled}))
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == 6 })
	run.stop(t)
	want := []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/1 e1", "0/2 e2", "0/3 e3", "0/4 e4", "0/5 e5"}
	if !slices.Equal(m.lines, want) {
		t.Errorf("got  %q\nwant %q", m.lines, want)
	}
	m.check(t)
}

// onPolled closes a channel when the record at an offset is polled for the first time.
type onPolled struct {
	offset int64
	polled chan struct{}
}

func (h onPolled) OnFetchRecordUnbuffered(r *kgo.Record, polled bool) {
	if !polled || r.Offset != h.offset {
		return
	}
	select {
	case <-h.polled:
	default:
		close(h.polled)
	}
}
