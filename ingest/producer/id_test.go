package producer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/forebay-io/forebay/schemas"
)

// TestRightThatComesLate: a user who may write to no topic gets no producer id, and the client would keep that answer for good. Records and
// checks say which right is missing, ask a few times a second at most, and do well once it is there.
func TestRightThatComesLate(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"a record", "a check"} {
		see := kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "events.acme.", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationDescribe, Allow: true}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic), kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser("PLAIN", "root", "secret"), kfake.User("PLAIN", "taker", "secret", see))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		asked := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1})
		p, err := New(Config{Brokers: cluster.ListenAddrs(), Options: []kgo.Opt{as("taker")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close(context.Background()) })
		try := map[string]func() error{
			"a record": func() error { return appendRefused(t, p, event(first)) },
			"a check":  func() error { _, err := p.Check(t.Context(), topic); return err },
		}
		begin, order := time.Now(), []string{first, "a record", "a check", "a record", "a check"}
		for _, what := range order {
			err := try[what]()
			if schemas.KindOf(err) != schemas.Unavailable || !errors.Is(err, kerr.ClusterAuthorizationFailed) || !strings.Contains(err.Error(), "Write on topics events.TEAM.*") {
				t.Errorf("%s without the right, after %s: %v", what, first, err)
			}
		}
		if n, most := asked.Hits(), 2+int(time.Since(begin)/replaceAfter); n > most {
			t.Errorf("after %s the brokers were asked %d times, want %d at most", first, n, most)
		}
		grantWrite(t, cluster)
		eventually(t, first, try["a record"])
		if err := try["a check"](); err != nil {
			t.Error(err)
		}
	}
}

// appendRefused appends an event, as often as it gets no answer in time. kgo 1.22.2 and .3 partition the first record of a topic before they show the
// partitions to who fails all records for a refused producer id. Where that is faster, the record waits for the next one, or for metadata
// after half a minute, and its caller is told that there was no answer in time.
func appendRefused(t *testing.T, p *Producer, e *schemas.Event) error {
	for {
		err := p.Append(t.Context(), time.Now().Add(2*time.Second), topic, e)
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func as(user string) kgo.Opt { return kgo.SASL(plain.Auth{User: user, Pass: "secret"}.AsMechanism()) }

// grantWrite lets the user taker write to the team's topics.
func grantWrite(t *testing.T, cluster *kfake.Cluster) {
	t.Helper()
	root, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), as("root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	req, write := kmsg.NewPtrCreateACLsRequest(), kmsg.NewCreateACLsRequestCreation()
	write.ResourceType, write.ResourceName, write.ResourcePatternType = kmsg.ACLResourceTypeTopic, "events.acme.", kmsg.ACLResourcePatternTypePrefixed
	write.Principal, write.Host, write.Operation, write.PermissionType = "User:taker", "*", kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, write)
	resp, err := req.RequestWith(t.Context(), root)
	if err == nil {
		err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eventually fails unless try does well within a minute.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-late:
			t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestRefusedOnce: one answer for which a retry makes no sense, as callers come at once, costs records that wait for it and no others. Each
// caller gets an answer, and what was acknowledged is there.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	for _, refusal := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.UnknownServerError} {
		p, cluster := setup(t, nil)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: refusal, TopLevel: true})
		var acked atomic.Int64
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for range 5 {
					switch err := p.Append(t.Context(), never, topic, event("1")); {
					case err == nil:
						acked.Add(1)
					case schemas.KindOf(err) != schemas.Unavailable:
						t.Errorf("%s: %v", schemas.KindOf(err), err)
					}
				}
			})
		}
		callers.Wait()
		if err := p.Append(t.Context(), never, topic, event("2")); err != nil {
			t.Errorf("after %s: %v", refusal.Message, err)
		}
		if taken := p.room.taken.Load(); taken != 0 {
			t.Errorf("%d bytes are taken with nothing waiting", taken)
		}
		read(t, cluster, topic, int(acked.Load())+1)
	}
}

// TestCloseEndsReplacing: a record that fails as the producer is closed makes no client that nobody closes; goleak tells.
func TestCloseEndsReplacing(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.UnknownServerError, TopLevel: true, Count: -1})
	client := p.client.Load()
	if _, _, err := client.ProducerID(t.Context()); err == nil {
		t.Fatal("the brokers gave an id")
	}
	_ = p.Close(t.Context())
	if err := p.checkID(t.Context(), client); err == nil || p.client.Load() != client {
		t.Errorf("%v, and another client: %v", err, p.client.Load() != client)
	}
}
