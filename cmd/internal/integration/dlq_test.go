package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

type deadItem struct {
	ID, Status, Class, Group, Destination, Entity, State, Detail string
	EventID                                                      string `json:"event_id"`
	Deaths, Attempts, Code, Behind                               int
	Flagged, Parks                                               bool
	Record                                                       struct {
		Topic   string
		Value   []byte
		Headers []struct{ Key, Value string }
	}
}

// dlq runs `forebay dlq` and gives its items.
func (r *deployment) dlq(p *process, args ...string) ([]deadItem, error) {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"dlq", "-o", "jsonl"}, args...)...)
	var items []deadItem
	for line := range strings.Lines(string(out)) {
		var i deadItem
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			r.t.Fatalf("dlq %q: %v in %s", args, err, out)
		}
		items = append(items, i)
	}
	return items, err
}

// waitDead waits until the one dead letter has died n times.
func (r *deployment) waitDead(p *process, n int) deadItem {
	r.t.Helper()
	var page struct{ Items []deadItem }
	var err error
	if !rig.Until(time.Minute, func() bool {
		page.Items = nil
		err = p.get("/v1/dlq", url.Values{"team": {r.team}}, &page)
		return err == nil && len(page.Items) == 1 && page.Items[0].Deaths == n && page.Items[0].Status == "dead_letter"
	}) {
		r.t.Fatalf("no dead letter has died %d times: %+v %v", n, page.Items, err)
	}
	return page.Items[0]
}

// TestDeadLetterIsReplayed: what the destination refuses is dead and parks its entity; it is listed, exported and told apart
// once it has died three times; with the destination mended it runs again, and what stands behind it goes on in order, each
// once.
func TestDeadLetterIsReplayed(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	var mended atomic.Bool
	bad := issue(7, 1, 1)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == bad.id && !mended.Load() })
	p := r.serve("intake,stream")
	r.deliver(bad, issue(7, 1, 2), issue(7, 2, 1), issue(7, 1, 3))
	dead := r.waitDead(p, 1)
	if dead.EventID != bad.id || dead.Class != "rejected" || dead.Code != 422 || !dead.Parks || dead.Destination != r.team+"/agent" {
		t.Errorf("%+v", dead)
	}
	waitItems(t, r, p, 2, "--status", "parked")
	if dead = r.waitDead(p, 1); dead.Behind != 2 {
		t.Errorf("%d stand behind it", dead.Behind)
	}
	if _, err := r.dlq(p, "replay", dead.ID); err == nil || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("without a reason: %v", err)
	}
	if got, err := r.dlq(p, "replay", dead.ID, "--dry-run"); err != nil || len(got) != 1 || got[0].State != "planned" {
		t.Errorf("%+v %v", got, err)
	}
	for n := 2; n <= 3; n++ {
		if got, err := r.dlq(p, "replay", dead.ID, "--reason", "perhaps"); err != nil || len(got) != 1 || got[0].State != "done" || got[0].Detail != "runs again" {
			t.Fatalf("%+v %v", got, err)
		}
		dead = r.waitDead(p, n)
	}
	if got, err := r.dlq(p, "replay", "--group", dead.Group, "--reason", "all of them"); err != nil || len(got) != 0 || !dead.Flagged {
		t.Errorf("a flagged one by a filter: %+v %v", got, err)
	}
	exported, err := r.dlq(p, "export", "--team", r.team, "--class", "rejected")
	if err != nil || len(exported) != 1 || exported[0].Record.Topic != "dead."+r.team+".triage" || !strings.Contains(string(exported[0].Record.Value), "issue") {
		t.Errorf("%+v %v", exported, err)
	}
	r.waitExported(b, bad.id, 3)
	mended.Store(true)
	if got, err := r.dlq(p, "replay", "--group", dead.Group, "--flagged", "--reason", "the agent takes them"); err != nil || len(got) != 1 || got[0].State != "done" {
		t.Errorf("%+v %v", got, err)
	}
	waitItems(t, r, p, 4, "--status", "done")
	if got, err := r.dlq(p, "list", "--team", r.team); err != nil || len(got) != 0 {
		t.Errorf("left: %+v %v", got, err)
	}
	if _, err := r.dlq(p, "replay", dead.ID, "--reason", "once more"); err == nil || !strings.Contains(err.Error(), "exit status 6") {
		t.Errorf("what is done is replayed: %v", err)
	}
	var order []string
	for _, c := range r.agent.snapshot() {
		if c.event != issue(7, 2, 1).id {
			order = append(order, c.event)
		}
	}
	if want := []string{bad.id, bad.id, bad.id, bad.id, issue(7, 1, 2).id, issue(7, 1, 3).id}; !slices.Equal(order, want) {
		t.Errorf("the agent was called for %q, want %q", order, want)
	}
	judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
}

// TestOvertakenDeadLetter: an older snapshot died and its entity went on. Replayed it is stale, because a newer one has run; that is what the
// answer says, and what is said to run it all the same does.
func TestOvertakenDeadLetter(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme", onDead: "continue"})
	older, newer := issue(7, 1, 1), issue(7, 1, 2)
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == older.id && !mended.Load() })
	p := r.serve("intake,stream")
	for n, d := range []delivery{older, newer} {
		r.deliver(d)
		waitItems(t, r, p, 1, "--status", []string{"dead_letter", "done"}[n])
	}
	mended.Store(true)
	dead := r.waitDead(p, 1)
	s := &transcript{r: r, p: p, names: []string{operatorName(), "ann@ops", dead.ID, "act_dead"}}
	s.run("dlq", "replay", dead.ID, "--dry-run")
	s.run("dlq", "replay", dead.ID, "--reason", "the agent takes it by now")
	event := "acme/triage/github/" + older.id
	s.run("inbox", "get", event)
	s.run("dlq", "replay", dead.ID, "--reason", "once more")
	if n := len(r.agent.snapshot()); n != 2 {
		t.Errorf("the agent was called %d times, want 2: nothing has run again", n)
	}
	s.run("dlq", "replay", dead.ID, "--force", "--reason", "the agent wants it all the same")
	waitItems(t, r, p, 2, "--status", "done")
	s.run("inbox", "get", event)
	if n := len(r.agent.snapshot()); n != 3 {
		t.Errorf("the agent was called %d times, want 3", n)
	}
	s.golden("overtaken.golden")
}

// waitExported waits until the dead topic has the n-th death of an event; those before it may have come with it.
func (r *deployment) waitExported(b rig.Broker, event string, deaths int) {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...), kgo.ConsumeTopics("dead."+r.team+".triage"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	seen := map[string]bool{}
	for !seen[strconv.Itoa(deaths)] {
		if ctx.Err() != nil {
			r.t.Fatalf("the dead topic has deaths %v, want %d", seen, deaths)
		}
		cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			h := map[string]string{}
			for _, header := range rec.Headers {
				h[header.Key] = string(header.Value)
			}
			if h["ce_id"] != event || h["forebay-dead-class"] != "rejected" || h["forebay-dead-code"] != "422" || len(rec.Value) == 0 {
				r.t.Errorf("headers %q", h)
			}
			seen[h["forebay-dead-deaths"]] = true
		})
	}
}
