package rig

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
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	t    T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// CAFile is the PEM file of its own certificate.
	CAFile string
}

// NewAuthority makes an authority whose files are in a directory of the test.
func NewAuthority(t T) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.CAFile = filepath.Join(a.dir, "ca.pem")
	a.sign(a.CAFile, a.cert, &a.key.PublicKey)
	return a
}

// Issued are the PEM files of a certificate and its key. Both is both in one file, as Kafka's PEM keystores want them.
type Issued struct{ Cert, Key, Both string }

// Issue makes a certificate for 127.0.0.1 and clients alike, by its common name. A negative validity is one that has expired.
func (a *Authority) Issue(name string, valid time.Duration) Issued {
	a.t.Helper()
	until := time.Now().Add(valid)
	key := a.newKey()
	files := Issued{Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+".key"), Both: filepath.Join(a.dir, name+".both.pem")}
	cert := a.sign(files.Cert, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, &key.PublicKey)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	a.write(files.Key, text)
	a.write(files.Both, append(text, cert...))
	return files
}

// sign writes a certificate to a file and returns its PEM form.
func (a *Authority) sign(file string, c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.write(file, text)
	return text
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *Authority) write(file string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}
