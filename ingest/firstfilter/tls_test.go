package firstfilter

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
)

// TestTLS: the server's certificate is verified, by the file that is given.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, others := certificate(t, dir, "ours"), certificate(t, dir, "others")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	r := serve(t, "--tls-port", port, "--tls-cert-file", ours, "--tls-key-file", ours, "--tls-ca-cert-file", ours, "--tls-auth-clients", "no", "--requirepass", "pw")
	over := func(ca string) *fixture {
		return filter(r, func(u *Use) { u.Redis.URL, u.Redis.CAFile = schemas.NewSecret("rediss://:pw@127.0.0.1:"+port), ca })
	}
	over(ours).works()
	for _, ca := range []string{others, ""} {
		f := over(ca)
		f.until("the connection is refused", func() bool { return f.log.open[(*f.log.uses.Load())[source].Redis].breaker.open(time.Now()) })
		f.take(event("a", "1"))
		f.take(event("a", "1"))
		if f.under.records("a") != 2 {
			t.Errorf("%s: %d records", ca, f.under.records("a"))
		}
	}
	if err := New(nil, nil, prometheus.NewRegistry()).Put(map[string]Use{source: {Redis: Config{URL: schemas.NewSecret("rediss://h"), CAFile: filepath.Join(dir, "none.pem")}}}); err == nil {
		t.Error("a file that is not there is taken for the authorities")
	}
}

// certificate makes a certificate for 127.0.0.1 that signs itself, with its key, in one PEM file.
func certificate(t *testing.T, dir, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	file := filepath.Join(dir, name+".pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
