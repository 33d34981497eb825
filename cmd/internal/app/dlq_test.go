package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// TestWhatIsAskedOfDeadLetters: each verb reaches the owner as what it means, with the flags that it has, and comes to that
// end; a dry run asks for nothing.
func TestWhatIsAskedOfDeadLetters(t *testing.T) {
	t.Parallel()
	f := unowned(t, newLedger(t))
	d := &deadLettersAPI{*f.inbox}
	c := f.claim()
	tests := []struct {
		verb  string
		req   api.DeadLetterRequest
		was   ledger.Status
		kind  ledger.CommandKind
		asked ledger.CommandDetail
		ends  ledger.Status
	}{
		{api.VerbReplay, api.DeadLetterRequest{}, ledger.Dead, ledger.Replay, ledger.CommandDetail{}, ledger.Failed},
		{api.VerbReplay, api.DeadLetterRequest{Force: true}, ledger.Dead, ledger.Replay, ledger.CommandDetail{Force: true}, ledger.Failed},
		{api.VerbReplay, api.DeadLetterRequest{OutcomeUnknown: true}, ledger.Unknown, ledger.Replay, ledger.CommandDetail{OutcomeUnknown: true}, ledger.Failed},
		{api.VerbDiscard, api.DeadLetterRequest{Force: true, OutcomeUnknown: true}, ledger.Dead, ledger.Discard, ledger.CommandDetail{}, ledger.Discarded},
		{api.VerbDiscard, api.DeadLetterRequest{}, ledger.Unknown, ledger.Discard, ledger.CommandDetail{}, ledger.Discarded},
		{api.VerbResolve, api.DeadLetterRequest{Force: true, OutcomeUnknown: true}, ledger.Dead, ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, ledger.Done},
		{api.VerbResolve, api.DeadLetterRequest{}, ledger.Unknown, ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, ledger.Done},
	}
	for i, tt := range tests {
		entity, event := fmt.Sprintf("o-%d", i), fmt.Sprintf("e-%d", i)
		f.apply(c, int64(2*i), entity, event, 1)
		f.apply(c, int64(2*i+1), entity, event+"-next", 2)
		id := schemas.NewActionID("acme.fulfil", 0, "/acme/orders", event, "run")
		if _, err := f.ns.Record(t.Context(), []ledger.Result{{Claim: c, LaneSeq: int64(2*i + 1), ID: id, Status: tt.was, Attempt: 1, Class: "rejected"}}); err != nil {
			t.Fatal(err)
		}
		req := tt.req
		req.Reason, req.By, req.NoWait, req.DryRun = "mended", "ann@ops", true, true
		if a, err := d.AskDeadLetter(t.Context(), string(id), tt.verb, req); err != nil || a.State != api.StatePlanned || a.Command != 0 || a.Detail == "" {
			t.Errorf("%s of %s, dry run: %+v %v", tt.verb, tt.was, a, err)
		}
		if asked, err := f.ns.Commands(t.Context(), []*ledger.Claim{c}, 0); err != nil || len(asked) != 0 {
			t.Fatalf("%s of %s, dry run: asked %+v %v", tt.verb, tt.was, asked, err)
		}
		req.DryRun = false
		a, err := d.AskDeadLetter(t.Context(), string(id), tt.verb, req)
		if err != nil || a.State != api.StateAsked || a.Verb != tt.verb || !a.Parks || a.Behind != nil {
			t.Fatalf("%s of %s: %+v %v", tt.verb, tt.was, a, err)
		}
		asked, err := f.ns.Commands(t.Context(), []*ledger.Claim{c}, 0)
		if err != nil || len(asked) != 1 {
			t.Fatalf("%s of %s: asked %+v %v", tt.verb, tt.was, asked, err)
		}
		got := asked[0]
		want := ledger.Command{ID: a.Command, Claim: c.ID, Kind: tt.kind, VersionLine: got.VersionLine, LaneSeq: int64(2*i + 1), Detail: tt.asked, By: "ann@ops", Reason: "mended"}
		if diff := cmp.Diff(want, got); diff != "" || string(got.VersionLine.Entity) != entity {
			t.Errorf("%s of %s: %s", tt.verb, tt.was, diff)
		}
		told, err := d.DeadLetter(t.Context(), string(id))
		if err != nil || told.Behind == nil || *told.Behind != 1 || !told.Asked || len(told.Commands) != 1 {
			t.Errorf("%s of %s: told as %+v %v", tt.verb, tt.was, told, err)
		}
		if o, err := f.ns.ApplyLaneCommand(t.Context(), c, got); err != nil || o.Status != tt.ends {
			t.Errorf("%s of %s: came to %+v %v", tt.verb, tt.was, o, err)
		}
	}
}

