package destination

import (
	"context"
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
