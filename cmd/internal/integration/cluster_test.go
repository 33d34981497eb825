package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestOneOfThreeBrokers runs the load on three brokers, replication 3 and min.insync.replicas 2, with one of them
// killed in the middle; with two of them gone the intake accepts nothing, and goes on as soon as one is back. Before that, all three are
// restarted one after the other under load, as for an upgrade; and first, while all of them stand, zones and quotas are tried.
func TestOneOfThreeBrokers(t *testing.T) {
	t.Parallel()
	k := rig.Kafka(t, 3)
	zonesAndQuotas(t, k)
	t.Run("rolling restart", func(t *testing.T) { rollingRestart(t, k) })
	r := deployOnThree(t, k)
	p := r.serve("intake,stream")
	underLoad(t, r, func() []fault {
		at := time.Now()
		k.KillBroker(1)
		return []fault{r.faultSince(p, at)}
	})

	r.doctorFinds("copies", "events."+r.team+".github", "warning", "have replicas that are not in sync", "start the brokers that are down")
	r.doctorFinds("brokers", "", "ok", "2 of 2 answer: Kafka v", "")

	k.KillBroker(2)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	probes := slices.Concat(lines(12, 1, func(e, n int) delivery { return issue(9, e, n) })...)
	for _, d := range probes[:2] {
		if status := r.sender.post(ctx, d); status/100 == 2 {
			t.Errorf("with one of three brokers left delivery %s was answered %d", d.id, status)
		}
	}
	k.RestartBroker(2)
	r.deliver(probes...)
	r.agent.waitActed(t, faultEntities*faultEvents+len(probes), time.Minute)
	judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
}

// deployOnThree deploys, and waits until each of the brokers knows of the topics.
func deployOnThree(t *testing.T, k *rig.KafkaCluster) *deployment {
	t.Helper()
	r := deploy(t, k, options{latency: 2 * time.Millisecond, replication: 3})
	for broker := range strings.SplitSeq(k.Bootstrap(), ",") {
		until(t, broker+" knows of the topics", func() bool {
			cl, err := kgo.NewClient(kgo.SeedBrokers(broker)) // a new one asks this broker first
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			known, err := kadm.NewClient(cl).ListTopics(t.Context())
			return err == nil && known.Has("events."+r.team+".github") && known.Has("events."+r.team+".orders") &&
				known.Has("quarantine."+r.team+".github") && known.Has("quarantine."+r.team+".orders")
		})
	}
	return r
}

// rollingRestart stops and starts each broker in turn, the next once the one before has all copies again, while providers deliver and two
// static members run what comes. Every delivery that was answered with 2xx runs, in order, and is called once: the members' session is longer
// than it takes for the group to have another coordinator, so that no partition changes hands with a call under way.
func rollingRestart(t *testing.T, k *rig.KafkaCluster) {
	r := deployOnThree(t, k)
	r.edit("session_timeout: 6s", "session_timeout: 40s")
	r.serve("intake")
	a, b := r.serveAs("stream-a"), r.serveAs("stream-b")
	r.waitOwned(a, 3)
	r.waitOwned(b, 3)
	over := make(chan struct{}) // closed when the last broker is back
	var loading sync.WaitGroup
	const entities = 12
	for e := range entities {
		loading.Go(func() {
			for n := 1; ; n++ {
				if err := r.sender.deliver(t.Context(), issue(7, e+1, n)); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	// The first record of a producer needs the controller, for its id: one that begins while brokers restart may wait for all three of them.
	until(t, "every provider has delivered", func() bool { return len(r.sender.acceptedByID()) >= entities })
	taken := 0
	for n := 1; n <= 3; n++ {
		before := len(r.sender.acceptedByID())
		k.RestartBroker(n)
		waitCopies(t, k, "events."+r.team+".github")
		r.waitOwned(a, 3)
		r.waitOwned(b, 3)
		meanwhile := len(r.sender.acceptedByID()) - before
		t.Logf("while broker %d was restarted, %d deliveries were taken", n, meanwhile)
		taken += meanwhile
	}
	if taken < 3*entities { // of all restarts: on a busy machine one can be as short as a produce that waits for the new leader
		t.Errorf("while brokers were restarted, %d deliveries were taken", taken)
	}
	close(over)
	loading.Wait()
	accepted := r.sender.acceptedByID()
	r.agent.waitActed(t, len(accepted), time.Minute)
	v := judge(accepted, r.agent.snapshot())
	t.Logf("%d events, %d calls repeated under their keys, %d deliveries retried", len(accepted), len(v.repeated), r.sender.retries.Load())
	v.require(t)
	v.requireNoRepeats(t)
	a.stop()
	b.stop()
}

// waitCopies waits until each partition of a topic and of the groups' offsets has all its copies in sync.
func waitCopies(t *testing.T, k *rig.KafkaCluster, topic string) {
	t.Helper()
	adm := admin(t, k)
	if !rig.Until(time.Minute, func() bool {
		details, err := adm.ListTopics(kadm.WithAuthorizedOps(t.Context()), topic, "__consumer_offsets")
		if err != nil || details.Error() != nil {
			return false
		}
		for _, d := range details {
			for _, p := range d.Partitions {
				if len(p.ISR) < len(p.Replicas) {
					return false
				}
			}
		}
		return true
	}) {
		t.Fatal("a broker that was restarted does not get all copies again")
	}
}
