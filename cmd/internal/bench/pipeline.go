package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// pipeline is a way from a signed delivery to the agent.
type pipeline struct {
	name      string
	senders   *senders
	agent     agentProcess
	processes map[string]int // pids by what they are: intake, stream, agent, broker
	// waitDrained waits until n deliveries have reached the agent and nothing is left to be done for them.
	waitDrained func(ctx context.Context, n int64) error
}

// watch keeps came at the number of deliveries that have reached the agent, until ctx ends.
func (p *pipeline) watch(ctx context.Context, came *atomic.Int64) error {
	for {
		n, err := p.agent.came(ctx)
		if err != nil {
			return err
		}
		came.Store(n)
		if err := waitUntil(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
			return err
		}
	}
}

// check waits until everything sent is done and holds it to the promises: nothing lost, nothing twice and, where it is promised, in
// order. read, where given, gets what was accepted and what came since the last check.
func (p *pipeline) check(ctx context.Context, order bool, read func(accepted, came []receipt)) error {
	if err := p.waitDrained(ctx, p.senders.sent.Load()); err != nil {
		return err
	}
	fate, came, err := p.agent.take(ctx)
	if err != nil {
		return err
	}
	accepted := p.senders.takeAccepted()
	_, lost := transitTimes(accepted, came)
	if lost > 0 || fate.Twice > 0 || order && fate.Unordered > 0 || len(came) != len(accepted) {
		return fmt.Errorf("of %d accepted deliveries %d came: %d lost, %d twice, %d out of order", len(accepted), len(came), lost, fate.Twice, fate.Unordered)
	}
	if read != nil {
		read(accepted, came)
	}
	return nil
}
