package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// Who decides by the same is on one side, whoever has begun last, and a subscription with one side is none.
func TestSides(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 11, 23, 2, minute, 0, 0, time.UTC) }
	of := func(process string, by map[string]ledger.DecidesBy) ledger.Decider {
		return ledger.Decider{Process: process, By: by}
	}
	found := sides([]ledger.Decider{
		of("a", map[string]ledger.DecidesBy{"acme.one": {Digest: "x", Since: at(1)}, "acme.two": {Digest: "x", Since: at(9)}}),
		of("b", map[string]ledger.DecidesBy{"acme.one": {Digest: "x", Since: at(5)}, "acme.two": {Digest: "y", Since: at(3)}, "acme.three": {Digest: "x"}}),
		of("c", map[string]ledger.DecidesBy{"acme.two": {Digest: "x", Since: at(4)}}),
	})
	got := map[string]string{}
	for name, list := range found {
		for _, s := range list {
			got[name] += fmt.Sprintf("%s since %s; ", strings.Join(s.names, " "), s.since.Format("04"))
		}
	}
	if d := cmp.Diff(map[string]string{"acme.two": "b since 03; a c since 09; "}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"b", "c", "d.url"}, notTheSame([]map[string]string{{"a": "1", "b": "1", "c": "1", "d (where it leads)": "1", "d.url": "1"}, {"a": "1", "b": "2", "d (where it leads)": "2", "d.url": "2"}})); d != "" {
		t.Error(d)
	}
}

// TestDifferingFilesAreTold: a process that serves a subscription by another file than the one beside it is told in both, with the keys in which the
// files differ: as a rollout at first, and as somebody left behind after ten minutes; not of what is the same, and not any more once it has gone.
func TestDifferingFilesAreTold(t *testing.T) {
	t.Parallel()
	agent, place := newAgent(t), newLedger(t)
	r := deploy(t, agent.URL, place, true)
	one := r.run(config.RoleStream)
	rows := func(p *process) (list []api.AttentionItem) {
		t.Helper()
		l, err := p.app.waits.look(t.Context(), 0)
		if err != nil || l.unknown[api.KindDiffers] != "" {
			t.Fatalf("%v %v", l.unknown, err)
		}
		for _, row := range l.rows {
			if row.Kind == api.KindDiffers {
				list = append(list, row)
			}
		}
		return list
	}
	same := r.run(config.RoleStream)
	if len(rows(one))+len(rows(same)) != 0 {
		t.Errorf("of two with one file: %+v", rows(one))
	}
	same.clean()
	before := r.text
	r.text = strings.Replace(before, "fulfil: {sources: [orders],", "fulfil: {sources: [orders], types: [\"com.example.*\"],", 1)
	r.text = strings.Replace(r.text, "max: 100ms}", "max: 200ms}", 1)
	other := r.run(config.RoleStream)
	rows(one)
	is := func(p *process, reason string) {
		t.Helper()
		list := rows(p)
		if len(list) != 2 || list[0].ID != "acme.fulfil" || list[1].ID != "acme.triage" {
			t.Fatalf("%+v", list)
		}
		for i, keys := range []string{"teams.acme.destinations.agent.retry.max, teams.acme.subscriptions.fulfil.types[0]", "teams.acme.destinations.agent.retry.max"} {
			if list[i].Reason != reason || !strings.Contains(list[i].Detail, "decide by different files") || !strings.Contains(list[i].Detail, ": "+keys+";") || !strings.Contains(list[i].Detail, processName()) {
				t.Errorf("%s: %s %s", list[i].ID, list[i].Reason, list[i].Detail)
			}
		}
	}
	is(other, "rollout")
	is(one, "rollout")
	db := pgtest.Connect(t, place.url, place.schema)
	for _, secret := range []string{"first-secret", "orders-secret"} {
		var found bool
		if err := db.QueryRow(t.Context(), `SELECT bool_or(d::text LIKE '%' || $1 || '%') FROM deciders d`, secret).Scan(&found); err != nil || found {
			t.Errorf("the ledger has %s: %v", secret, err)
		}
	}
	if _, err := db.Exec(t.Context(), `UPDATE deciders SET decides = (SELECT jsonb_object_agg(k, v || jsonb_build_object('since', (v ->> 'since')::timestamptz - interval '11 minutes')) FROM jsonb_each(decides) AS e(k, v))`); err != nil {
		t.Fatal(err)
	}
	is(one, "different_files")
	other.clean()
	if list := rows(one); len(list) != 0 {
		t.Errorf("it has gone: %+v", list)
	}
	r.text = before
	killed := r.run(config.RoleStream)
	rows(killed)
	if _, err := db.Exec(t.Context(), `UPDATE deciders SET counts_until = now(), decides = '{"acme.fulfil": {"digest": "x", "since": "2026-11-23T02:00:00Z"}}'
		WHERE id = $1`, killed.app.waits.me.ID); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return len(rows(one)) == 0 }) {
		t.Errorf("one that was killed counts for ever: %+v", rows(one))
	}
	killed.clean()
	one.clean()
}
