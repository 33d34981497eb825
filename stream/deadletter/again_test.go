package deadletter

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/ledger"
)

// unread is a ledger whose copies cannot be read: their records have headers alone.
type unread struct{ graves }

func (*unread) DeadPayload(context.Context, ledger.DeadLetter) ([]byte, ledger.Pointer, error) {
	return []byte("x"), ledger.Pointer{}, nil
}

// A topic of dead letters that was deleted and created again is written to again, which a client that knew it before never does.
func TestTopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	d := &ledger.DeadLetter{}
	d.Team, d.Subscription = "acme", "triage"
	topic := Topic("acme.triage")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	seed := kgo.SeedBrokers(cluster.ListenAddrs()...)
	x := New(Config{Ledger: &unread{}, Client: []kgo.Opt{seed}, MaxRecordBytes: 1 << 20})
	t.Cleanup(func() { x.client.Close() })
	if err := x.produce(t.Context(), d)(); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(seed)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if err = x.produce(t.Context(), d)(); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not written: %v", err)
		}
	}
}
