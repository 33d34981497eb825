package topics

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// settingsTimeout is the longest wait until brokers answer with the settings that a topic was given.
const settingsTimeout = 10 * time.Second

// waitForSettings waits until the brokers answer with these settings of a topic, ten seconds at most. A change is acknowledged by the
// controller before the brokers know of it: without the wait, the next command would find the old ones. After the wait the change holds all the
// same, so that it is no error: a broker may also answer with another text for the same value.
func waitForSettings(ctx context.Context, adm *kadm.Client, topic string, want map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		have, err := describe(ctx, adm, []string{topic})
		if err == nil && hasAll(have[topic], want) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func hasAll(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}
