package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// accessFile is a configuration with one section kafka, and the reference file's certificates beside it.
func accessFile(t *testing.T, kafka string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"ca.pem", "stream.pem", "stream.key"} {
		data, err := os.ReadFile(filepath.Join("testdata/reference/kafka", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(data))
	}
	writeFile(t, filepath.Join(dir, "password"), "pencil\n")
	kafka = strings.ReplaceAll(kafka, "DIR", dir)
	path := filepath.Join(dir, "forebay.yaml")
	writeFile(t, path, "version: 1\nkafka:\n  "+kafka+"\npostgres: {url: postgres://localhost/forebay}\ntopics: {replication: 3}\n")
	return path
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaAccessIsChecked names what must be said of how clients get in; nothing means that it is fine.
func TestKafkaAccessIsChecked(t *testing.T) {
	t.Parallel()
	const far, here = "brokers: [kafka:9092]\n  ", "brokers: [127.0.0.1:9092]\n  "
	for _, tt := range []struct{ name, kafka, want string }{
		{"TLS", far + "tls: {ca_file: ca.pem, cert_file: stream.pem, key_file: DIR/stream.key, server_name: k}", ""},
		{"CA missing", far + "tls: {ca_file: nothere.pem}", "kafka.tls.ca_file: open DIR/nothere.pem: no such file or directory"},
		{"CA is no certificate", far + "tls: {ca_file: stream.key}", "kafka.tls.ca_file: DIR/stream.key has no certificate in PEM form"},
		{"off", far + "tls: {enabled: false, ca_file: nothere.pem}", ""},
		{"certificate without key", far + "tls: {cert_file: stream.pem}", "kafka.tls.cert_file: goes with key_file"},
		{"key of another", far + "tls: {cert_file: ca.pem, key_file: stream.key}", "kafka.tls.cert_file: certificate and key cannot be used: tls: private key does not match public key"},
		{"PLAIN in the clear", far + "sasl: {mechanism: PLAIN, user: u, password: p}", "kafka.sasl: PLAIN without TLS shows the secret"},
		{"PLAIN in TLS", far + "tls: {ca_file: ca.pem}\n  sasl: {mechanism: PLAIN, user: u, password: p}", ""},
		{"PLAIN on this machine", here + "sasl: {mechanism: PLAIN, user: u, password: p}", ""},
		{"token in the clear", far + "sasl: {mechanism: OAUTHBEARER, token: t}", "kafka.sasl: OAUTHBEARER without TLS shows the secret"},
		{"SCRAM in the clear", far + "sasl: {mechanism: SCRAM-SHA-512, user: u, password: p}", ""},
		{"mechanism", here + "sasl: {mechanism: SCRAM-SHA-1, user: u, password: p}", `kafka.sasl.mechanism: "SCRAM-SHA-1" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER`},
		{"no mechanism", here + "sasl: {user: u, password: p}", "kafka.sasl: mechanism is missing"},
		{"no password", here + "sasl: {mechanism: SCRAM-SHA-256, user: u}", "kafka.sasl.password: is missing"},
		{"user of a token", here + "sasl: {mechanism: OAUTHBEARER, token: t, user: u}", "kafka.sasl.user: has no meaning for OAUTHBEARER"},
		{"client id", here + "client_id: \"a b\"", `kafka.client_id: "a b" is not a name`},
		{"a role in the clear", far + "tls: {ca_file: ca.pem}\n  sasl: {mechanism: PLAIN, user: u, password: p}\n  roles: {admin: {tls: {enabled: false}}}", "write kafka.roles.admin.tls: {enabled: true}"},
		{"a role of its own", far + "roles: {intake: {tls: {ca_file: nothere.pem}}}", "kafka.roles.intake.tls.ca_file: open DIR/nothere.pem"},
		{"unknown role", far + "roles: {intakes: {}}", "kafka.roles.intakes: unknown key; did you mean intake?"},
		{"embedded", "embedded: true\n  tls: {enabled: true}", "kafka.tls: goes with kafka.brokers: the embedded broker"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := accessFile(t, tt.kafka)
			_, err := Load(Options{Path: path, Look: true})
			want := strings.ReplaceAll(tt.want, "DIR", filepath.Dir(path))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("it says more than one thing:\n%v", err)
			}
		})
	}
}

// TestKafkaRolesHaveTheirOwn: a role's own section takes the place of the one for all, and is read by that role alone.
func TestKafkaRolesHaveTheirOwn(t *testing.T) {
	t.Parallel()
	path := accessFile(t, `brokers: [127.0.0.1:9092]
  tls: {ca_file: ca.pem}
  sasl: {mechanism: PLAIN, user: all, password: p}
  roles:
    intake: {sasl: {mechanism: SCRAM-SHA-256, user: intake, password: "${env:INTAKE}"}}
    stream: {tls: {enabled: false}, sasl: {mechanism: SCRAM-SHA-512, user: stream, password: "${env:STREAM}"}}`)
	variables := func(name string) (string, bool) { return map[string]string{"STREAM": "s"}[name], name == "STREAM" }
	c, err := Load(Options{Path: path, Roles: []Role{RoleStream, RoleTopics}, Lookup: variables})
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[Role]string{RoleStream: "stream SCRAM-SHA-512 s", RoleTopics: "all PLAIN p"} {
		_, reread := c.KafkaSASL(role)
		s, err := reread()
		if got := s.User + " " + s.Mechanism + " " + s.Password.Reveal(); err != nil || got != want {
			t.Errorf("role %s logs in as %s, want %s (%v)", role, got, want, err)
		}
	}
	if c.KafkaTLS(RoleStream) != nil || c.KafkaTLS(RoleTopics) == nil {
		t.Error("the stream's own tls says that it has none, and those of the others have")
	}
	if _, err := Load(Options{Path: path, Roles: []Role{RoleIntake}, Lookup: variables}); err == nil || !strings.Contains(err.Error(), "kafka.roles.intake.sasl.password: environment variable INTAKE is not set") {
		t.Errorf("an intake without its password: %v", err)
	}
}

// TestKafkaPasswordIsReadAgain: a file that has another password is used from the next connection on, and is no reason for a restart;
// what is said of a file that is gone names it.
func TestKafkaPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	path := accessFile(t, "brokers: [127.0.0.1:9092]\n  sasl: {mechanism: PLAIN, user: u, password: \"${file:DIR/password}\"}")
	c, err := Load(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(path), "password")
	writeFile(t, file, "eraser\n")
	_, reread := c.KafkaSASL(RoleStream)
	if s, err := reread(); err != nil || s.Password.Reveal() != "eraser" {
		t.Errorf("the password is %q (%v)", s.Password.Reveal(), err)
	}
	again, err := Load(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if paths := waitingPaths(c, again); len(paths) > 0 {
		t.Errorf("a new password needs a restart of %v", paths)
	}
	text, _ := os.ReadFile(path)
	writeFile(t, path, strings.Replace(string(text), "user: u", "user: v", 1))
	if again, err = Load(Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	if paths := waitingPaths(c, again); len(paths) != 1 || paths[0] != "kafka.sasl.user" {
		t.Errorf("another user needs a restart of %v, want kafka.sasl.user", paths)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := reread(); err == nil || !strings.Contains(err.Error(), "kafka.sasl.password: reference to a file: open "+file) {
		t.Errorf("without the file: %v", err)
	}
	shown, err := c.YAML()
	if err != nil || strings.Contains(string(shown), "pencil") || !strings.Contains(string(shown), "password: ${file:"+file+"}") {
		t.Errorf("config show: %v\n%s", err, shown)
	}
}
