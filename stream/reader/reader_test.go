package reader

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

// cutter is a reader that reads one partition from an offset on, and nothing else.
func cutter(t *testing.T, next int64, records, bytes int) (*Reader, *Reading, *[]error) {
	t.Helper()
	var errs []error
	cl, err := kgo.NewClient(kgo.ConsumeResetOffset(kgo.NoResetOffset())) // never connects
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	f := New(cl, &Log{}, Config{BatchRecords: records, BatchBytes: bytes, MaxRecordBytes: 1 << 20, Filter: func(string, string) bool { return true },
		OnError: func(err error) { errs = append(errs, err) }})
	f.count = nil
	in := &Reading{Partition: ledger.Partition{Topic: testTopic}, next: ledger.Position{Offset: next}}
	f.readings[in.at()] = in
	return f, in, &errs
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
func summary(units []Unit) string {
	var all []string
	for _, u := range units {
		for _, p := range u.Parts {
			if p.Err != nil {
				all = append(all, fmt.Sprintf("%d! %v", p.From, p.Err))
				continue
			}
			var offs []string
			for _, r := range p.Records {
				offs = append(offs, fmt.Sprint(r.Offset))
			}
			all = append(all, strings.Join(offs, ",")+">"+fmt.Sprint(p.Next.Offset))
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
			f, in, errs := cutter(t, tt.next, tt.records, tt.bytes)
			units := f.units(t.Context(), tt.fetches)
			if got := summary(units); got != tt.want || len(*errs) > 0 {
				t.Errorf("got %q %v, want %q", got, *errs, tt.want)
			}
			at, failed := tt.next, false
			for _, u := range units {
				for _, p := range u.Parts {
					if p.From != at {
						t.Errorf("a part begins at %d, the one before it ends at %d", p.From, at)
					}
					if failed = p.Err != nil; !failed {
						at = p.Next.Offset
					}
				}
			}
			if in.next.Offset != at || in.retryAt.IsZero() == failed {
				t.Errorf("reading goes on at %d, again %v; handed over up to %d, failed %v", in.next.Offset, in.retryAt, at, failed)
			}
		})
	}
}

// A partition's end is that of the log: what a transaction of another writer holds back is behind, too.
func TestEndBehindAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f, _, _ := cutter(t, 4, 10, 1<<20)
	units := f.units(t.Context(), kgo.Fetches{fetched(kgo.FetchPartition{HighWatermark: 7, LastStableOffset: 5, Records: records(4)})})
	if got := units[0].Parts[0].End; got != 7 {
		t.Errorf("the end is %d", got)
	}
}

func TestUnitsOfNobody(t *testing.T) {
	t.Parallel()
	f, _, errs := cutter(t, 0, 10, 1<<20)
	clear(f.readings)
	refused := errors.New("refused")
	got := f.units(t.Context(), kgo.Fetches{
		fetched(kgo.FetchPartition{Records: records(1, 2)}), fetched(kgo.FetchPartition{Err: refused}),
		fetched(kgo.FetchPartition{Err: context.Canceled}),
	})
	if len(got) > 0 || !slices.Equal(*errs, []error{refused}) {
		t.Errorf("got %v and errors %v", got, *errs)
	}
}
