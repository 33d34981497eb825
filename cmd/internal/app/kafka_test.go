package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/record"
)

// secured is a cluster with users, and with TLS if server has a certificate. Without a file of authorities it asks clients for no
// certificate.
func secured(t *testing.T, server rig.Issued, authorities string, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	if server.Cert != "" {
		pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
		if err != nil {
			t.Fatal(err)
		}
		c := &tls.Config{Certificates: []tls.Certificate{pair}}
		if authorities != "" {
			if c.ClientCAs, err = brokers.Authorities(authorities); err != nil {
				t.Fatal(err)
			}
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		opts = append(opts, kfake.TLS(c))
	}
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// askAs loads a configuration with a section kafka and asks the cluster for its topics as the role does.
func askAs(t *testing.T, cluster *kfake.Cluster, kafka string) error {
	t.Helper()
	client := clientOf(t, cluster, kafka)
	defer client.Close()
	return asks(t, client)
}

func clientOf(t *testing.T, cluster *kfake.Cluster, kafka string) *kgo.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forebay.yaml")
	text := fmt.Sprintf("version: 1\nkafka:\n  brokers: [%s]\n  %s\npostgres: {url: postgres://localhost/forebay}\n", cluster.ListenAddrs()[0], kafka)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(KafkaOptions(c, config.RoleStream)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func asks(t *testing.T, client *kgo.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := kadm.NewClient(client).ListTopics(kadm.WithAuthorizedOps(ctx)) // past the client's cache
	return brokers.Explain(err)
}

// TestRefusalsAreToldInPlainWords: whoever has set a broker up otherwise than the file reads which key of it to look at. The broker in
// memory hangs up on a wrong password, and waits for the rest of a TLS hello; TestSecuredKafka has those on Apache Kafka.
func TestRefusalsAreToldInPlainWords(t *testing.T) {
	t.Parallel()
	ca, other := rig.NewAuthority(t), rig.NewAuthority(t)
	server, client, stranger := ca.Issue("server", time.Hour), ca.Issue("client", time.Hour), other.Issue("stranger", time.Hour)
	expired := ca.Issue("expired", -time.Hour)
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "pencil"), kfake.Superuser("PLAIN", "u", "pencil")}
	plaintext, encrypted, old := secured(t, rig.Issued{}, ""), secured(t, server, ""), secured(t, expired, "")
	mutual, named := secured(t, server, ca.CAFile), secured(t, rig.Issued{}, "", users...)
	both := secured(t, server, "", users...)
	trusts := "tls: {ca_file: " + ca.CAFile
	for _, tt := range []struct {
		name    string
		cluster *kfake.Cluster
		kafka   string
		want    string // nothing: it is let in
	}{
		{"nothing asked", plaintext, "rack: a", ""},
		{"TLS", encrypted, trusts + "}", ""},
		{"mTLS", mutual, trusts + ", cert_file: " + client.Cert + ", key_file: " + client.Key + "}", ""},
		{"PLAIN", named, "sasl: {mechanism: PLAIN, user: u, password: pencil}", ""},
		{"SCRAM", named, "sasl: {mechanism: SCRAM-SHA-256, user: u, password: pencil}", ""},
		{"TLS and SCRAM", both, trusts + "}\n  sasl: {mechanism: SCRAM-SHA-256, user: u, password: pencil}", ""},

		{"a mechanism that is not offered", named, "sasl: {mechanism: OAUTHBEARER, token: t}", "the brokers do not offer kafka.sasl.mechanism at this address"},
		{"no user", named, "rack: a", "closed the connection after the first request, as those do that want SASL: write kafka.sasl"},
		{"untrusted authority", encrypted, "tls: {ca_file: " + other.CAFile + "}", "has a certificate (CN=server) that none of " + other.CAFile + " has signed: name the file with its authority in kafka.tls.ca_file"},
		{"expired", old, trusts + "}", "has a certificate (CN=expired) that is valid from "},
		{"another name", encrypted, trusts + ", server_name: kafka.example.com}", "has a certificate for other names (127.0.0.1): write one of them as kafka.tls.server_name"},
		{"plaintext to TLS", encrypted, "rack: a", "write kafka.tls: {enabled: true}, or take the address of its listener without TLS"},
		{"no certificate", mutual, trusts + "}", "the broker does not take the certificate of kafka.tls.cert_file, or there is none"},
		{"a stranger's certificate", mutual, trusts + ", cert_file: " + stranger.Cert + ", key_file: " + stranger.Key + "}", "the broker does not take the certificate of kafka.tls.cert_file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := askAs(t, tt.cluster, tt.kafka)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "pencil") || strings.Contains(err.Error(), "eraser")) {
				t.Errorf("the password is shown: %v", err)
			}
		})
	}
}

// TestRenewedSecretsNeedNoRestart changes the password, the authority and the certificate that files hold while a client lives: its next
// connection uses the new ones.
func TestRenewedSecretsNeedNoRestart(t *testing.T) {
	t.Parallel()
	old, renewed := rig.NewAuthority(t), rig.NewAuthority(t)
	before, after := old.Issue("server", time.Hour), renewed.Issue("server", time.Hour)
	dir := t.TempDir()
	copyFiles := func(a *rig.Authority, client rig.Issued, password string) {
		for name, from := range map[string]string{"ca.pem": a.CAFile, "client.pem": client.Cert, "client.key": client.Key} {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyFiles(old, old.Issue("client", time.Hour), "pencil")
	users := func(password string) []kfake.Opt {
		return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "u", password)}
	}
	port := kfake.Ports(freePort(t))
	cluster := secured(t, before, old.CAFile, append(users("pencil"), port)...)
	client := clientOf(t, cluster, strings.ReplaceAll("tls: {ca_file: DIR/ca.pem, cert_file: DIR/client.pem, key_file: DIR/client.key}\n"+
		"  sasl: {mechanism: SCRAM-SHA-512, user: u, password: \"${file:DIR/password}\"}", "DIR", dir))
	defer client.Close()
	if err := asks(t, client); err != nil {
		t.Fatal(err)
	}
	cluster.Close()
	secured(t, after, renewed.CAFile, append(users("eraser"), port)...)
	if err := asks(t, client); err == nil || !strings.Contains(err.Error(), "kafka.tls.ca_file") {
		t.Fatalf("the old files are taken by the new cluster: %v", err)
	}
	copyFiles(renewed, renewed.Issue("client", time.Hour), "eraser")
	if err := asks(t, client); err != nil {
		t.Errorf("with the new files: %v", err)
	}
}

func TestKafkaUser(t *testing.T) {
	t.Parallel()
	mine := rig.NewAuthority(t).Issue("certified", time.Hour)
	for want, kafka := range map[record.User]config.Kafka{
		"user ANONYMOUS":         {},
		"user a":                 {SASL: &config.KafkaSASL{Mechanism: "PLAIN", User: "a"}},
		"the user of the token":  {SASL: &config.KafkaSASL{Mechanism: "OAUTHBEARER"}},
		"user CN=certified":      {TLS: &config.KafkaTLS{Enabled: true, CertFile: mine.Cert, KeyFile: mine.Key}},
		"user of /nowhere/a.pem": {TLS: &config.KafkaTLS{Enabled: true, CertFile: "/nowhere/a.pem"}},
	} {
		if got := KafkaUser(&config.Config{Kafka: kafka}, config.RoleStream); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