// TestDeadLettersThatNobodyOwns: where the file has the subscription no more, or its topic, no claim will carry a command out. What gives a dead letter
// up is done at once then, also in the place of a command that waits, but not while a process may still own the partition; to run it again is refused.
func TestDeadLettersThatNobodyOwns(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Team){
		"subscription acme.fulfil is not configured any more": func(team *config.Team) { delete(team.Subscriptions, "fulfil") },
		"acme.fulfil does not read " + ordersTopic + " any more": func(team *config.Team) {
			orders := *team.Sources["orders"]
			orders.Topic += ".24"
			team.Sources["orders"] = &orders
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := unowned(t, newLedger(t))
			d := &deadLettersAPI{*f.inbox}
			c := f.claim()
			ids := f.die(c, 3)
			req := api.DeadLetterRequest{Reason: "its team is gone", By: "ann@ops", NoWait: true}
			if a, err := d.AskDeadLetter(t.Context(), ids[0], api.VerbReplay, req); err != nil || a.State != api.StateAsked {
				t.Fatalf("%+v %v", a, err)
			}
			file := *f.inbox.s.a.file()
			team := *file.Teams["acme"]
			team.Subscriptions, team.Sources = maps.Clone(team.Subscriptions), maps.Clone(team.Sources)
			change(&team)
			file.Teams = map[string]*config.Team{"acme": &team}
			f.inbox.s.a.current.Store(&file)

			if _, err := d.AskDeadLetter(t.Context(), ids[1], api.VerbReplay, req); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), name) {
				t.Errorf("replay: %v", err)
			}
			if a, err := d.AskDeadLetter(t.Context(), ids[1], api.VerbDiscard, req); err != nil || a.State != api.StateAsked || !strings.Contains(a.Detail, name+", and nobody/7 owned") {
				t.Errorf("while a process may own it: %+v %v", a, err)
			}
			if err := f.ns.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			counted := look{ledger: []inbox.AttentionCount{{Team: "acme", Subscription: "fulfil", Kind: inbox.AttentionDead, Count: 3}}}
			rows, err := (&attention{a: f.inbox.s.a}).ledgerRows(t.Context(), counted, api.AttentionFilter{Limit: 10})
			if err != nil || len(rows) != 3 || rows[0].Command != "forebay dlq discard "+rows[0].ID+" --reason TEXT" || !strings.Contains(rows[0].Detail, name) {
				t.Errorf("attention: %+v %v", rows, err)
			}
			loop := ledgerRow(&file, &inbox.Attention{Kind: inbox.AttentionLoop, Dead: &inbox.DeadLetter{DeadLetter: ledger.DeadLetter{ID: "act_1", Status: ledger.Dead, Team: "acme", Subscription: "fulfil", Topic: ordersTopic}}})
			if loop.Command != "forebay dlq discard act_1 --reason TEXT" || !strings.Contains(loop.Detail, name) || strings.Contains(loop.Detail, "dlq replay") {
				t.Errorf("a loop: %+v", loop)
			}
			for i, verb := range []string{api.VerbDiscard, api.VerbDiscard, api.VerbResolve} {
				dry := req
				dry.DryRun = true
				if a, err := d.AskDeadLetter(t.Context(), ids[i], verb, dry); err != nil || a.State != api.StatePlanned {
					t.Errorf("%s, dry run: %+v %v", verb, a, err)
				}
				if a, err := d.AskDeadLetter(t.Context(), ids[i], verb, req); err != nil || a.State != api.StateDone || a.Command == 0 {
					t.Errorf("%s: %+v %v", verb, a, err)
				}
				if _, err := d.AskDeadLetter(t.Context(), ids[i], verb, req); schemas.KindOf(err) != schemas.Conflict {
					t.Errorf("%s once more: %v", verb, err)
				}
			}
			list, err := d.DeadLetters(t.Context(), api.DeadLetterFilter{Team: "acme", Limit: 10})
			if err != nil || len(list.Items) > 0 {
				t.Errorf("the list has %+v, %v", list.Items, err)
			}
			told, err := d.DeadLetter(t.Context(), ids[0])
			if err != nil || len(told.Commands) != 1 || told.Commands[0].EndedAt == nil || told.Commands[0].Kind != ledger.Discard {
				t.Errorf("told as %+v %v", told, err)
			}
		})
	}
}

// die gives up the actions of the first n events of the log, and returns their ids.
func (f *idle) die(c *ledger.Claim, n int64) (ids []string) {
	f.t.Helper()
	for i := range n {
		event := fmt.Sprintf("e-%d", i)
		f.apply(c, i, fmt.Sprintf("o-%d", i), event, 1)
		id := schemas.NewActionID("acme.fulfil", 0, "/acme/orders", event, "run")
		if _, err := f.ns.Record(f.t.Context(), []ledger.Result{{Claim: c, LaneSeq: i + 1, ID: id, Status: ledger.Dead, Attempt: 1, Class: "rejected"}}); err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, string(id))
	}
	return ids
}

