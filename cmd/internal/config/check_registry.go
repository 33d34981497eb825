package config

import (
	"net/url"
	"strings"
)

// registry checks where the schema registry is, and who asks it.
func (ck *checker) registry() {
	r := ck.c.Registry
	if r == nil || !ck.options.uses("registry.url") {
		return
	}
	u, err := url.Parse(r.URL)
	known := !ck.unresolved("registry.url") && r.URL != ""
	switch {
	case !known:
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		ck.problem("registry.url", "is not a URL such as https://registry.internal:8081")
		known = false
	case u.User != nil:
		ck.problem("registry.url", "has a user or a password in it, which logs would show: write registry.user and registry.password")
		known = false
	}
	switch {
	case r.User != "" && !ck.written("registry.password"):
		ck.problem("registry.user", "goes with password, which is missing")
	case !ck.written("registry.user") && ck.written("registry.password"):
		ck.problem("registry.password", "goes with user, which is missing")
	case known && r.User != "" && u.Scheme == "http" && !loopback(u.Hostname()):
		ck.problem("registry.url", "http shows the password to whoever listens on the way: take the https address of the registry")
	}
	switch {
	case r.TLS == nil || !r.TLS.Enabled || ck.unresolvedBelow("registry.tls"):
	case known && u.Scheme == "http":
		ck.problem("registry.tls", "has no meaning for a url that begins with http: write https, or leave it out")
	default:
		ck.filesTLS("registry.tls", r.TLS)
	}
}

// RegistryFound returns the section registry with paths that lead to its files from here; nil if there is none.
func (c *Config) RegistryFound() *Registry {
	if c.Registry == nil {
		return nil
	}
	found := *c.Registry
	found.URL = strings.TrimSuffix(found.URL, "/")
	if found.TLS != nil {
		found.TLS = c.found(found.TLS)
	}
	return &found
}
