package config

import (
	"crypto/tls"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// Operator says who may ask the operator listener, and how it is reached.
type Operator struct {
	Auth        string         `yaml:"auth"`
	PublicURL   string         `yaml:"public_url"`
	TLS         *OperatorTLS   `yaml:"tls"` // nil: it does not end TLS
	BehindProxy []netip.Prefix `yaml:"behind_proxy"`
	OIDC        *OperatorOIDC  `yaml:"oidc"` // nil: people log in to the console with tokens alone
}

// OperatorOIDC is the OpenID provider by which people log in to the console, and what they may do there.
type OperatorOIDC struct {
	Issuer       string         `yaml:"issuer"`
	ClientID     string         `yaml:"client_id"`
	ClientSecret schemas.Secret `yaml:"client_secret"`
	Scopes       []string       `yaml:"scopes"`
	Grants       []OIDCGrant    `yaml:"grants"`
}

// OIDCGrant gives a role to whom the provider claims something of.
type OIDCGrant struct {
	Claim    string   `yaml:"claim"`
	Value    string   `yaml:"value"`
	Role     string   `yaml:"role"`
	Teams    []string `yaml:"teams"`
	Payloads bool     `yaml:"payloads"`
}

// Only returns the teams that a role is of; nil: all.
func (r *OIDCGrant) Only() []string {
	if slices.Contains(r.Teams, everyTeam) {
		return nil
	}
	return r.Teams
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
		for _, key := range []string{"public_url", "tls", "behind_proxy", "oidc"} {
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
	if o.OIDC != nil {
		ck.operatorOIDC(o.OIDC)
	}
}

// operatorOIDC checks the provider, and that each role is one that a token could have.
func (ck *checker) operatorOIDC(o *OperatorOIDC) {
	const at = "operator.oidc"
	if ck.c.Operator.PublicURL == "" {
		ck.problem("operator.public_url", "is missing: the provider leads browsers back there, to /console/login/callback")
	}
	u, err := url.Parse(o.Issuer)
	switch {
	case o.Issuer == "" && ck.written(at+".issuer"), err != nil, u.Host == "" && o.Issuer != "", u.User != nil, strings.ContainsAny(o.Issuer, "?#"):
		ck.problem(at+".issuer", "is not a URL such as https://idp.example.com")
	case o.Issuer != "" && u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		ck.problem(at+".issuer", "is not asked by https: whoever listens on the way could say who everybody is")
	}
	if ck.written(at+".scopes") && !slices.Contains(o.Scopes, "openid") {
		ck.problem(at+".scopes", "lacks openid, without which the provider says of nobody who they are")
	}
	if ck.written(at+".grants") && len(o.Grants) == 0 {
		ck.problem(at+".grants", "is empty: nobody gets in; write [{claim: groups, value: oncall, role: responder, teams: [acme]}]")
	}
	for i := range o.Grants {
		ck.oidcGrant(at+".grants["+itoa(i)+"]", &o.Grants[i])
	}
}

func (ck *checker) oidcGrant(at string, r *OIDCGrant) {
	for key, text := range map[string]string{".claim": r.Claim, ".value": r.Value} {
		if ck.written(at+key) && text == "" {
			ck.problem(at+key, "is empty")
		}
	}
	if ck.written(at + ".teams") {
		ck.listedTeams(at+".teams", "the role is of", r.Teams)
	}
	if slices.Contains(access.RolesWith(access.Tokens), r.Role) && r.Only() != nil {
		ck.problem(at+".role", "%s makes tokens, which concerns all teams: write teams: [\"*\"], or take operator", r.Role)
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
	ck.see(files.CertFile, files.KeyFile)
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		ck.problem("operator.tls.cert_file", "certificate and key cannot be used: %v", err)
		return
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) { // a process that did not start by it would take no deliveries either
		ck.note("operator.tls.cert_file", "%s has expired at %s: clients refuse it; have it renewed", t.CertFile, end.UTC().Format(time.RFC3339))
	}
	host := ck.c.Operator.Host()
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if err := pair.Leaf.VerifyHostname(host); host != "" && err != nil {
		ck.note("operator.tls.cert_file", "clients that ask by operator.public_url refuse %s: %v", t.CertFile, err)
	}
}
