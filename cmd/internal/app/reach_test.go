package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// TestReadyzFollowsTheBrokers: an intake is ready for as long as Kafka takes what it would send, not since Kafka did once.
func TestReadyzFollowsTheBrokers(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	r := deploy(t, "http://127.0.0.1:1", nil, true, kfake.Ports(port))
	p := r.run(config.RoleIntake)
	// A source that a reload brought, without its topics, keeps nobody from the others.
	r.text = strings.Replace(r.text, "      orders:", "      fresh: {preset: github, secrets: [x]}\n      orders:", 1)
	r.reload(p, config.RoleIntake)
	p.ready()

	r.cluster.Close()
	p.unready("connection refused")
	var err error
	if r.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cluster.Close)
	p.unready("forebay topics apply") // brokers without our topics
	r.createTopics()
	p.ready()
	p.clean()
}

// TestReadyzNamesTopics: one topic that is deleted, or that was unfit from the start, keeps nobody from the others, and is named.
func TestReadyzNamesTopics(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "cleanup.policy", Value: new("compact")}}, "quarantine.acme.github"); err != nil {
		t.Fatal(err)
	}
	p := r.run(config.RoleIntake)
	note := func() string {
		status, body := p.readyz()
		var said api.Readiness
		if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, body, err)
		}
		return said.Checks[slices.IndexFunc(said.Checks, func(c api.Check) bool { return c.Name == "topics" })].Note
	}
	if got := note(); !strings.Contains(got, "quarantine.acme.github: ") || strings.Contains(got, "events.") {
		t.Errorf("of an unfit topic: %q", got)
	}
	if _, err := adm.DeleteTopics(t.Context(), "events.acme.github"); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return strings.Contains(note(), "events.acme.github is missing") }) {
		t.Errorf("of a deleted topic: %q", note())
	}
	p.accepted("orders", "orders-secret", order("x", 1))
	p.clean()
}

// TestReadyzWithoutALeader: a partition, a topic, a quarantine topic that is away takes no intake out of service: all
// others would go with it, and nobody would take what the other partitions and topics do. The log says it once.
func TestReadyzWithoutALeader(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	var log lockedBuffer
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	p := r.run(config.RoleIntake)
	told := func(want string) { // and ready all the while
		t.Helper()
		if !rig.Until(time.Minute, func() bool {
			if status, body := p.readyz(); status != http.StatusOK {
				t.Fatalf("readyz is %d: %s", status, body)
			}
			return strings.Contains(log.String(), want)
		}) {
			t.Fatalf("no %q in the lines\n%s", want, log.String())
		}
	}
	away := func(topic string, partitions ...int32) *kfake.FaultHandle {
		return r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Partitions: partitions, Err: kerr.LeaderNotAvailable, Count: -1})
	}
	one := away("events.acme.orders", 1)
	told("1 of 3 partitions of events.acme.orders have no leader")
	aside := away("quarantine.acme.orders")
	told("quarantine.acme.orders: LEADER_NOT_AVAILABLE")
	github := away("events.acme.github")
	told("events.acme.github: LEADER_NOT_AVAILABLE")
	orders := away("events.acme.orders", 0, 2)
	p.unready("no source has a topic that can be written")
	for _, fault := range []*kfake.FaultHandle{one, aside, github, orders} {
		fault.Remove()
	}
	p.ready()
	told("all topics can be written again")
	p.clean()
	if got := strings.Count(log.String(), "topics cannot be written"); got != 4 {
		t.Errorf("told %d times of 4 changes\n%s", got, log.String())
	}
}

// TestReadyzSaysThatATopicWasChanged: a topic that is compacted from one day on loses what it has, and a process that runs says so and acknowledges
// nothing into it; it goes on, since no team's topic holds up the others.
func TestReadyzSaysThatATopicWasChanged(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)
	p.ready()
	says := func(want string) {
		t.Helper()
		var status int
		var body string
		if !rig.Until(time.Minute, func() bool {
			status, body = p.readyz()
			return status == http.StatusOK && strings.Contains(body, "cleanup.policy") == (want != "") && strings.Contains(body, want)
		}) {
			t.Errorf("readyz is %d, not 200 with %q: %s", status, want, body)
		}
	}
	client, err := kgo.NewClient(KafkaOptions(r.load(config.RoleTopics), config.RoleStream)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	compact := "compact"
	if _, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "cleanup.policy", Value: &compact}}, "events.acme.orders"); err != nil {
		t.Fatal(err)
	}
	says("events.acme.orders: cleanup.policy")
	if got := p.send("orders", "orders-secret", order("x", 1)); got != http.StatusServiceUnavailable {
		t.Errorf("a delivery into it was answered %d", got)
	}
	r.createTopics() // as topics apply does
	says("")
	p.accepted("orders", "orders-secret", order("x", 1))
	p.clean()
}

