package app

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// tunnelled is a cluster behind a tunnel: it is reached at 127.0.0.1, and names another address as its own. It keeps what is sent there.
type tunnelled struct {
	at    string // 127.0.0.1:PORT
	mu    sync.Mutex
	asked int
	sent  bytes.Buffer
}

const faraway = "kafka-1.example.com"

// farListener is a listener that says it is far away.
type farListener struct{ net.Listener }

func (l farListener) Addr() net.Addr {
	_, port, _ := net.SplitHostPort(l.Listener.Addr().String())
	return farAddr(net.JoinHostPort(faraway, port))
}

type farAddr string

func (farAddr) Network() string  { return "tcp" }
func (a farAddr) String() string { return string(a) }

// tapped is a connection to the address that the cluster names.
type tapped struct {
	net.Conn
	t *tunnelled
}

func (c tapped) Write(p []byte) (int, error) {
	c.t.mu.Lock()
	c.t.sent.Write(p)
	c.t.mu.Unlock()
	return c.Conn.Write(p)
}

func (u *tunnelled) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, u.at)
	if err != nil || !strings.HasPrefix(address, faraway) {
		return conn, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	return tapped{conn, u}, nil
}

// TestNoPasswordInTheClear: the addresses of the file are on this machine, that which the brokers name is not. Without TLS, the way there
// sees no password.
func TestNoPasswordInTheClear(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sasl, want string }{
		{"{mechanism: PLAIN, user: u, password: pencil}", "PLAIN without TLS would show the secret to whoever listens on the way to " + faraway},
		{"{mechanism: SCRAM-SHA-512, user: u, password: pencil}", ""},
	} {
		t.Run(tt.sasl, func(t *testing.T) {
			t.Parallel()
			u := &tunnelled{}
			listen := func(network, address string) (net.Listener, error) {
				l, err := net.Listen(network, address)
				if err == nil {
					u.at = l.Addr().String()
				}
				return farListener{l}, err
			}
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listen), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "u", "pencil"), kfake.Superuser("PLAIN", "u", "pencil"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			path := filepath.Join(t.TempDir(), "forebay.yaml")
			text := "version: 1\nkafka:\n  brokers: [\"" + u.at + "\"]\n  sasl: " + tt.sasl + "\npostgres: {url: postgres://localhost/forebay}\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(config.Options{Path: path})
			if err != nil {
				t.Fatal(err) // all that the file names is on this machine
			}
			client, err := kgo.NewClient(append(KafkaOptions(c, config.RoleStream), kgo.Dialer(u.dial))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := client.Ping(ctx); err != nil && tt.want == "" {
				t.Fatal(err)
			}
			_, err = client.Broker(0).Request(ctx, kmsg.NewPtrMetadataRequest())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.asked == 0 || bytes.Contains(u.sent.Bytes(), []byte("pencil")) {
				t.Errorf("%d connections to %s, which has read %q", u.asked, faraway, u.sent.Bytes())
			}
		})
	}
}
