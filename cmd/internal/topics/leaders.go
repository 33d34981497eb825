package topics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// leadersWithin bounds the wait for a created topic to be known to the brokers.
const leadersWithin = 30 * time.Second

// waitForLeaders waits until the brokers tell of every created topic with a leader for each of its partitions: a creation is
// acknowledged before its metadata has reached them, and the command that runs next would find the topic missing.
func waitForLeaders(ctx context.Context, adm *kadm.Client, changes []Change) error {
	var created []string
	for _, c := range changes {
		if c.Action == Create {
			created = append(created, c.Topic)
		}
	}
	if len(created) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leadersWithin, errors.New("the brokers do not tell of it yet"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := leaderless(ctx, adm, created)
		if err == nil && missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return unavailable("wait for topic "+missing, errors.Join(err, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

// leaderless names the first topic that is not there whole.
func leaderless(ctx context.Context, adm *kadm.Client, names []string) (string, error) {
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...) // the way past the client's cache, which is 5 s old
	if err != nil {
		return names[0], err
	}
	for _, name := range names {
		d := details[name] // the zero value has no partitions
		if len(d.Partitions) == 0 {
			return name, nil
		}
		for _, p := range d.Partitions {
			if p.Leader < 0 { // told with an error, which the next question may not have
				return fmt.Sprintf("%s partition %d", name, p.Partition), nil
			}
		}
	}
	return "", nil
}
