package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/cmd/internal/rights"
)

// passwordOf is the password of a user of tests.
func passwordOf(user string) string {
	if user == rig.Root {
		return rig.RootPassword
	}
	return user + "-secret"
}

// loggedIn is a client of a user. It is not idempotent: that would need a right to write somewhere before it is asked for one here.
func loggedIn(t *testing.T, bootstrap, user string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap), kgo.DisableIdempotentWrite(),
		kgo.SASL(scram.Auth{User: user, Pass: passwordOf(user)}.AsSha512Mechanism()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// grant gives rights, and waits until the broker goes by them.
func grant(t *testing.T, root *kgo.Client, list []rights.Right) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range list {
		operation, err := kmsg.ParseACLOperation(r.Operation)
		if err != nil {
			t.Fatal(err)
		}
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, r.Name, kmsg.ACLResourcePatternTypeLiteral
		if r.Kind == rights.Group {
			c.ResourceType = kmsg.ACLResourceTypeGroup
		}
		if r.Prefixed {
			c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
		}
		c.Principal, c.Host, c.Operation, c.PermissionType = r.Principal, "*", operation, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, c)
	}
	resp, err := req.RequestWith(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range resp.Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			t.Fatalf("%+v: %v", list[i], err)
		}
	}
	until(t, "the broker goes by the rights that were given", func() bool { return granted(t, root, list) })
}

// granted tells whether the broker knows all rights of a list.
func granted(t *testing.T, root *kgo.Client, list []rights.Right) bool {
	t.Helper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(list, func(want rights.Right) bool {
		operation, _ := kmsg.ParseACLOperation(want.Operation) // it was parsed to be given
		return !slices.ContainsFunc(resp.Resources, func(r kmsg.DescribeACLsResponseResource) bool {
			return r.ResourceName == want.Name && slices.ContainsFunc(r.ACLs, func(a kmsg.DescribeACLsResponseResourceACL) bool {
				return a.Principal == want.Principal && a.Operation == operation
			})
		})
	})
}

// usersOf names everybody who has a right.
func usersOf(list []rights.Right) (users []string) {
	for _, r := range list {
		if user := strings.TrimPrefix(r.Principal, "User:"); !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	return users
}

// matrix asks, as every user, for every operation on topics and groups of each of two teams and of nobody. What a right allows must not be
// denied, and everything else must be. The users are there and have their rights.
func matrix(t *testing.T, bootstrap string, list []rights.Right, teams []string) {
	t.Helper()
	topics, groups := []string{"strange.matrix", "events.matrix"}, []string{"strange.matrix"}
	for _, team := range teams {
		topics = append(topics, "events."+team+".matrix", "quarantine."+team+".matrix", "dead."+team+".matrix", team+".matrix", team+".enriched")
		groups = append(groups, team+".triage", team+".own")
	}
	ids := createTopics(t, loggedIn(t, bootstrap, rig.Root), topics)
	asked, allowed := 0, 0
	check := func(user string, kind rights.Kind, name, operation string, err error) {
		denied := errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
		want := allows(list, "User:"+user, kind, name, operation)
		if denied == want {
			t.Errorf("%s, %s on %s %s: allowed %t, by the table %t (%v)", user, operation, kind, name, !denied, want, err)
		}
		asked++
		if !denied {
			allowed++
		}
	}
	for _, user := range usersOf(list) {
		a := asker{loggedIn(t, bootstrap, user), ids}
		for _, topic := range topics {
			for operation, ask := range a.ofTopics() {
				check(user, rights.Topic, topic, operation, within(t, ask, topic))
			}
		}
		for _, group := range groups {
			for operation, ask := range a.ofGroups() {
				check(user, rights.Group, group, operation, within(t, ask, group))
			}
		}
	}
	t.Logf("%d questions, %d allowed", asked, allowed)
	if allowed == 0 || allowed > asked/3 {
		t.Errorf("%d of %d were allowed: this is no matrix of least rights", allowed, asked)
	}
}

// implied are the operations that allow others, as Kafka has it.
var implied = map[string][]string{"Describe": {"Read", "Write", "Delete", "Alter"}, "DescribeConfigs": {"AlterConfigs"}}

// allows reports whether one of the rights is enough for an operation.
func allows(list []rights.Right, principal string, kind rights.Kind, name, operation string) bool {
	return slices.ContainsFunc(list, func(r rights.Right) bool {
		return r.Principal == principal && r.Kind == kind && (r.Name == name || r.Prefixed && strings.HasPrefix(name, r.Name)) &&
			(r.Operation == operation || slices.Contains(implied[operation], r.Operation))
	})
}

func createTopics(t *testing.T, root *kgo.Client, topics []string) map[string]kadm.TopicID {
	t.Helper()
	adm := kadm.NewClient(root)
	if _, err := adm.CreateTopics(t.Context(), 1, 1, nil, topics...); err != nil {
		t.Fatal(err)
	}
	ids := map[string]kadm.TopicID{}
	if !rig.Until(time.Minute, func() bool {
		details, err := adm.ListTopics(kadm.WithAuthorizedOps(t.Context()), topics...)
		if err != nil || details.Error() != nil {
			return false
		}
		for _, d := range details {
			ids[d.Topic] = d.ID
		}
		return len(ids) == len(topics)
	}) {
		t.Fatalf("%d of %d topics are there", len(ids), len(topics))
	}
	return ids
}

// within asks one question, which no broker may leave open.
func within(t *testing.T, ask func(context.Context, string) error, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := ask(ctx, name)
	if ctx.Err() != nil {
		t.Fatalf("no answer about %s: %v", name, err)
	}
	return err
}

// asker asks a broker for one operation at a time, by requests that change nothing. What it returns is what the broker says.
type asker struct {
	cl  *kgo.Client
	ids map[string]kadm.TopicID
}

func (a asker) ofTopics() map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{
		"Describe": a.describe, "Read": a.read, "Write": a.write, "Create": a.create, "Delete": a.remove, "Alter": a.alter,
		"DescribeConfigs": a.describeConfigs, "AlterConfigs": a.alterConfigs,
	}
}

func (a asker) ofGroups() map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{"Describe": a.describeGroup, "Read": a.join, "Delete": a.removeGroup}
}

func (a asker) describe(ctx context.Context, topic string) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

func (a asker) read(ctx context.Context, topic string) error {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MaxBytes = -1, -1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, a.ids[topic]
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("the broker did not answer for %s", topic)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// write sends a batch that is none: brokers look at rights first, and at the batch only then.
func (a asker) write(ctx context.Context, topic string) error {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, a.ids[topic]
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = make([]byte, 61)
	p.Records[11], p.Records[16] = 49, 2 // length and magic of a batch without records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (a asker) create(ctx context.Context, topic string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.TimeoutMillis = true, 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic+".new", 1, 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// remove deletes the records before the first one, which are none: that asks for the same right as deleting the topic.
func (a asker) remove(ctx context.Context, topic string) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (a asker) alter(ctx context.Context, topic string) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.ValidateOnly, req.TimeoutMillis = true, 5000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, 2
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

func (a asker) describeConfigs(ctx context.Context, topic string) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

func (a asker) alterConfigs(ctx context.Context, topic string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = true
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	value := "3600000"
	c.Name, c.Value = "retention.ms", &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

func (a asker) describeGroup(ctx context.Context, group string) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Groups[0].ErrorCode)
}

// join asks to join, which is first answered with a member id only.
func (a asker) join(ctx context.Context, group string) error {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 10_000, 10_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (a asker) removeGroup(ctx context.Context, group string) error {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Groups[0].ErrorCode)
}
