package brokers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// TLS says how connections are encrypted. Its files are read for each connection, so that renewed ones count from the next on.
type TLS struct {
	CAFile            string // the authorities that sign brokers' certificates; empty: the system's
	CertFile, KeyFile string // what is shown to brokers; empty: nothing
	ServerName        string // that brokers' certificates must have; empty: the host of the address
}

// handshakeTime is how long a TLS handshake may take.
const handshakeTime = 10 * time.Second

// Config makes the configuration of a connection to host. key is where the file has t, for errors.
func (t TLS) Config(key, host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: cmp.Or(t.ServerName, host), MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pool, err := Authorities(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s.ca_file: %w", key, err)
		}
		c.RootCAs = pool
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.cert_file: %w", key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Subject returns the subject of CertFile, which is the user's name unless the brokers map it to another; the file's name if it cannot be read.
func (t TLS) Subject() string {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return "of " + t.CertFile
	}
	return pair.Leaf.Subject.String()
}

// Authorities reads the certificates of a PEM file.
func Authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", file)
	}
	return pool, nil
}

// encrypt makes the TLS connection on one to address. It closes conn if that fails.
func (t TLS) encrypt(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c, err := t.Config("kafka.tls", host)
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, t.refused(err, address)
	}
	return secure, nil
}

// refused says in plain words why a handshake has failed.
func (t TLS) refused(err error, address string) error {
	name := cmp.Or(t.CAFile, "the system's authorities")
	say := func(format string, args ...any) error {
		return &refusal{"the broker at " + address + " " + fmt.Sprintf(format, args...), err}
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return say("has a certificate (%s) that none of %s has signed: name the file with its authority in kafka.tls.ca_file", subject(unknown.Cert), name)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return say("has a certificate (%s) that is valid from %s to %s only: have it renewed there, or set this machine's clock", subject(invalid.Cert),
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if other, ok := errors.AsType[x509.HostnameError](err); ok {
		return say("has a certificate for other names (%s): write one of them as kafka.tls.server_name, if this is the right broker", strings.Join(names(other.Certificate), ", "))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return say("speaks no TLS there: take the address of its listener with TLS, or leave kafka.tls out")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return say("has not answered to the beginning of TLS: is there a listener with TLS at this address?")
	}
	return err
}

func subject(c *x509.Certificate) string {
	if c == nil {
		return "unreadable"
	}
	return c.Subject.String()
}

// names returns what a certificate is for.
func names(c *x509.Certificate) []string {
	list := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	return list
}

// firstBytes looks at what a broker says first on a connection without TLS: if it wants TLS, that is a TLS alert or nothing.
type firstBytes struct {
	net.Conn
	address string
	heard   bool // only the client's one reader of the connection uses it
}

// alert is the first byte of a TLS alert. Of a Kafka answer it is the highest of its length, and none has 352 MB.
const alert = 21

const wantsTLS = "write kafka.tls: {enabled: true}, or take the address of its listener without TLS"

func (c *firstBytes) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.heard:
	case n > 0 && b[0] == alert:
		return 0, &refusal{"the broker at " + c.address + " wants TLS: " + wantsTLS, errAlert}
	case n > 0:
		c.heard = true
	case errors.Is(err, io.EOF):
		err = &refusal{"the broker at " + c.address + " closed the connection without a word, as those do that want TLS: " + wantsTLS, err}
	}
	return n, err
}

var errAlert = errors.New("it answered with a TLS alert")

// Certificate makes a TLS connection to a broker and returns the certificate that it shows.
func (t TLS) Certificate(ctx context.Context, address string) (*x509.Certificate, error) {
	conn, err := dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secure, err := t.encrypt(ctx, conn, address)
	if err != nil {
		return nil, err
	}
	defer secure.Close()
	return secure.(*tls.Conn).ConnectionState().PeerCertificates[0], nil // encrypt makes it
}
