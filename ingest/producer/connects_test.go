package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
)

// TestWhyNobodyAnswers: the client connects again and again, and keeps to itself why it cannot.
func TestWhyNobodyAnswers(t *testing.T) {
	t.Parallel()
	p, _ := setup(t, func(c *Config) {
		c.Options = append(c.Options, kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("its certificate has expired")
		}))
	})
	var err error
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; {
		err = p.Append(t.Context(), time.Now().Add(time.Second), topic, event("1"))
		if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "its certificate has expired") {
			return
		}
	}
	t.Error(err)
}

// TestCheckNewConnections: a leader that answers on older connections and takes no new one is told of, until it takes one again; a connection that hangs
// says nothing of it.
func TestCheckNewConnections(t *testing.T) {
	t.Parallel()
	var broken atomic.Pointer[error]
	var address atomic.Pointer[string] // of the broker that is
	p, cluster := setupOn(t, 2, func(c *Config) {
		c.Options = append(c.Options, kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(10*time.Millisecond), kgo.Dialer(func(ctx context.Context, network, to string) (net.Conn, error) {
			if why, at := broken.Load(), address.Load(); why != nil && (at == nil || *at == to) {
				return nil, *why
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		}))
	})
	for partition := range int32(3) { // two partitions with the first broker
		if err := cluster.MoveTopicPartition(topic, partition, partition%2); err != nil {
			t.Fatal(err)
		}
	}
	check := func() Trouble {
		t.Helper()
		wrong, err := p.Check(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		return wrong[topic]
	}
	for id := range 2 { // the older connections
		if _, err := p.client.Load().Broker(id).Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
			t.Fatal(err)
		}
	}
	if wrong := check(); wrong.Err != nil {
		t.Fatal(wrong)
	}
	fail := func(why error, refused int) {
		t.Helper()
		broken.Store(&why)
		for begin := time.Now(); time.Since(begin) < 2*time.Minute; {
			for id := range 8 { // of all partitions
				if err := p.Append(t.Context(), time.Now().Add(5*time.Millisecond), topic, event(strconv.Itoa(id))); err == nil {
					t.Fatalf("%d: it is written", id)
				}
			}
			known := 0
			for id := range int32(2) {
				if _, is := p.connects.refused.Load(id); is {
					known++
				}
			}
			if known == refused {
				return
			}
		}
		t.Fatalf("no %d brokers are known to fail as %v", refused, why)
	}
	expired, first := errors.New("its certificate has expired"), cluster.ListenAddrs()[0]
	fail(expired, 2)
	fail(fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), 0)
	if wrong := check(); wrong.Err != nil {
		t.Errorf("connections hang: %v", wrong)
	}
	fail(expired, 2)
	if wrong := check(); wrong.Part || !errors.Is(wrong.Err, expired) || schemas.KindOf(wrong.Err) != schemas.Unavailable || !strings.Contains(wrong.Err.Error(), "3 of 3 partitions") {
		t.Errorf("both brokers refuse: %v", wrong)
	}
	address.Store(&first)
	if wrong := check(); !wrong.Part || !errors.Is(wrong.Err, expired) {
		t.Errorf("one broker refuses: %v", wrong)
	}
	broken.Store(nil)
	if wrong := check(); wrong.Err != nil {
		t.Errorf("none refuses any more: %v", wrong)
	}
}
