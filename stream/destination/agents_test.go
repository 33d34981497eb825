package destination

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/forebay-io/forebay/stream/ledger"
)

// silent is a store that answers as often as it has answers.
type silent struct {
	Store
	answers chan map[string]ledger.DestinationState
}

func (s silent) Destinations(ctx context.Context) (map[string]ledger.DestinationState, error) {
	select {
	case a := <-s.answers:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestAgentPausesWaitForNobody: whoever asks which agents are paused gets what was read last, while the store does not answer.
func TestAgentPausesWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent{answers: make(chan map[string]ledger.DestinationState, 1)}
		k := &Keeper{Store: s, Destinations: map[string]*Destination{}}
		key := ledger.AgentDestinations("coder")
		s.answers <- map[string]ledger.DestinationState{key: {Paused: &ledger.Pause{By: "ann"}}, "acme/agent": {Paused: &ledger.Pause{}}}
		if err := k.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { _ = k.Sync(t.Context()) }()
		synctest.Wait()
		asked := make(chan map[string]ledger.Pause, 1)
		go func() { asked <- k.AgentPauses() }()
		synctest.Wait()
		select {
		case got := <-asked:
			if len(got) != 1 || got[key].By != "ann" {
				t.Errorf("paused: %v", got)
			}
		default:
			t.Error("it waits for the store")
		}
		synctest.Wait()
	})
}

// TestAgentByReload: who gets an agent that is paused is paused, and who leaves it goes on, though nothing has changed in the store.
func TestAgentByReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kept{states: map[string]ledger.DestinationState{ledger.AgentDestinations("coder"): {Paused: &ledger.Pause{By: "ann"}}}}
		d := setup(t, Policy{Agent: "agent"})
		keeper := &Keeper{Store: k, Destinations: map[string]*Destination{d.Name(): d}, Logger: slog.New(slog.DiscardHandler),
			Watch: func(func()) (stop func()) { return func() {} }}
		ctx, cancel := context.WithCancel(t.Context())
		go keeper.Run(ctx)
		defer func() { cancel(); synctest.Wait() }()
		for _, step := range []struct {
			agent string
			want  State
		}{{"agent", StateRunning}, {"coder", StatePaused}, {"agent", StateRunning}} {
			if err := d.SetPolicy(Policy{Agent: step.agent}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := d.Status().State; got != step.want {
				t.Errorf("with agent %s it is %s", step.agent, got)
			}
		}
	})
}
