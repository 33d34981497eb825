package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperator holds what is said of operator and listen.operator against what must be said of it; nothing where it is well.
func TestOperator(t *testing.T) {
	t.Parallel()
	cert, err := filepath.Abs("testdata/reference/operator/forebay.pem")
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSuffix(cert, "pem") + "key"
	other := filepath.Join(t.TempDir(), "other.key")
	if err := os.WriteFile(other, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	const auth = "auth: tokens, public_url: https://forebay.example.com"
	tls := ", tls: {cert_file: " + cert + ", key_file: " + key + "}"
	const role = "{claim: groups, value: oncall, role: responder, teams: [acme], payloads: true}"
	provider := func(issuer, roles string) string {
		return ", oidc: {issuer: \"" + issuer + "\", client_id: forebay, client_secret: s3cr3t, grants: [" + roles + "]}"
	}
	for _, tt := range []struct{ name, at, operator, want string }{
		{"as it was", "127.0.0.1:9090", "", ""},
		{"open", "0.0.0.0:9090", "", "listen.operator: 0.0.0.0:9090 is not loopback, and whoever reaches it may ask and change everything"},
		{"open by name", "forebay.example.com:9090", "auth: none", "is not loopback"},
		{"tokens on loopback", "127.0.0.1:9090", "auth: tokens", ""},
		{"tokens on loopback, behind a proxy", "127.0.0.1:9090", auth + ", behind_proxy: [127.0.0.0/8]", ""},
		{"with TLS", "0.0.0.0:9090", auth + tls, ""},
		{"behind a proxy", "10.0.0.1:9090", auth + ", behind_proxy: [10.0.0.0/8]", ""},
		{"in the clear", "0.0.0.0:9090", auth, "operator.tls: is missing: 0.0.0.0:9090 is not loopback, and tokens would be sent for others to read"},
		{"no host", "0.0.0.0:9090", "auth: tokens" + tls, "operator.public_url: is missing"},
		{"a host in the clear", "0.0.0.0:9090", "auth: tokens, public_url: http://forebay.example.com" + tls, "operator.public_url: is not a URL such as https://"},
		{"a path", "0.0.0.0:9090", "auth: tokens, public_url: https://forebay.example.com/" + tls, "operator.public_url: is not a URL such as https://"},
		{"everybody's proxy", "0.0.0.0:9090", auth + `, behind_proxy: [10.0.0.0/8, "::/0"]`, "operator.behind_proxy[1]: ::/0 is every address"},
		{"no proxy", "0.0.0.0:9090", auth + ", behind_proxy: []", "operator.tls: is missing"},
		{"no certificate", "0.0.0.0:9090", auth + ", tls: {cert_file: nowhere.pem, key_file: nowhere.key}", "operator.tls.cert_file: certificate and key cannot be used"},
		{"half of it", "0.0.0.0:9090", auth + ", tls: {cert_file: " + cert + "}", "key_file"},
		{"TLS without tokens", "127.0.0.1:9090", "auth: none" + tls, "operator.tls: goes with operator.auth: tokens"},
		{"a URL without tokens", "127.0.0.1:9090", "public_url: https://forebay.example.com", "operator.public_url: goes with operator.auth: tokens"},
		{"OIDC", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", role), ""},
		{"on loopback", "0.0.0.0:9090", auth + tls + provider("http://127.0.0.1:5556/dex", role), ""},
		{"OIDC for /v1", "0.0.0.0:9090", "auth: oidc" + tls, `"oidc" is not one of none, tokens`},
		{"OIDC without tokens", "127.0.0.1:9090", "auth: none" + provider("https://idp.example.com", role), "operator.oidc: goes with operator.auth: tokens"},
		{"nowhere to lead back to", "127.0.0.1:9090", "auth: tokens" + provider("https://idp.example.com", role), "operator.public_url: is missing: the provider leads browsers back there"},
		{"half of OIDC", "0.0.0.0:9090", auth + tls + ", oidc: {issuer: https://idp.example.com}", "client_id"},
		{"anybody's provider", "0.0.0.0:9090", auth + tls + provider("http://idp.example.com", role), "operator.oidc.issuer: is not asked by https"},
		{"no provider", "0.0.0.0:9090", auth + tls + provider("idp.example.com", role), "operator.oidc.issuer: is not a URL such as"},
		{"no role", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", ""), "operator.oidc.grants: is empty"},
		{"an unknown role", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", strings.Replace(role, "responder", "root", 1)), `"root" is not one of viewer, responder`},
		{"of no team", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", strings.Replace(role, "acme]", "]", 1)), "operator.oidc.grants[0].teams: is empty: name the teams that the role is of"},
		{"of another team", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", strings.Replace(role, "acme]", "amce]", 1)), `there is no team "amce"; did you mean acme?`},
		{"admin of a team", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", strings.Replace(role, "responder", "admin", 1)), "operator.oidc.grants[0].role: admin makes tokens"},
		{"for an empty claim", "0.0.0.0:9090", auth + tls + provider("https://idp.example.com", strings.Replace(role, "groups", `""`, 1)), "operator.oidc.grants[0].claim: is empty"},
		{"without openid", "0.0.0.0:9090", auth + tls + strings.Replace(provider("https://idp.example.com", role), "grants:", "scopes: [email], grants:", 1), "operator.oidc.scopes: lacks openid"},
		{"something else", "0.0.0.0:9090", "auth: basic", `"basic" is not one of none, tokens`},
	} {
		const plain, before = "operator: 127.0.0.1:9090", "\ntopics:"
		if !strings.Contains(design, plain) || !strings.Contains(design, before) {
			t.Fatal("the design's file is another one now")
		}
		text := strings.Replace(strings.Replace(design, plain, "operator: \""+tt.at+"\"", 1), before, "\noperator: {"+tt.operator+"}"+before, 1)
		_, problems := load(text, designEnv, designFiles, Options{})
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.String() + "\n")
		}
		if got := all.String(); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		// Commands that do not listen there need no file of it.
		if _, problems := load(text, designEnv, designFiles, Options{Roles: []Role{RoleTopics}}); len(problems) > 0 && !strings.Contains(tt.want, "not built") && !strings.Contains(tt.want, "not one of") && !strings.HasPrefix(tt.name, "half of ") && tt.name != "of whatever team" {
			t.Errorf("%s, of a command that does not listen: %v", tt.name, problems)
		}
	}
	// forebay dev makes the first token itself, and asks its own listener.
	text := strings.Replace(design, "\ntopics:", "\noperator: {auth: tokens}\ntopics:", 1)
	if _, problems := load(text, designEnv, designFiles, Options{Embedded: true}); len(problems) > 0 {
		t.Errorf("in dev: %v", problems)
	}
	text = strings.Replace(text, "{auth: tokens}", "{auth: tokens, tls: {cert_file: a.pem, key_file: b.pem}}", 1)
	if _, problems := load(text, designEnv, designFiles, Options{Embedded: true}); len(problems) != 1 || !strings.Contains(problems[0].String(), "a.pem") {
		t.Errorf("TLS in dev: %v", problems)
	}
}
