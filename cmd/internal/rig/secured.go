package rig

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas/short"
)

// Who may do everything on a [SecuredKafka].
const (
	Root         = "root"
	RootPassword = "root-secret"
)

// SecuredKafka is an Apache Kafka of one broker with users and rights. Nobody but Root may do anything.
type SecuredKafka struct {
	*KafkaCluster
	*Authority
	// Encrypted is the listener with TLS and SASL, Mutual that with TLS and certificates of clients, Expired the same with a certificate
	// that has expired. Bootstrap is the one with SASL alone.
	Encrypted, Mutual, Expired string
}

// Secured starts a SecuredKafka for this test. Like [Kafka], it fails where there is none.
func Secured(t T) *SecuredKafka {
	t.Helper()
	short.NeedsServer(t, "Apache Kafka")
	script, err := kafkaHere()
	requireKafka(t, err)
	k := &SecuredKafka{Authority: NewAuthority(t), KafkaCluster: &KafkaCluster{t: t, KafkaBrokers: &KafkaBrokers{script: script, dir: t.TempDir()}}}
	certs := t.TempDir()
	for name, valid := range map[string]time.Duration{"server": time.Hour, "expired": -time.Hour} {
		k.copyTo(k.Issue(name, valid).Both, filepath.Join(certs, name+".pem"))
	}
	k.copyTo(k.CAFile, filepath.Join(certs, "ca.pem"))
	t.Cleanup(k.stop)
	if err := k.start(context.Background(), 1, "--secured", certs, "--session", "60000"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(k.KafkaCluster.dir, "listeners"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		*map[string]*string{"encrypted": &k.Encrypted, "mutual": &k.Mutual, "expired": &k.Expired}[name] = address
	}
	return k
}

func (k *SecuredKafka) copyTo(from, to string) {
	k.KafkaCluster.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		k.KafkaCluster.t.Fatal(err)
	}
}

// Acls runs Kafka's own tool for rights as Root and returns its output.
func (k *SecuredKafka) Acls(args ...string) string {
	k.KafkaCluster.t.Helper()
	return k.run(append([]string{"acls"}, args...)...)
}
