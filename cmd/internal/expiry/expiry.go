// Package expiry finds what has an end in what a configuration names: certificates in files, and secrets that are JSON Web Tokens.
package expiry

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// LongLived is how long something must have been made for to be worth a word before its end: what lives shorter is renewed by a program.
const LongLived = 30 * 24 * time.Hour

// Certificate is a file of certificates that a configuration names.
type Certificate struct {
	Key  string // operator.tls.cert_file
	Path string // from here
	// Bundle is set if they are those that are trusted, of which one is enough.
	Bundle bool
}

// Certificates lists the files of certificates that are for the roles, the operator listener and the schema registry, each once. A path with a
// reference that was not resolved is left out.
func Certificates(c *config.Config, roles []config.Role) (list []Certificate) {
	add := func(key, ca, cert string) {
		for _, file := range []Certificate{{key + ".ca_file", ca, true}, {key + ".cert_file", cert, false}} {
			if file.Path != "" && !strings.Contains(file.Path, "${") && !slices.ContainsFunc(list, func(o Certificate) bool { return o.Path == file.Path }) {
				list = append(list, file)
			}
		}
	}
	for _, role := range roles {
		if t := c.KafkaTLS(role); t != nil {
			add(c.KafkaTLSKey(role), t.CAFile, t.CertFile)
		}
	}
	if t := c.OperatorTLS(); t != nil {
		add("operator.tls", "", t.CertFile)
	}
	if r := c.RegistryFound(); r != nil && r.TLS != nil {
		add("registry.tls", r.TLS.CAFile, r.TLS.CertFile)
	}
	return list
}

// Ends returns the certificate with which the file ends: the first of it to end, since a chain holds as long as each of its certificates does; of
// a bundle the last, since the others may be those that nobody uses.
func (c Certificate) Ends() (*x509.Certificate, error) {
	text, err := os.ReadFile(c.Path)
	if err != nil {
		return nil, err
	}
	var ends *x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		made, err := x509.ParseCertificate(block.Bytes)
		if block.Type == "CERTIFICATE" && err == nil && (ends == nil || made.NotAfter.Before(ends.NotAfter) != c.Bundle) {
			ends = made
		}
	}
	if ends == nil {
		return nil, fmt.Errorf("%s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", c.Path)
	}
	return ends, nil
}

// Token is a secret of a configuration that says its end.
type Token struct {
	Key string // teams.acme.destinations.agent.headers.Authorization
	End time.Time
	// Brief is set if it says that it was made for less than [LongLived].
	Brief bool
}

// Tokens lists the secrets of a configuration that are JSON Web Tokens with an end.
func Tokens(c *config.Config) (list []Token) {
	for _, h := range c.SecretSettings() {
		for _, v := range h.Values {
			if t, ok := tokenOf(v); ok && !h.Public {
				t.Key = h.Key
				list = append(list, t)
			}
		}
	}
	return list
}

// tokenOf reads the claims exp and iat of a JSON Web Token, RFC 7519 section 4.1. Its signature is for whoever takes it.
func tokenOf(secret schemas.Secret) (t Token, ok bool) {
	parts := strings.Split(strings.TrimPrefix(secret.Reveal(), "Bearer "), ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "eyJ") {
		return t, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Exp, Iat float64 }
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Exp == 0 {
		return t, false
	}
	t.End = time.Unix(int64(claims.Exp), 0)
	t.Brief = claims.Iat != 0 && t.End.Sub(time.Unix(int64(claims.Iat), 0)) < LongLived
	return t, true
}
