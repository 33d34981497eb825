package config

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestACertificateThatHasExpiredStopsNothing: the intake needs none of the two to take deliveries, and a reload may be for a secret. It is said, and
// its files are seen, so that one which cannot be read keeps a reload out only until it is renewed.
func TestACertificateThatHasExpiredStopsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := filepath.Abs("testdata/reference/operator/forebay.key")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(strings.TrimSuffix(key, "key")+"pem", key)
	if err != nil {
		t.Fatal(err)
	}
	old := *pair.Leaf
	old.NotAfter = time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &old, &old, old.PublicKey, pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := filepath.Join(dir, "old.pem")
	writeFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	files := "{cert_file: " + cert + ", key_file: " + key + "}"
	path := filepath.Join(dir, "forebay.yaml")
	writeFile(t, path, "version: 1\nkafka: {brokers: [kafka:9092], tls: "+files+"}\npostgres: {url: postgres://localhost/forebay}\ntopics: {replication: 3}\n"+
		"operator: {auth: tokens, tls: "+files+"}\n")
	var seen []string
	c, err := Load(Options{Path: path, See: func(path string) { seen = append(seen, path) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"operator.tls.cert_file", "kafka.tls.cert_file"} {
		if !slices.ContainsFunc(c.Notes(), func(p Problem) bool { return p.Path == at }) {
			t.Errorf("nothing is said of %s: %v", at, c.Notes())
		}
	}
	if !slices.Contains(seen, cert) || !slices.Contains(seen, key) {
		t.Errorf("seen: %q", seen)
	}
}
