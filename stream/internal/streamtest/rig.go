// Package streamtest is what the tests of stream and of the packages below share: brokers in this process, with a topic and events.
package streamtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	Topic    = "events.acme.orders"
	Group    = "acme.triage"
	Patience = time.Minute // how long a test waits for what must come
)

// Until calls is until it returns true, and reports whether it did within a test's patience. It is for what gives no signal.
func Until(is func() bool) bool {
	for deadline := time.Now().Add(Patience); !is(); <-time.After(4 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Rig is a broker in this process and what a test needs around it.
type Rig struct {
	T       *testing.T
	Cluster *kfake.Cluster
	Client  *kgo.Client // places records by hand
	Adm     *kadm.Client
	Parts   int32  // of Topic
	Group   string // whose positions Commit and Committed are about
}

// NewRig starts brokers with [Topic].
func NewRig(t *testing.T, partitions int32, opts ...kfake.Opt) *Rig {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.SeedTopics(partitions, Topic),
		kfake.GroupMinSessionTimeout(time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &Rig{T: t, Cluster: c, Parts: partitions, Group: Group}
	r.Client = r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.Adm = kadm.NewClient(r.Client)
	return r
}

// Seed returns the option that gives a client the brokers' addresses.
func (r *Rig) Seed() kgo.Opt { return kgo.SeedBrokers(r.Cluster.ListenAddrs()...) }

// NewClient returns a client of the brokers, which is closed when the test ends.
func (r *Rig) NewClient(opts ...kgo.Opt) *kgo.Client {
	r.T.Helper()
	cl, err := kgo.NewClient(append(opts, r.Seed())...)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(cl.Close)
	return cl
}

// Ctx returns a context that ends after a test's patience.
func (r *Rig) Ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	r.T.Cleanup(cancel)
	return ctx
}

// Event returns event i of one entity.
func Event(i int) *schemas.Event {
	body := []byte(fmt.Sprintf(`{"n":%d}`, i))
	now := time.Unix(1_700_000_000, 0).UTC()
	return &schemas.Event{
		ID: fmt.Sprintf("e%d", i), Source: "/acme/orders", Type: "com.example.order.changed", Entity: "order/1",
		Time: now, RecordedTime: now, DataContentType: "application/json", Version: schemas.Version{Kind: schemas.None},
		Payload: schemas.Snapshot, Hash: schemas.HashBody(body), Data: body,
	}
}

// Produce appends events to a partition, all of one entity that belongs in it.
func (r *Rig) Produce(partition int32, ids ...int) {
	r.T.Helper()
	for _, i := range ids {
		e := Event(i)
		e.Entity = EntityIn(partition, r.Parts)
		rec := record.Encode(Topic, e)
		rec.Partition = partition
		r.Send(rec)
	}
}

// EntityIn returns an entity whose events belong in a partition; [Event]'s own if there is only one.
func EntityIn(partition, parts int32) schemas.EntityKey {
	for n := 1; ; n++ {
		if e := fmt.Sprintf("order/%d", n); record.PartitionOf([]byte(e), parts) == partition {
			return schemas.EntityKey(e)
		}
	}
}

// Send appends records to the partitions that they name.
func (r *Rig) Send(recs ...*kgo.Record) {
	r.T.Helper()
	if err := r.Client.ProduceSync(r.Ctx(), recs...).FirstErr(); err != nil {
		r.T.Fatal(err)
	}
}

// Begin appends records in a transaction, which stays open until end is called.
func (r *Rig) Begin(recs ...*kgo.Record) (end func(kgo.TransactionEndTry)) {
	r.T.Helper()
	tx := r.NewClient(kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := tx.BeginTransaction(); err != nil {
		r.T.Fatal(err)
	}
	if err := tx.ProduceSync(r.Ctx(), recs...).FirstErr(); err != nil {
		r.T.Fatal(err)
	}
	return func(commit kgo.TransactionEndTry) {
		r.T.Helper()
		if err := tx.EndTransaction(r.Ctx(), commit); err != nil {
			r.T.Fatal(err)
		}
	}
}

// OnEnd sends a value for each question for the end of a partition that comes while a test wants them. One is kept until it is received.
func (r *Rig) OnEnd(wants func() bool) <-chan struct{} {
	asked := make(chan struct{}, 1)
	r.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == -1 && wants() {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return nil, nil, false
	})
	return asked
}

// TopicID returns the id of [Topic].
func (r *Rig) TopicID() ledger.TopicID { return r.Cluster.TopicInfo(Topic).TopicID }

// Commit sets the group's position as an operator's tool does, outside of any member, with the given metadata.
func (r *Rig) Commit(partition int32, at int64, metadata string) {
	r.T.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: Topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := r.Adm.CommitAllOffsets(r.Ctx(), r.Group, o); err != nil {
		r.T.Fatal(err)
	}
}

// Committed returns the group's position, if it has one.
func (r *Rig) Committed(partition int32) (kadm.OffsetResponse, bool) {
	r.T.Helper()
	all, err := r.Adm.FetchOffsets(r.Ctx(), r.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		r.T.Fatal(err)
	}
	at, ok := all.Lookup(Topic, partition)
	return at, ok && at.At >= 0
}

// Stamp produces event i with an append time of its own.
func (r *Rig) Stamp(i int) {
	rec := record.Encode(Topic, Event(i))
	rec.Timestamp = r.AppendTime(i)
	r.Send(rec)
}

// AppendTime returns the append time that [Rig.Stamp] gives event i.
func (r *Rig) AppendTime(i int) time.Time {
	return time.Now().Truncate(24 * time.Hour).Add(time.Duration(i) * time.Minute)
}

// OnMetadata sends to questions when a broker is asked for a topic's metadata, unless the channel is full.
func (r *Rig) OnMetadata(topic string, questions chan<- struct{}) {
	r.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		for _, t := range req.(*kmsg.MetadataRequest).Topics {
			if t.Topic != nil && *t.Topic == topic {
				select {
				case questions <- struct{}{}:
				default:
				}
			}
		}
		return nil, nil, false
	})
}

