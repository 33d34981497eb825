package topics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// topicChangeTimeout is the longest wait until the brokers list a created topic, or no longer list a deleted one.
const topicChangeTimeout = 30 * time.Second

// waitForLeaders waits until the brokers list every created topic with a leader for each of its partitions. A creation is
// acknowledged before all brokers know the topic: without the wait, the next command would find it missing.
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
	ctx, cancel := context.WithTimeoutCause(ctx, topicChangeTimeout, errors.New("the brokers do not list it yet"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := firstNotReady(ctx, adm, created)
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

// firstNotReady returns the name of the first topic that the brokers do not know, or "<topic> partition <n>" for the first partition
// without a leader. It returns "" if all are ready, and the first name with an error.
func firstNotReady(ctx context.Context, adm *kadm.Client, names []string) (string, error) {
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...) // this option bypasses the client's cache, which may be 5 s old
	if err != nil {
		return names[0], err
	}
	for _, name := range names {
		d := details[name] // the zero value has no partitions
		if len(d.Partitions) == 0 {
			return name, nil
		}
		for _, p := range d.Partitions {
			if p.Leader < 0 { // the error beside it is not returned: the next request may find a leader
				return fmt.Sprintf("%s partition %d", name, p.Partition), nil
			}
		}
	}
	return "", nil
}
