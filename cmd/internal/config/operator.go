package config

import (
	"crypto/tls"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Operator says who may ask the operator listener, and how it is reached.
type Operator struct {
	Auth        string         `yaml:"auth"`
	PublicURL   string         `yaml:"public_url"`
	TLS         *OperatorTLS   `yaml:"tls"` // nil: it does not end TLS
	BehindProxy []netip.Prefix `yaml:"behind_proxy"`
}

// OperatorTLS is what the operator listener shows of itself.
type OperatorTLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// AuthTokens is the value of operator.auth where those who ask have tokens.
const AuthTokens = "tokens"

// HasTokens reports whether those who ask the operator listener must have a token.
func (o *Operator) HasTokens() bool { return o.Auth == AuthTokens }

// Host returns the host under which the operator listener is asked, as requests have it; empty if none is declared.
func (o *Operator) Host() string {
	u, err := url.Parse(o.PublicURL)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Host, ":443")
}

// OperatorTLS returns the files of the operator listener's certificate, with paths that lead to them from here; nil if it does not end TLS.
func (c *Config) OperatorTLS() *OperatorTLS {
	if c.Operator.TLS == nil {
		return nil
	}
	found := *c.Operator.TLS
	for _, file := range []*string{&found.CertFile, &found.KeyFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(c.dir, *file)
		}
	}
	return &found
}

// operator checks that nobody reaches the operator listener from elsewhere without proving who they are, or over a connection that others read.
func (ck *checker) operator() {
	o, path := ck.c.Operator, "listen.operator"
	if !ck.options.uses("operator.auth") || ck.unresolved(path) || ck.unresolvedBelow("operator") {
		return
	}
	if ck.options.Embedded && o.HasTokens() {
		ck.problem("operator.auth", "tokens go with `forebay serve`: `forebay dev` is for this machine, and asks its listener without one")
		return
	}
	ck.operatorKeys(o)
	host, ok := ck.address(path, ck.c.Listen.Operator)
	switch {
	case !ok || loopback(host):
	case !o.HasTokens():
		ck.problem(path, "%s is not loopback, and whoever reaches it may ask and change everything: have them prove who they are with operator: {auth: tokens, public_url: https://..., tls: {...}}, "+
			"or stay on 127.0.0.1; probes and Prometheus ask listen.health", ck.c.Listen.Operator)
	case o.TLS == nil && len(o.BehindProxy) == 0:
		ck.problem("operator.tls", "is missing: %s is not loopback, and tokens would be sent for others to read; write operator.tls, or operator.behind_proxy with the networks of the proxies that end TLS",
			ck.c.Listen.Operator)
	case o.PublicURL == "":
		ck.problem("operator.public_url", "is missing: under it alone the listener answers when it is not on loopback, such as https://forebay.example.com")
	}
}

// operatorKeys checks each key by itself.
func (ck *checker) operatorKeys(o Operator) {
	if !o.HasTokens() {
		for _, key := range []string{"public_url", "tls", "behind_proxy"} {
			if ck.written("operator." + key) {
				ck.problem("operator."+key, "goes with operator.auth: tokens; without, the listener is on loopback")
			}
		}
		return
	}
	if u, err := url.Parse(o.PublicURL); o.PublicURL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || strings.ContainsAny(o.PublicURL, "?#")) {
		ck.problem("operator.public_url", "is not a URL such as https://forebay.example.com, with https and without a path")
	}
	for n, p := range o.BehindProxy {
		if p.IsValid() && (p.Bits() == 0 || p.Addr().Is4In6() && p.Bits() <= 96) {
			ck.problem("operator.behind_proxy["+itoa(n)+"]", "%s is every address: then anybody says that they came over TLS; list the networks of your proxies", p)
		}
	}
	if o.TLS != nil {
		ck.operatorTLS(o.TLS)
	}
}

// operatorTLS checks the certificate as a connection reads it.
func (ck *checker) operatorTLS(t *OperatorTLS) {
	switch {
	case t.CertFile == "":
		ck.problem("operator.tls.cert_file", "is missing: TLS needs a certificate and its private key")
		return
	case t.KeyFile == "":
		ck.problem("operator.tls.key_file", "is missing: TLS needs a certificate and its private key")
		return
	}
	files := ck.c.OperatorTLS()
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		ck.problem("operator.tls.cert_file", "certificate and key cannot be used: %v", err)
		return
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		ck.problem("operator.tls.cert_file", "%s has expired at %s: clients refuse it; have it renewed", t.CertFile, end.UTC().Format(time.RFC3339))
	}
	host := ck.c.Operator.Host()
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if err := pair.Leaf.VerifyHostname(host); host != "" && err != nil {
		ck.note("operator.tls.cert_file", "clients that ask by operator.public_url refuse %s: %v", t.CertFile, err)
	}
}
