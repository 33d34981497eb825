package simulation

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is the cluster, and an operator's hands on it.
type broker struct {
	*kfake.Cluster
	net   *network
	ports []int
	adm   *kadm.Client
}

func newBroker(t *testing.T, n *network, brokers int) *broker {
	t.Helper()
	b := &broker{net: n}
	for i := range brokers {
		b.ports = append(b.ports, brokerPort+i)
	}
	var err error
	b.Cluster, err = kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(b.ports...), kfake.ListenFn(n.Listen),
		kfake.BrokerConfigs(map[string]string{"log.message.timestamp.type": "LogAppendTime"}))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(b.options("operator")...)
	if err != nil {
		t.Fatal(err)
	}
	b.adm = kadm.NewClient(cl)
	return b
}

// options are what the Kafka clients of a process share, as the app has them.
func (b *broker) options(node string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(b.ListenAddrs()...), kgo.ClientID("forebay"), kgo.RetryTimeout(retryTimeout), kgo.Dialer(b.net.dialer(node)),
	}
}

func (b *broker) create(t *testing.T, partitions int32, configs map[string]*string, topics ...string) {
	t.Helper()
	if _, err := b.adm.CreateTopics(t.Context(), partitions, 1, configs, topics...); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) close() {
	b.adm.Close()
	b.Cluster.Close()
}

// seek sets the group's offsets, as any Kafka tool does; where says where to, of those that the group has.
func (b *broker) seek(ctx context.Context, where func(start, committed int64) int64) error {
	at, err := b.adm.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	var to kadm.Offsets
	at.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			to.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: where(0, o.At), LeaderEpoch: -1})
		}
	})
	if len(to) == 0 {
		return nil
	}
	return b.adm.CommitAllOffsets(ctx, group, to)
}
