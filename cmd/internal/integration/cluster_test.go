package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestOneOfThreeBrokers runs the load on three brokers, replication 3 and min.insync.replicas 2, with one of them
// killed in the middle; with two of them gone the intake accepts nothing, and goes on as soon as one is back.
func TestOneOfThreeBrokers(t *testing.T) {
	k := rig.Kafka(t, 3)
	r := deploy(t, k, options{latency: 2 * time.Millisecond, replication: 3})
	p := r.serve("intake,stream")
	underLoad(t, r, func() []fault {
		at := time.Now()
		k.KillBroker(1)
		return []fault{r.faultSince(p, at)}
	})

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
	for _, d := range probes {
		if err := r.sender.deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	r.agent.waitActed(t, faultEntities*faultEvents+len(probes), time.Minute)
	judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
}
