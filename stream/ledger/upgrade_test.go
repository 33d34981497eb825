package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/gate"
)

// olden is what the first version said of its ledger; see testdata/ledger_00001/README.md.
type olden struct {
	Inbox, Subscriptions []any
	Open                 []struct {
		Subscription string
		Partition    int32
		Actions      []any
	}
}

func readOlden(t *testing.T) (o olden) {
	t.Helper()
	b, err := os.ReadFile("testdata/ledger_00001/said.json")
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// restored is a schema with the ledger of the first version.
func restored(t *testing.T) Config {
	t.Helper()
	cfg := emptySchema(t)
	sql, err := os.ReadFile("testdata/ledger_00001/ledger.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql = bytes.ReplaceAll(sql, []byte("old_ledger"), []byte(cfg.Schema))
	if _, err := conn.PgConn().Exec(t.Context(), string(sql)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// asJSON is v as json.Unmarshal gives it.
func asJSON(t testing.TB, v any) (out any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// known leaves of got what want has: later versions say more.
func known(want, got any) any {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return got
		}
		out := map[string]any{}
		for k := range w {
			if v, ok := g[k]; ok {
				out[k] = known(w[k], v)
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return got
		}
		out := make([]any, len(g))
		for i := range g {
			out[i] = known(w[i], g[i])
		}
		return out
	}
	return got
}

func (f *fixture) saysAsBefore(what string, want, got any) {
	f.t.Helper()
	if d := cmp.Diff(want, known(want, asJSON(f.t, got)), cmp.FilterPath(isFirstAt, cmp.Comparer(aboutThen))); d != "" {
		f.t.Errorf("%s: %s", what, d)
	}
}

// When an action was first tried is read as how long ago that was by the database's clock, and told by ours.
func isFirstAt(p cmp.Path) bool {
	key, ok := p.Last().(cmp.MapIndex)
	return ok && key.Key().String() == "FirstAt"
}

func aboutThen(a, b any) bool {
	x, errX := time.Parse(time.RFC3339Nano, fmt.Sprint(a))
	y, errY := time.Parse(time.RFC3339Nano, fmt.Sprint(b))
	return errX == nil && errY == nil && x.Sub(y).Abs() < time.Minute
}

// A ledger of the first version is brought to the newest: every event and every action is as it was, what is open is loaded in
// order, what is done is done, and what waited goes on.
func TestLedgerOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	cfg, before := restored(t), readOlden(t)
	applied, err := Migrate(t.Context(), cfg)
	if err != nil || len(applied) == 0 || applied[0] != "00002_completions.sql" {
		t.Fatal(applied, err)
	}
	f := &fixture{t: t, cfg: cfg, l: open(t, cfg)}
	f.inboxAsBefore(before)
	status, err := f.l.Subscriptions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.saysAsBefore("subscriptions", before.Subscriptions, status)

	f.n = f.namespace(func(s *Spec) {
		s.Actions = append(s.Actions, ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: Continue})
		s.Policy.GapWait = 1000 * time.Hour
	})
	parks := *f
	parks.n = f.namespace(func(s *Spec) { s.Name, s.Policy.Then, s.Window = "acme.parks", gate.ThenPark, 0 })
	claims := []*Claim{f.claim(0), f.claim(1), parks.claim(0)}
	if claims[0].Epoch != 2 || !claims[0].Unclean || claims[1].Unclean || claims[2].Epoch != 3 {
		t.Errorf("claims %+v", claims)
	}
	for i, o := range before.Open {
		for _, limit := range []int{1, 4, 1000} {
			f.saysAsBefore(o.Subscription, o.Actions, []*fixture{f, f, &parks}[i].opened(claims[i], limit))
		}
	}
	f.inboxAsBefore(before) // nothing of it changes by reading

	for i, step := range []struct {
		f       *fixture
		records []Record
		want    string
	}{
		{f, []Record{seq(12, "a", 1), seq(13, "a", 3), seq(14, "a", 4), seq(15, "b", 3)},
			"0:duplicate/seen 1:duplicate/seen 2:applied/next 3:applied/next; 23:a-4:run 24:a-4:tell 25:b-3:run 26:b-3:tell"},
		{f, []Record{seq(15, "g", 4), seq(16, "h", 3), seq(17, "g", 3), seq(18, "h", 4)},
			"0:applied/next -1:applied/released 1:applied/next -1:applied/released 2:duplicate/seen 3:duplicate/seen; " +
				"15:g-4:run 16:g-4:tell 17:g-5:run 18:g-5:tell 19:h-3:run 20:h-3:tell 21:h-4:run 22:h-4:tell"},
		{&parks, []Record{seq(21, "a", 2), seq(22, "b", 1)}, "0:applied/next -1:applied/released 1:duplicate/seen; 4:a-2:run 5:a-3:run"},
	} {
		a := step.f.apply(claims[i], step.records...)
		if got := strings.Join(decisions(a), " ") + "; " + strings.Join(lanes(a.Actions), " "); got != step.want {
			t.Errorf("%s\nwant %s", got, step.want)
		}
		if i == 1 && string(a.Actions[2].Packed) != "packed g-5" {
			t.Errorf("the payload of what waited: %q", a.Actions[2].Packed)
		}
		var results []Result
		open, _, err := step.f.n.Open(t.Context(), claims[i], 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range open {
			results = append(results, Result{Claim: claims[i], LaneSeq: o.LaneSeq, Status: Done, Attempt: o.Attempts + 1})
		}
		step.f.record(results...)
		if got := step.f.open(step.f.claim(claims[i].Partition.Number)); len(got) != 0 {
			t.Errorf("open after all is done: %v", got)
		}
	}
	status, err = f.l.Subscriptions(t.Context())
	for _, s := range status {
		if s.OpenActions != 0 || s.Buffered != 0 {
			t.Errorf("%+v %v", s, err)
		}
	}
	statuses := map[string]int{}
	for _, i := range f.inbox() {
		statuses[i.Status]++
	}
	// dead_letter: f-1, whose dead action lets its lane go on.
	if d := cmp.Diff(map[string]int{"done": 28, "dead_letter": 1, "stale": 1, "conflict": 1, "filtered": 1, "quarantined": 1}, statuses); d != "" {
		t.Error(d)
	}
}

func (f *fixture) inbox() []InboxItem {
	f.t.Helper()
	page, err := f.l.Inbox(f.t.Context(), InboxQuery{Limit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	return page.Items
}

// inboxAsBefore compares every event, with its actions and attempts where the first version told them.
func (f *fixture) inboxAsBefore(before olden) {
	f.t.Helper()
	items := f.inbox()
	if len(items) != len(before.Inbox) {
		f.t.Fatalf("%d events, there were %d", len(items), len(before.Inbox))
	}
	for i, item := range items {
		if was := before.Inbox[i].(map[string]any); was["actions"] != nil {
			var err error
			if item, err = f.l.InboxItem(f.t.Context(), item.Team, item.Subscription, item.Source, item.EventID); err != nil {
				f.t.Fatal(err)
			}
		}
		f.saysAsBefore(item.EventID, before.Inbox[i], item)
	}
}

// opened reads a claim's open actions in pages of limit, as the first version wrote them down.
func (f *fixture) opened(c *Claim, limit int) (all []Action) {
	f.t.Helper()
	for after := int64(0); ; {
		page, more, err := f.n.Open(f.t.Context(), c, after, limit)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range page {
			page[i].NextIn, page[i].Claim = 0, 0
		}
		if all = append(all, page...); !more {
			return all
		}
		after = page[len(page)-1].LaneSeq
	}
}
