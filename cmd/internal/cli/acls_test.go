package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/schemas/record"
)

// TestGuessedPrincipals: whom the brokers take a role for, and the file does not say, is told as a guess, in each form, until it is said.
func TestGuessedPrincipals(t *testing.T) {
	t.Parallel()
	const scram = "sasl: {mechanism: SCRAM-SHA-512, password: pencil, user: "
	for name, tt := range map[string]struct{ kafka, want string }{
		"said":         {scram + "acme-app}", ""},
		"a reference":  {scram + `"${env:KAFKA_USER}"}`, `its user is a reference ("${env:KAFKA_USER}")`},
		"a file":       {scram + `"${file:/run/secrets/user}"}`, `its user is a reference ("${file:/run/secrets/user}")`},
		"a token":      {`tls: {enabled: true}, sasl: {mechanism: OAUTHBEARER, token: "${file:/run/secrets/token}"}`, "it gets in with a token"},
		"mTLS":         {"tls: {cert_file: cert.pem, key_file: key.pem}", "it gets in with a certificate ("},
		"no login":     {"rack: a", "User:ANONYMOUS"},
		"SASL in mTLS": {"tls: {cert_file: cert.pem, key_file: key.pem}, " + scram + "acme-app}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "forebay.yaml")
			text := "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"], " + tt.kafka + "}\npostgres: {url: \"postgres://localhost/forebay\"}\n" +
				"teams: {acme: {sources: {github: {preset: github, secrets: [\"0123456789abcdef\"]}}}}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			export := func(more ...string) (string, string) {
				var out, errs bytes.Buffer
				if code := Main(t.Context(), append([]string{"acls", "export", "-c", file}, more...), Options{Stdout: &out, Stderr: &errs}); code != 0 {
					t.Fatalf("exit code %d: %s", code, errs.String())
				}
				return out.String(), errs.String()
			}
			forms := []string{"--kafka"}
			if name == "a token" {
				forms = append(forms, "--strimzi", "--terraform", "--output=json")
			}
			for _, form := range forms {
				out, errs := export(form)
				const role = "the principal User:forebay-stream of stream is a guess: "
				noted := strings.Contains(out, "\n# NOTE: "+role) || form == "--output=json"
				if tt.want != "" && (!noted || !strings.Contains(errs, role) || !strings.Contains(errs, tt.want) || !strings.Contains(errs, "set it with --principal stream=USER")) {
					t.Errorf("%s: %s\n%s", form, errs, out)
				}
				if tt.want == "" && (errs != "" || strings.Contains(out, "NOTE") || !strings.Contains(out, "acme-app")) {
					t.Errorf("%s: %s\n%s", form, errs, out)
				}
				out, errs = export(form, "--principal", "intake=a", "--principal", "stream=b", "--principal", "admin=c")
				if errs != "" || strings.Contains(out, "NOTE") || strings.Contains(out, "forebay-") {
					t.Errorf("%s, said: %s\n%s", form, errs, out)
				}
			}
		})
	}
}

// TestByHandNamesTheExport: the export without --reading, which other messages name, has no right to read for admin.
func TestByHandNamesTheExport(t *testing.T) {
	t.Parallel()
	lacks := byHand(record.Lacks(nil, "Read", "topic events.acme.github", kerr.TopicAuthorizationFailed))
	if got := brokers.Explain(lacks); got != lacks || !strings.HasSuffix(got.Error(), "`forebay acls export --reading` prints what is needed: this process's user has no right Read on topic events.acme.github") {
		t.Error(got)
	}
	if byHand(nil) != nil || byHand(kerr.CorruptMessage) != kerr.CorruptMessage {
		t.Error("another error is changed")
	}
}
