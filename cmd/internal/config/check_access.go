package config

import (
	"crypto/tls"
	"regexp"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
)

// clientID matches names of clients: quotas and metrics of brokers go by them.
var clientID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

// kafkaClients checks what the Kafka clients of each role say of themselves.
func (ck *checker) kafkaClients() {
	k := ck.c.Kafka
	if !ck.unresolved("kafka.client_id") && !clientID.MatchString(k.ClientID) {
		ck.problem("kafka.client_id", "%q is not a name of at most 100 letters, digits, dots, dashes and underscores", clip(k.ClientID))
	}
	if !ck.unresolved("kafka.rack") && hasControls(k.Rack) {
		ck.problem("kafka.rack", "%q has control characters", clip(k.Rack))
	}
	checked := map[string]bool{}
	for _, role := range []string{"intake", "stream", "admin"} {
		if ck.options.uses("kafka.roles." + role) {
			ck.accessOf(role, checked)
		}
	}
}

// accessOf checks how a role gets in, but for the sections that were checked already.
func (ck *checker) accessOf(role string, checked map[string]bool) {
	t, encryption := ck.c.tlsOf(role)
	if !checked[encryption] {
		ck.sectionTLS(encryption, t)
	}
	s, login := ck.c.saslOf(role)
	if !checked[login] {
		ck.sectionSASL(login, s)
	}
	if both := encryption + " " + login; !checked[both] {
		ck.inTheClear(t, encryption, s, login)
		checked[both] = true
	}
	checked[encryption], checked[login] = true, true
}

// sectionTLS checks a section tls, and reads its files as a connection does.
func (ck *checker) sectionTLS(path string, t *KafkaTLS) {
	if t == nil || !t.Enabled || ck.unresolvedBelow(path) {
		return
	}
	ck.onlyWithBrokers(path)
	ck.filesTLS(path, t)
}

// filesTLS reads the files of a section tls.
func (ck *checker) filesTLS(path string, t *KafkaTLS) {
	t = ck.c.found(t)
	ck.see(t.CAFile, t.CertFile, t.KeyFile)
	if t.CAFile != "" {
		if _, err := brokers.Authorities(t.CAFile); err != nil {
			ck.problem(path+".ca_file", "%v", err)
		}
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		ck.problem(path+".cert_file", "goes with key_file, its private key, which is missing")
	case t.CertFile == "" && t.KeyFile != "":
		ck.problem(path+".key_file", "goes with cert_file, the certificate of this key, which is missing")
	case t.CertFile != "":
		ck.ownCertificate(path+".cert_file", t)
	}
}

// ownCertificate checks the certificate that is shown to brokers or registry.
func (ck *checker) ownCertificate(path string, t *KafkaTLS) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		ck.problem(path, "certificate and key cannot be used: %v", err)
		return
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) { // until it is renewed, deliveries may be kept on disk
		ck.note(path, "%s has expired at %s: nobody takes it; have it renewed", t.CertFile, end.UTC().Format(time.RFC3339))
	}
}

// sectionSASL checks that a section sasl has what its mechanism needs, and nothing else.
func (ck *checker) sectionSASL(path string, s *KafkaSASL) {
	if s == nil || ck.unresolved(path+".mechanism") || s.Mechanism == "" {
		return
	}
	ck.onlyWithBrokers(path)
	needs, not := []string{"user", "password"}, []string{"token"}
	if s.Mechanism == "OAUTHBEARER" {
		needs, not = not, needs
	}
	for _, key := range needs {
		if !ck.written(path + "." + key) {
			ck.problem(path+"."+key, "is missing: %s needs it", s.Mechanism)
		}
	}
	for _, key := range not {
		if ck.written(path + "." + key) {
			ck.problem(path+"."+key, "has no meaning for %s", s.Mechanism)
		}
	}
}

// onlyWithBrokers refuses a section where the broker is the one of `forebay dev`, which has neither encryption nor users.
func (ck *checker) onlyWithBrokers(path string) {
	if len(ck.c.Kafka.Brokers) == 0 && !ck.unresolvedBelow("kafka.brokers") && (ck.c.Kafka.Embedded || ck.options.Embedded) {
		ck.problem(path, "goes with kafka.brokers: the embedded broker of `forebay dev` has neither TLS nor users")
	}
}

// inTheClear refuses what would show a password or a token to whoever listens on the way to a broker.
func (ck *checker) inTheClear(t *KafkaTLS, encryption string, s *KafkaSASL, login string) {
	encrypted := t != nil && (t.Enabled || ck.unresolved(encryption+".enabled"))
	if s == nil || encrypted || ck.unresolved(login+".mechanism") || ck.unresolvedBelow("kafka.brokers") || allLoopback(ck.c.Kafka.Brokers) {
		return
	}
	switch {
	case slices.Contains([]string{"PLAIN", "OAUTHBEARER"}, s.Mechanism):
		ck.problem(login, "%s without TLS shows the secret to whoever listens on the way: write %s: {enabled: true} as well, or use SCRAM-SHA-512", s.Mechanism, encryption)
	case s.Mechanism != "":
		ck.note(login, "without %s, events go to the brokers unencrypted", encryption)
	}
}
