package producer

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// TestTopicThatIsCreatedAgain: kgo keeps the id under which it first saw a topic, and would fail every record of one that was deleted and
// created again, until the process is started again.
func TestTopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	if err := p.Append(t.Context(), never, topic, event("before")); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := p.Append(ctx, time.Now().Add(2*time.Second), topic, event("after"))
		if err == nil {
			break
		}
		if schemas.KindOf(err) != schemas.Unavailable {
			t.Fatalf("%v: %v", schemas.KindOf(err), err)
		}
		if ctx.Err() != nil {
			t.Fatalf("still not written: %v", err)
		}
	}
	if err := p.Append(t.Context(), never, aside, event("beside")); err != nil {
		t.Errorf("another topic: %v", err)
	}
}