// TestDeadLettersOfATeamThatIsLeftOut: a slip in a team's file at the start of a process ends none of its subscriptions, nor those that read its sources.
func TestDeadLettersOfATeamThatIsLeftOut(t *testing.T) {
	t.Parallel()
	file := withoutAcme(t)
	if why := abandoned(file, &inbox.DeadLetter{DeadLetter: ledger.DeadLetter{Team: "other", Subscription: "read", Topic: ordersTopic}}); why != "" {
		t.Errorf("who reads its source: %s", why)
	}

	f := unowned(t, newLedger(t))
	d := &deadLettersAPI{*f.inbox}
	c := f.claim()
	ids := f.die(c, 2)
	if err := f.ns.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.inbox.s.a.current.Store(file)
	for team, gone := range map[string]bool{"acme": false, "other": true, "none": true} {
		if topic, known := f.inbox.s.a.sourceTopic(team, "orders"); topic != "" || known != gone {
			t.Errorf("the topic of %s/orders: %q %v", team, topic, known)
		}
		if isGone(file, nameInTeam{team, "fulfil"}) != gone {
			t.Errorf("%s.fulfil is not gone, or is: %v", team, gone)
		}
	}
	for i, verb := range []string{api.VerbReplay, api.VerbDiscard} {
		req := api.DeadLetterRequest{Reason: "mended", By: "ann@ops", NoWait: true}
		if a, err := d.AskDeadLetter(t.Context(), ids[i], verb, req); err != nil || a.State != api.StateAsked {
			t.Errorf("%s: %+v %v", verb, a, err)
		}
	}
}

// withoutAcme is the file of a process that has left out the team acme: it has a slip, and was never read before.
func withoutAcme(t *testing.T) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"forebay.yaml":     "version: 1\nkafka: {brokers: [\"127.0.0.1:9\"]}\npostgres: {url: \"postgres://127.0.0.1:1/none\"}\nteams_dir: teams\n",
		"teams/acme.yaml":  "teams: {acme: {surces: {}}}\n",
		"teams/other.yaml": "teams: {other: {destinations: {log: {type: log}}, subscriptions: {read: {sources: [acme/orders], actions: [{name: look, to: log}]}}}}\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "teams"), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	file, left, err := config.Start(config.Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: []config.Role{config.RoleStream}, Run: true})
	if err != nil || len(left) != 1 || file.Teams["other"] == nil {
		t.Fatalf("%v %v", left, err)
	}
	return file
}

// A replay of a team that a process has left out goes on, however long nobody was heard of who works on it.
func TestReplayOfATeamThatIsLeftOut(t *testing.T) {
	t.Parallel()
	place := newLedger(t)
	f := unowned(t, place)
	c, box := f.claim(), inbox.New(f.l)
	f.apply(c, 0, "o-1", "e-1", 1)
	r := &inbox.Replay{Subscription: "acme.fulfil", Mode: ledger.ReplayFill, Config: "digest", PlannedBy: "jo", Bounds: []inbox.ReplayBounds{{Fence: c.ID,
		Topic: c.Partition.Topic, TopicID: inbox.TopicIDText(c.Partition.TopicID), Partitions: 1, To: 1, Counted: 1}}}
	var err error
	if r.ID, err = box.SaveReplay(t.Context(), r); err == nil {
		err = box.CountReplay(t.Context(), r, r.Bounds, true)
	}
	if err == nil {
		err = box.StartReplay(t.Context(), r, "jo", "it was left out", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), place.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	for table, column := range map[string]string{"fences": "claimed_at", "progress": "processed_at", "replays": "started_at"} {
		if _, err := db.Exec(t.Context(), "UPDATE "+pgx.Identifier{place.schema, table}.Sanitize()+" SET "+column+" = now() - interval '2 hours'"); err != nil {
			t.Fatal(err)
		}
	}
	whole := f.inbox.s.a.file()
	for _, tt := range []struct {
		what string
		file *config.Config
		want string
	}{
		{"the team is left out", withoutAcme(t), inbox.ReplayRunning},
		{"it is in the file", whole, inbox.ReplayRunning},
		{"it is gone", &config.Config{}, inbox.ReplayFailed},
	} {
		f.inbox.s.a.current.Store(tt.file)
		f.inbox.s.endReplaysAlone(t.Context(), f.l)
		if got, err := box.Replay(t.Context(), r.ID); err != nil || got.State() != tt.want {
			t.Errorf("%s: %+v %v", tt.what, got, err)
		}
	}
	f.inbox.s.a.current.Store(whole)
}
