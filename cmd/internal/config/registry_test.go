package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const registryFile = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://127.0.0.1/x"}
`

// What cannot be a registry, or would show its password, is refused with what to write instead.
func TestRegistryIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ registry, want string }{
		"plain":            {`{url: "http://registry:8081"}`, ""},
		"a password":       {`{url: "https://registry.internal:8081/base/", user: u, password: p}`, ""},
		"of this machine":  {`{url: "http://127.0.0.1:8081", user: u, password: p}`, ""},
		"certificates":     {`{url: "https://registry:8081", tls: {server_name: r.internal}}`, ""},
		"no url":           {`{user: u, password: p}`, "registry: url is missing"},
		"an address":       {`{url: "registry:8081"}`, "registry.url: is not a URL such as https://registry.internal:8081"},
		"a query":          {`{url: "http://registry:8081?x=y"}`, "registry.url: is not a URL"},
		"a user in it":     {`{url: "https://u:p4ssw0rd@registry:8081"}`, "registry.url: has a user or a password in it"},
		"no password":      {`{url: "https://registry:8081", user: u}`, "registry.user: goes with password"},
		"no user":          {`{url: "https://registry:8081", password: p}`, "registry.password: goes with user"},
		"in the clear":     {`{url: "http://registry:8081", user: u, password: p}`, "registry.url: http shows the password"},
		"tls in the clear": {`{url: "http://registry:8081", tls: {ca_file: ca.pem}}`, "registry.tls: has no meaning for a url that begins with http"},
		"no authority":     {`{url: "https://registry:8081", tls: {ca_file: nothere.pem}}`, "registry.tls.ca_file: open DIR/nothere.pem"},
		"half a pair":      {`{url: "https://registry:8081", tls: {cert_file: c.pem}}`, "registry.tls.cert_file: goes with key_file"},
		"the other half":   {`{url: "https://registry:8081", tls: {key_file: c.pem}}`, "registry.tls.key_file: goes with cert_file"},
		"no pair":          {`{url: "https://registry:8081", tls: {cert_file: c.pem, key_file: c.pem}}`, "registry.tls.cert_file: certificate and key cannot be used"},
		"a list":           {`{urls: ["http://registry:8081"]}`, "registry.urls: unknown key; did you mean url?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "forebay.yaml")
			if err := os.WriteFile(path, []byte(registryFile+"registry: "+tt.registry+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(Options{Path: path, Look: true})
			want := strings.ReplaceAll(tt.want, "DIR", filepath.Dir(path))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "p4ssw0rd") {
				t.Errorf("the password is shown: %v", err)
			}
		})
	}
}

// Only who asks the registry needs its password; another one is no reason for a restart; and its files lie beside the file.
func TestRegistryIsReadByWhoAsksIt(t *testing.T) {
	t.Parallel()
	text := registryFile + "registry: {url: \"https://registry:8081/\", user: u, password: \"${env:REGISTRY}\", tls: {server_name: r}}\n"
	with := func(value string) Options {
		return Options{Path: "/etc/forebay/forebay.yaml", Data: []byte(text), Lookup: func(name string) (string, bool) { return value, name == "REGISTRY" && value != "" }}
	}
	for _, role := range []Role{RoleStream, RoleTopics, RoleMigrate, RoleSend, RoleACLs} {
		o := with("")
		o.Roles = []Role{role}
		if _, err := Load(o); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	for _, role := range []Role{RoleIntake, RoleSchemas} {
		o := with("")
		o.Roles = []Role{role}
		if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "registry.password: environment variable REGISTRY is not set") {
			t.Errorf("%s: %v", role, err)
		}
	}
	one, err := Load(with("one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Load(with("two"))
	if err != nil {
		t.Fatal(err)
	}
	if paths := waitingPaths(one, two); len(paths) > 0 {
		t.Errorf("%v need a restart", paths)
	}
	one.Registry.TLS.CAFile = "ca.pem"
	if found := one.RegistryFound(); found.URL != "https://registry:8081" || found.TLS.CAFile != "/etc/forebay/ca.pem" || found.TLS.ServerName != "r" || one.Registry.TLS.CAFile != "ca.pem" || found.Password.Reveal() != "one" {
		t.Errorf("%+v", found)
	}
}
