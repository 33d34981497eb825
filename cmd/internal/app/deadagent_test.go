package app

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestDeadAgentIsTold: twelve minutes of refused connections with 66 actions waiting are attention, a metric that an alert asks for, lag, and words
// in /readyz, which stays 200. All of it is over once the agent is back. The twelve minutes are given to the ledger's rows, between two processes.
func TestDeadAgentIsTold(t *testing.T) {
	t.Parallel()
	at, place := rig.FreeAddress(t), newLedger(t)
	r := deploy(t, "http://"+at, place, true)
	p := r.run(config.RoleIntake, config.RoleStream)
	for i := range 66 {
		p.accepted("orders", "orders-secret", order(fmt.Sprint("o-", i), 1))
	}
	p.destination("it fails", func(i *api.DestinationItem) bool { return i.FailingSince != nil && i.Waiting+i.Running == 66 })
	p.clean()
	db := pgtest.Connect(t, place.url, place.schema)
	for _, sql := range []string{`UPDATE events SET decided_at = decided_at - interval '12 minutes'`, `UPDATE actions SET created_at = created_at - interval '12 minutes'`,
		`INSERT INTO destinations (name, failing_since, away_since) VALUES ('acme/agent', now() - interval '12 minutes', now() - interval '12 minutes')
			ON CONFLICT (name) DO UPDATE SET failing_since = excluded.failing_since, away_since = excluded.away_since`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p = r.run(config.RoleIntake, config.RoleStream)

	down := func() (rows int64) {
		list, err := p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindDown})
		if err != nil || len(list.Counts) != 1 {
			t.Fatalf("%+v %v", list, err)
		}
		return list.Counts[0].Count
	}
	lag := func() (oldest time.Duration, says string) {
		page, err := p.api.Lag(t.Context(), "acme", "fulfil")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			if i.OpenSeconds == nil {
				t.Fatal("the age of the oldest action is not known")
			}
			oldest = max(oldest, time.Duration(*i.OpenSeconds*float64(time.Second)))
		}
		return oldest, api.KeepsUp(page.Items)
	}
	oldest := func() (seconds float64) {
		sum, series := counted(t, p.app.registry, "forebay_lane_oldest_seconds", map[string]string{"subscription": "acme.fulfil", "topic": "events.acme.orders"})
		if series != 3 {
			return -1 // its partitions are being claimed
		}
		return sum
	}
	if !rig.Until(time.Minute, func() bool { return down() == 1 && oldest() > 12*60 }) {
		t.Fatalf("%d rows of attention, oldest %v", down(), oldest())
	}
	const words = "66 actions of acme.fulfil wait since 12m: destination agent does not answer (connection refused)"
	var body string
	if !rig.Until(time.Minute, func() bool {
		var status int
		status, body = p.readyz()
		return status == http.StatusOK && strings.Contains(body, words)
	}) {
		t.Errorf("/readyz: %s", body)
	}
	if age, says := lag(); age.Round(time.Minute) != 12*time.Minute || !strings.Contains(says, "66 actions are open, and the first of them has waited for 12m") {
		t.Errorf("the lag: %s: %s", age, says)
	}
	fires := func() (names string) {
		families, err := p.app.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(alerts.Seen(families, alerts.Defaults()), " ")
	}
	if !rig.Until(time.Minute, func() bool { return fires() == "ForebayLag ForebayDestinationDown" }) {
		t.Errorf("there is %q to alert of", fires())
	}

	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t)
	server := &http.Server{Handler: agent.Config.Handler}
	t.Cleanup(func() { server.Close() })
	go server.Serve(listener)
	p.destination("it answers", func(i *api.DestinationItem) bool { return i.FailingSince == nil && i.Waiting+i.Running == 0 })
	if !rig.Until(time.Minute, func() bool {
		_, body = p.readyz()
		age, says := lag()
		return oldest() == 0 && down() == 0 && fires() == "" && age == 0 && strings.HasPrefix(says, "It keeps up") && !strings.Contains(body, "wait since")
	}) {
		age, says := lag()
		t.Errorf("once it is back: oldest %v, %d rows, %q fires, lag %s %s, %s", oldest(), down(), fires(), age, says, body)
	}
	p.clean()
}
