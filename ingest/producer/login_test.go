package producer

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
)

// TestLoginRefusedMeanwhile: while a password is set anew, the brokers refuse each new connection. The client fails all that waits; for its callers, a
// spool among them, that is the same as brokers that are away, whatever the client knew of them before.
func TestLoginRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(40, topic), kfake.EnableSASL(), kfake.Superuser("PLAIN", "taker", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	var refuses atomic.Bool
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, refuses.Load()
	})
	var mu sync.Mutex
	var conns []net.Conn
	p, err := New(Config{Brokers: cluster.ListenAddrs(), Options: []kgo.Opt{as("taker"), kgo.MetadataMinAge(10 * time.Millisecond), kgo.Dialer(func(ctx context.Context, network, to string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, to)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	if err := p.Append(t.Context(), time.Now().Add(time.Minute), topic, event("1")); err != nil { // so that it has a producer id
		t.Fatal(err)
	}
	refuses.Store(true)
	mu.Lock()
	for _, c := range conns {
		c.Close()
	}
	mu.Unlock()
	told := 0 // what has gone out once waits for the brokers; what waits behind it in other partitions is told why
	for id := 0; id < 60 && told < 2; id++ {
		err := p.Append(t.Context(), time.Now().Add(200*time.Millisecond), topic, event(strconv.Itoa(id)))
		if schemas.KindOf(err) != schemas.Unavailable {
			t.Errorf("a refused login: %q, %v", schemas.KindOf(err), err)
		}
		if errors.Is(err, kerr.SaslAuthenticationFailed) {
			told++
		}
	}
	if told == 0 {
		t.Error("no record has failed for the login")
	}
	refuses.Store(false)
	eventually(t, "the new password", func() error { return p.Append(t.Context(), time.Now().Add(time.Minute), topic, event("3")) })
}
