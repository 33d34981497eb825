package config

import (
	"net/url"
	"strings"
)

// minSecret is the least length in bytes of a secret that tokens are made with.
const minSecret = 32

// agents checks what the listener for agents needs: its address, secrets and public URL.
func (ck *checker) agents() {
	a := ck.c.Agents
	if address := ck.c.Listen.Agents; address != "" && !ck.unresolved("listen.agents") {
		ck.address("listen.agents", address)
	}
	if len(a.Secrets) == 0 && (ck.listensAgents() || a.PublicURL != "") && !ck.unresolved("agents.secrets") && ck.options.uses("agents.secrets[0]") {
		ck.problem("agents.secrets", "is missing: tokens are made with it. `openssl rand -hex 32` makes one")
	}
	for i, s := range a.Secrets {
		if path := "agents.secrets[" + itoa(i) + "]"; !ck.unresolved(path) && len(s.Reveal()) < minSecret {
			ck.problem(path, "is shorter than %d characters. `openssl rand -hex 32` makes one", minSecret)
		}
	}
	if a.PublicURL == "" || ck.unresolved("agents.public_url") {
		return
	}
	if u, err := url.Parse(a.PublicURL); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		(u.Scheme != "http" && u.Scheme != "https") || strings.HasSuffix(a.PublicURL, "/") {
		ck.problem("agents.public_url", "is not a URL such as https://agents.example.com, without a slash at its end")
	}
	if !ck.listensAgents() {
		ck.problem("agents.public_url", "leads nowhere: listen.agents is not set")
	}
}

// listensAgents reports whether listen.agents is set. A reference that this process does not resolve counts as set.
func (ck *checker) listensAgents() bool {
	return ck.c.Listen.Agents != "" || ck.unresolved("listen.agents")
}
