package simulation

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is the Kafka cluster, with what an operator does to it.
type broker struct {
	net   *network
	ports []int
	seeds []string
	dir   string // where the logs are between two lives of the cluster; empty: it has one life
	adm   *kadm.Client

	mu   sync.Mutex
	life *kfake.Cluster
}

func newBroker(t *testing.T, n *network, brokers int, dir string) *broker {
	t.Helper()
	b := &broker{net: n, dir: dir}
	for i := range brokers {
		b.ports = append(b.ports, brokerPort+i)
		b.seeds = append(b.seeds, fmt.Sprintf("127.0.0.1:%d", brokerPort+i))
	}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(b.options("operator")...)
	if err != nil {
		t.Fatal(err)
	}
	b.adm = kadm.NewClient(cl)
	return b
}

// start begins a life of the cluster, with what the one before has left in its directory.
func (b *broker) start() error {
	options := []kfake.Opt{kfake.NumBrokers(len(b.ports)), kfake.Ports(b.ports...), kfake.ListenFn(b.net.Listen),
		kfake.BrokerConfigs(map[string]string{"log.message.timestamp.type": "LogAppendTime"})}
	if b.dir != "" {
		options = append(options, kfake.DataDir(b.dir))
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life = c
	return nil
}

// cluster is the cluster as it lives now. While it is stopped it answers no question.
func (b *broker) cluster() *kfake.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.life
}

// options are what the Kafka clients of a process share, as the app has them.
func (b *broker) options(node string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(b.seeds...), kgo.ClientID("forebay"), kgo.RetryTimeout(retryTimeout), kgo.Dialer(b.net.dialer(node)),
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
	b.cluster().Close()
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