// unready waits until /readyz is 503 and says why.
func (p *process) unready(why string) {
	p.t.Helper()
	var status int
	var body string
	if !rig.Until(time.Minute, func() bool {
		status, body = p.readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(body, why)
	}) {
		p.t.Fatalf("readyz is %d, not 503 with %q: %s", status, why, body)
	}
}

func TestReachIsAskedOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var answer error
		r := newReach(func(context.Context) error {
			asked++
			time.Sleep(100 * time.Millisecond)
			return answer
		})
		var probes sync.WaitGroup
		for range 10 {
			probes.Go(func() {
				if err := r.check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		probes.Wait()
		if asked != 1 {
			t.Errorf("ten probes asked the brokers %d times", asked)
		}
		answer = schemas.Errorf(schemas.NotFound, "", "missing")
		time.Sleep(reachKept)
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond) // the prober hangs up; the answer is for the others, too
		defer cancel()
		if err := r.check(gone); !errors.Is(err, answer) || asked != 2 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		if err := r.check(t.Context()); !errors.Is(err, answer) || asked != 2 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

// TestReachOneBrokerIsGoneWithoutAWord: the next try goes to another one.
func TestReachOneBrokerIsGoneWithoutAWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := 1
		r := newReach(func(ctx context.Context) error {
			if silent--; silent >= 0 {
				<-ctx.Done()
				return schemas.Errorf(schemas.Unavailable, "", "%w", ctx.Err())
			}
			return nil
		})
		if err := r.check(t.Context()); err != nil {
			t.Errorf("one of several is silent: %v", err)
		}
		silent = 2
		time.Sleep(reachKept)
		if err := r.check(t.Context()); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "do not answer within 1s") {
			t.Errorf("all are silent: %v", err)
		}
	})
}

// TestReachOfBrokersThatHang: a client that connects to a broker that hangs hears of no context, and the probe is answered all
// the same. Nobody else is asked meanwhile, and what comes back too late is no answer.
func TestReachOfBrokersThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		var asked atomic.Int32
		r := newReach(func(context.Context) error { asked.Add(1); return <-answer })
		for range 3 {
			began := time.Now()
			if err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), "do not answer within 1s") || time.Since(began) > 3*time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
			time.Sleep(reachKept)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d questions are out at once", n)
		}
		answer <- nil // by now it says nothing of now
		synctest.Wait()
		go func() { answer <- errors.New("refused") }()
		if err := r.check(t.Context()); err == nil || err.Error() != "refused" || asked.Load() != 2 {
			t.Errorf("asked %d times: %v", asked.Load(), err)
		}
	})
}

// TestReachCountsTopicsThatWereChecked: a topic that a reload brought may not be there yet, and takes no intake out of service;
// also where its source had another topic at the start, and was away in between.
func TestReachCountsTopicsThatWereChecked(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events.acme.orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	load := func(sources string) *config.Config {
		t.Helper()
		text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\nteams: {acme: {sources: {%s}}}\n", cluster.ListenAddrs()[0], sources)
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Roles: []config.Role{config.RoleIntake}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const orders = "orders: {preset: github, secrets: [s]}"
	a, err := New(Config{File: load(orders), Roles: []config.Role{config.RoleIntake}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.intake.log.Close(context.Background()) })
	for _, step := range []struct {
		name, sources string
		without       bool // the brokers have no leader for the topic of the start
		want          string
	}{
		{name: "as at the start", sources: orders},
		{name: "the topic of the start is away", sources: orders, without: true, want: "no source has a topic that can be written"},
		{name: "a source without its topic beside it", sources: orders + ", fresh: {preset: github, secrets: [s]}", without: true, want: "no source has a topic that can be written"},
		{name: "nothing but a source without its topic", sources: "fresh: {preset: github, secrets: [s]}"},
		{name: "the first source again, with a topic that is not there", sources: "orders: {preset: github, secrets: [s], topic: events.acme.orders.2}"},
	} {
		if err := a.Reload(load(step.sources)); err != nil {
			t.Fatal(err)
		}
		if step.without {
			fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "events.acme.orders", Err: kerr.LeaderNotAvailable, Count: -1})
			err = a.intake.checkReachable(t.Context())
			fault.Remove()
		} else {
			err = a.intake.checkReachable(t.Context())
		}
		if got := fmt.Sprint(err); (err == nil) != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: %v, want %q", step.name, err, step.want)
		}
	}
}