// Placed returns a record of event i for a partition. Its entity belongs in that partition of a topic with parts partitions, and in
// partition was of one with wasParts.
func Placed(i int, partition, parts, was, wasParts int32) *kgo.Record {
	for n := 1; ; n++ {
		key := fmt.Sprintf("order/%d", n)
		if record.PartitionOf([]byte(key), parts) == partition && record.PartitionOf([]byte(key), wasParts) == was {
			e := Event(i)
			e.Entity = schemas.EntityKey(key)
			rec := record.Encode(Topic, e)
			rec.Partition = partition
			return rec
		}
	}
}

// SetTopic sets a config of [Topic].
func (r *Rig) SetTopic(name, value string) {
	r.T.Helper()
	got, err := r.Adm.AlterTopicConfigs(r.Ctx(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, Topic)
	if err == nil {
		_, err = got.On(Topic, func(a *kadm.AlterConfigsResponse) error { return a.Err })
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

// RefuseDescribe has the brokers refuse to describe configs from now on, as for a client without the right to.
func (r *Rig) RefuseDescribe() {
	r.Cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, resource := range req.(*kmsg.DescribeConfigsRequest).Resources {
			one := kmsg.NewDescribeConfigsResponseResource()
			one.ResourceType, one.ResourceName, one.ErrorCode = resource.ResourceType, resource.ResourceName, kerr.TopicAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, one)
		}
		return resp, nil, true
	})
}

// Pointer returns a pointer to event i at an offset of partition 0.
func (r *Rig) Pointer(i int, offset int64) ledger.Pointer {
	e := Event(i)
	return ledger.Pointer{TopicID: r.TopicID(), Topic: Topic, Offset: offset, Key: e.Key(), Hash: e.Hash}
}

// IsLost fails the test unless err is of class payload_lost and contains text.
func IsLost(t *testing.T, err error, text string) {
	t.Helper()
	if sink.ClassOf(err) != sink.ClassPayload || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want payload_lost with %q", err, text)
	}
}

// Grow gives the topic more partitions, and the rig a new client, which knows of them.
func (r *Rig) Grow(to int32) {
	r.T.Helper()
	if _, err := r.Adm.UpdatePartitions(r.Ctx(), int(to), Topic); err != nil {
		r.T.Fatal(err)
	}
	r.Client = r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// Knowing returns the answer to req of a broker that knows of so many partitions of [Topic]; code is the topic's error code in it.
func (r *Rig) Knowing(req *kmsg.MetadataRequest, partitions int32, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	for i, addr := range r.Cluster.ListenAddrs() {
		host, port, err := net.SplitHostPort(addr)
		n, errPort := strconv.ParseInt(port, 10, 32)
		if err != nil || errPort != nil {
			r.T.Error(err, errPort)
		}
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(i), host, int32(n)
		resp.Brokers = append(resp.Brokers, broker)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID, topic.ErrorCode = new(Topic), [16]byte(r.TopicID()), code
	for n := range partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition = n
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}
