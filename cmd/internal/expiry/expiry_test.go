package expiry

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

func jwt(claims string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(claims) + ".c2lnbmF0dXJl"
}

// load reads a file with an operator listener on a certificate, and a destination with a header.
func load(t *testing.T, of rig.Issued, header string) *config.Config {
	t.Helper()
	text := fmt.Sprintf(`version: 1
kafka: {brokers: ["127.0.0.1:1"], tls: {ca_file: %q, cert_file: %q, key_file: %q}}
postgres: {url: "postgres://127.0.0.1/x"}
operator: {auth: tokens, public_url: https://127.0.0.1, tls: {cert_file: %q, key_file: %q}}
teams: {acme: {destinations: {agent: {type: http, url: "https://agent.example/run", headers: {Authorization: %q}}}}}
`, of.Cert, of.Cert, of.Key, of.Cert, of.Key, header)
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A chain ends when the first of its certificates does, a bundle with the last. Each role has a key of its own.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	of, soon := ca.Issue("operator", 300*24*time.Hour), ca.Issue("soon", time.Hour)
	c := load(t, of, "Bearer x")
	chain, err := os.ReadFile(of.Cert)
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(soon.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(of.Cert, slices.Concat([]byte("a comment\n"), chain, more), 0o600); err != nil {
		t.Fatal(err)
	}
	list := Certificates(c, []config.Role{config.RoleIntake, config.RoleStream})
	if diff := cmp.Diff([]Certificate{{"kafka.tls.ca_file", of.Cert, true}}, list); diff != "" { // one file, under the first key that names it
		t.Fatal(diff)
	}
	for bundle, want := range map[bool]string{false: "soon", true: "operator"} {
		if cert, err := (Certificate{Path: of.Cert, Bundle: bundle}).Ends(); err != nil || cert.Subject.CommonName != want {
			t.Errorf("a bundle %v ends with %v %v", bundle, cert, err)
		}
	}
	c.Kafka.Roles.Intake = &config.KafkaAccess{TLS: &config.KafkaTLS{Enabled: true, CertFile: soon.Cert, KeyFile: soon.Key}}
	list = Certificates(c, []config.Role{config.RoleIntake, config.RoleStream})
	if len(list) != 2 || list[0] != (Certificate{"kafka.roles.intake.tls.cert_file", soon.Cert, false}) || list[1].Key != "kafka.tls.ca_file" {
		t.Errorf("%+v", list)
	}
	for name, text := range map[string]string{"none": "", "a key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "broken": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		path := filepath.Join(t.TempDir(), "x.pem")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Certificate{Path: path}).Ends(); err == nil || !strings.Contains(err.Error(), path+" has no certificate in PEM form") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Certificate{Path: "/nowhere"}).Ends(); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// A token that a program renews says so by how long it was made for.
func TestTokens(t *testing.T) {
	t.Parallel()
	of := rig.NewAuthority(t).Issue("operator", time.Hour)
	const key = "teams.acme.destinations.agent.headers.Authorization"
	for header, want := range map[string][]Token{
		"Bearer " + jwt(`{"exp":1800000000}`):                  {{Key: key, End: time.Unix(1800000000, 0)}},
		jwt(`{"exp":1800000000.5,"iat":1700000000}`):           {{Key: key, End: time.Unix(1800000000, 0)}},
		"Bearer " + jwt(`{"exp":1800000000,"iat":1799996400}`): {{Key: key, End: time.Unix(1800000000, 0), Brief: true}},
		"Bearer " + jwt(`{"sub":"no end"}`):                    nil,
		"Bearer " + jwt(`{"exp":"tomorrow"}`):                  nil,
		"Bearer " + jwt(`not JSON`):                            nil,
		"Bearer eyJ.%%%.x":                                     nil,
		"Bearer abc.def.ghi":                                   nil,
	} {
		if diff := cmp.Diff(want, Tokens(load(t, of, header))); diff != "" {
			t.Errorf("%s: %s", header, diff)
		}
	}
}
