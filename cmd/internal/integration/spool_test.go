package integration

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestSpool: the broker is killed under a load of deliveries that their provider sends in order, and the intake, too, while it keeps them on its
// disk. It starts without a broker, and takes what comes. Once the broker is back, all that was accepted is acted on, in order: an older state
// behind a newer one would be stale, and so missing.
func TestSpool(t *testing.T) {
	t.Parallel()
	eachOwnBroker(t, func(t *testing.T, b rig.Broker) {
		const entities, before, away, back = 24, 3, 12, 8
		r := deploy(t, b, options{})
		dir := filepath.Join(r.dir, "spool")
		r.edit("topics: {", "intake: {spool: {dir: spool}}\ntopics: {")
		r.edit("github: {preset: github,", "github: {preset: github, deadline: 2s, on_broker_outage: spool,")
		r.serve("stream")
		p := r.serve("intake")
		number := 0
		deliver := func(states int) <-chan error {
			from := number
			number += states
			done := make(chan error, 1)
			go func() {
				done <- r.sender.load(t.Context(), lines(entities, states, func(e, n int) delivery { return issue(3, e, from+n) }), entities, 100*time.Millisecond)
			}()
			return done
		}
		ended := func(done <-chan error) {
			t.Helper()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		metrics := func() string {
			resp, err := http.Get("http://" + p.operator + "/metrics")
			if err != nil {
				return ""
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			return string(text)
		}
		ended(deliver(before))
		load := deliver(away)
		b.KillBroker(1)
		until(t, "something is on disk", func() bool { return strings.Contains(metrics(), "forebay_spool_records{") })
		p.kill()
		p = r.serve("intake") // ready without a broker
		ended(load)
		if files, _ := filepath.Glob(filepath.Join(dir, r.team+".github", "*.spool")); len(files) == 0 {
			t.Errorf("nothing is in %s", dir)
		}
		if out, err := r.try(p.operator, "attention", "--kind", "spooling"); err != nil || !strings.Contains(string(out), r.team+"/github") {
			t.Errorf("%s %v", out, err)
		}
		load = deliver(back)
		b.RestartBroker(1)
		ended(load)
		r.agent.waitActed(t, entities*number, 3*time.Minute)
		judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
		until(t, "nothing is on disk", func() bool {
			files, _ := filepath.Glob(filepath.Join(dir, "*", "*.spool"))
			text := metrics()
			return len(files) == 0 && text != "" && !strings.Contains(text, "forebay_spool_records{")
		})
		p.stop()
	})
}
