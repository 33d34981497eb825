package inbox

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/jackc/pgx/v5"
)

// crowd fills an inbox: two subscriptions, three partitions, five windows each, events of every decision and status.
func crowd(t *testing.T, rng *rand.Rand) *fixture {
	f := setup(t, func(s *ledger.Spec) { s.Policy.Equal = gate.EqualFirst })
	offset, values := map[int32]int64{}, map[string]int64{}
	for window := range 5 {
		for _, name := range []string{"acme.triage", "acme.other"} {
			n := f.namespace(func(s *ledger.Spec) { s.Name, s.Policy.Equal = name, gate.EqualFirst })
			for part := range int32(3) {
				c, err := n.Claim(t.Context(), ledger.ClaimRequest{Partition: partition(part), Partitions: 8, Confirm: ledgertest.Stay})
				if err != nil {
					t.Fatal(err)
				}
				offset[c.ID] = c.Next.Offset
				var records []ledger.Record
				for range 15 {
					entity := fmt.Sprintf("%s-%d/e%d", name, part, rng.IntN(3))
					values[entity] += rng.Int64N(3)
					r := seq(offset[c.ID], entity, values[entity])
					r.Type = pick(rng, "opened", "closed")
					switch rng.IntN(12) {
					case 0:
						r.Filtered = true
						r.ID += " unwanted"
						r.Key = schemas.NewEventKey(r.Source, r.ID)
					case 1:
						r.Hash[0]++
					case 2:
						r = ledger.Record{LeaderEpoch: 3, Record: gate.Record{Offset: r.Offset, Broken: gate.ReasonUndecodable}, Error: "no event", Packed: func() []byte { return []byte("raw") }}
					case 3:
						r.Source = "/acme/gitlab"
						r.Key = schemas.NewEventKey(r.Source, r.ID)
					}
					records = append(records, r)
					offset[c.ID] += 1 + rng.Int64N(2)
				}
				out, err := n.Apply(t.Context(), []ledger.Slice{slice(c, records...)})
				if err != nil {
					t.Fatal(err)
				}
				var results []ledger.Result
				for _, a := range out[0].Actions {
					switch s := pick(rng, ledger.Done, ledger.Done, ledger.Failed, ledger.Dead, ledger.Unknown, ledger.Pending, ledger.Denied, ledger.Skipped, ledger.Dropped, ledger.WaitingApproval, ledger.WaitingBudget); s {
					case ledger.Pending:
					case ledger.Denied, ledger.Skipped, ledger.Dropped, ledger.WaitingApproval, ledger.WaitingBudget:
						results = append(results, ledger.Result{Claim: c, LaneSeq: a.LaneSeq, Status: s, Class: "policy", Guarded: true})
					default:
						results = append(results, ledger.Result{Claim: c, LaneSeq: a.LaneSeq, Status: s, Attempt: 1, Class: map[bool]string{true: "timeout"}[s != ledger.Done]})
					}
				}
				if _, err := n.Record(t.Context(), results); err != nil {
					t.Fatal(err)
				}
			}
		}
		if window < 4 {
			f.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`)
			if _, err := f.l.Sweep(t.Context(), ledger.SweepConfig{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

// agesOf are times before now: at the edges of the slices that the inbox reads, between them, and often the same.
func agesOf(rng *rand.Rand) (ages []time.Duration) {
	for width := 100 * time.Millisecond; width < 500*24*time.Hour; width *= 8 {
		ages = append(ages, width, width+time.Microsecond, width-time.Microsecond, time.Duration(rng.Int64N(int64(width))))
	}
	return append(ages, 0, 0, 0, 3*365*24*time.Hour, 9*365*24*time.Hour)
}

type inboxPlace struct {
	At     time.Time
	Fence  int32
	Offset int64
	ID     string
}

func placeOf(i *Item) inboxPlace {
	return inboxPlace{i.DecidedAt.UTC(), i.Fence, i.Offset, i.EventID}
}

// Whatever is asked for, in pages of whatever size, over windows and years: no item twice, none missing, newest first.
func TestInboxPagesAreTheInbox(t *testing.T) {
	t.Parallel()
	rng := random(t)
	f := crowd(t, rng)
	f.windowsAtOnce, f.crowded = 1+rng.IntN(12), 1+rng.IntN(600) // pages are put together from several statements, and slices of time
	f.scatter(rng)
	all := f.naive()
	page, err := f.List(t.Context(), Query{Limit: 1000})
	if err != nil || page.Next != "" || len(page.Items) != len(all) {
		t.Fatalf("%d items of %d: %v", len(page.Items), len(all), err)
	}
	windows, statuses := map[int32]bool{}, map[string]int{}
	for i := range page.Items {
		if got := placeOf(&page.Items[i]); got != all[i] {
			t.Fatalf("item %d is %v, want %v", i, got, all[i])
		}
		windows[page.Items[i].window] = true
		statuses[page.Items[i].Status]++
	}
	if len(windows) != 10 || len(statuses) < 9 {
		t.Errorf("%d windows, statuses %v", len(windows), statuses)
	}
	for n := range 25 + len(Statuses()) {
		q := Query{Limit: 3 + rng.IntN(60)}
		some := func() bool { return rng.IntN(5) == 0 }
		if some() {
			q.Team, q.Subscription = "acme", pick(rng, "triage", "other", "none")
		}
		if some() {
			q.Source = pick(rng, "/acme/github", "/acme/gitlab")
		}
		if some() {
			q.Entity = schemas.EntityKey(page.Items[rng.IntN(len(page.Items))].Entity)
		}
		if some() {
			q.Type = pick(rng, "opened", "closed")
		}
		if some() {
			q.Status = pick(rng, Statuses()...)
		}
		if n >= 25 {
			q.Status = Statuses()[n-25]
		}
		if some() {
			q.Decision = pick(rng, gate.Decisions()...)
		}
		if some() {
			q.Since = all[rng.IntN(len(all))].At
		}
		var want []inboxPlace
		for i := range page.Items {
			if q.selects(&page.Items[i]) {
				want = append(want, placeOf(&page.Items[i]))
			}
		}
		if got := f.pages(q); !slices.Equal(got, want) {
			t.Fatalf("%+v: %d items, want %d\n%v\nwant\n%v", q, len(got), len(want), got, want)
		}
	}
	// Behind the newest items the slices of time begin where others stand exactly.
	for i := 0; i < len(all) && all[i].At.Equal(all[0].At); i++ {
		next, err := f.List(t.Context(), Query{Limit: 60, Cursor: cursorOf(&page.Items[i])})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(60, len(all)-i-1); len(next.Items) != want {
			t.Fatalf("%d items behind %d, want %d", len(next.Items), i, want)
		}
		for k := range next.Items {
			if got, want := placeOf(&next.Items[k]), all[i+1+k]; got != want {
				t.Fatalf("item %d behind %d is %v, want %v", k, i, got, want)
			}
		}
	}
}

// scatter gives every item another time.
func (f *fixture) scatter(rng *rand.Rand) {
	f.t.Helper()
	now := one[time.Time](f, `SELECT now()`)
	ages := agesOf(rng)
	for _, table := range []string{"events", "rejected_records"} {
		rows, err := f.slow.Query(f.t.Context(), `SELECT fence, log_offset, window_id, decided_at FROM `+table+` ORDER BY fence, log_offset`)
		if err != nil {
			f.t.Fatal(err)
		}
		type at struct {
			Fence  int32
			Offset int64
			Window int32
			At     time.Time
		}
		places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[at])
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range places {
			places[i].At = now.Add(-ages[rng.IntN(len(ages))])
		}
		f.exec(`UPDATE `+table+` SET decided_at = p."At" FROM jsonb_to_recordset($1) p("At" timestamptz, "Window" int, "Fence" int, "Offset" bigint)
			WHERE window_id = p."Window" AND fence = p."Fence" AND log_offset = p."Offset"`, places)
	}
}

// naive is the whole inbox, of the tables and sorted here.
func (f *fixture) naive() []inboxPlace {
	f.t.Helper()
	rows, err := f.slow.Query(f.t.Context(), `SELECT decided_at, fence, log_offset, event_id FROM events UNION ALL SELECT decided_at, fence, log_offset, event_id FROM rejected_records`)
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[inboxPlace])
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range all {
		all[i].At = all[i].At.UTC()
	}
	slices.SortFunc(all, func(a, b inboxPlace) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Fence, a.Fence), cmp.Compare(b.Offset, a.Offset))
	})
	return all
}

func (q *Query) selects(i *Item) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(q.Team, i.Team) && is(q.Subscription, i.Subscription) && is(q.Source, i.CESource) && is(string(q.Entity), i.Entity) && is(q.Type, i.Type) &&
		is(q.Status, i.Status) && (is(string(q.Decision), string(i.Decision)) || q.Decision == gate.Duplicate && i.Duplicates > 0) && !i.DecidedAt.Before(q.Since)
}

// pages reads all pages of a query.
func (f *fixture) pages(q Query) (all []inboxPlace) {
	f.t.Helper()
	for {
		page, err := f.List(f.t.Context(), q)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range page.Items {
			all = append(all, placeOf(&page.Items[i]))
		}
		if len(page.Items) > q.Limit || page.Next != "" && len(page.Items) < q.Limit {
			f.t.Fatalf("a page of %d, more %t", len(page.Items), page.Next != "")
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}
