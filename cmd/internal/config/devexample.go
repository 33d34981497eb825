package config

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/sinks/spec"
)

// devText is the file of `config init --dev`: one source and one destination, with secrets of its own.
const devText = `# forebay dev -c FILE takes this as it is. The secrets are new: keep the file to yourself.
version: 1
kafka: {embedded: true}                    # forebay dev brings both
postgres: {embedded: true}
listen:
  intake: 127.0.0.1:8080
  operator: 127.0.0.1:9090                 # the console
topics: {partitions: 3, replication: 1, retention: 7d}
teams:
  acme:
    sources:
      %[1]s:    # http://127.0.0.1:8080/v1/in/acme/%[1]s is the webhook URL, application/json its content type
        preset: %[1]s
        # for the provider's page; where the provider makes it, put that one here
        secrets: [%[2]s]
%[6]s    destinations:
      agent:
        type: http
        url: %[3]s
        # signs the calls: the agent's SECRET (sinks/http/AGENTS.md)
        secret: %[4]s
        timeout: 10s
%[5]s    subscriptions:
      run:
        sources: [%[1]s]
        begin: all
        actions: [{name: run, to: agent}]
`

// DevExample returns a file that `forebay dev -c` takes as it is: a source of a preset, and all of its events to a URL.
func DevExample(preset, to string) ([]byte, error) {
	info, ok := provider.Lookup(preset)
	if !ok || info.ID == "" {
		return nil, fmt.Errorf("preset %q knows no events of its own; `forebay sources presets` lists presets, and `forebay config init` has a source with a mapping", preset)
	}
	u, err := url.Parse(to)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the URL is not one of http or https, such as http://127.0.0.1:8000/run")
	}
	allow := ""
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && spec.CheckReach(u, nil) != nil {
		allow = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()).String()
	} else if u.Hostname() == "localhost" {
		allow = `127.0.0.0/8", "::1/128`
	}
	if allow != "" {
		allow = `        allow_networks: ["` + allow + "\"]\n"
	} else if u.Scheme == "http" {
		return nil, errors.New("plain http is for addresses, such as http://127.0.0.1:8000/run: a name may lead anywhere")
	}
	public := ""
	if (provider.Config{Preset: preset}).SignsURL() {
		public = fmt.Sprintf("        public_url: http://127.0.0.1:8080/v1/in/acme/%s    # as the provider knows it: it is signed\n", preset)
	}
	secret, signing := make([]byte, 20), make([]byte, 32) // Lemon Squeezy takes 40 characters at most
	_, _ = rand.Read(secret)                              // never fails
	_, _ = rand.Read(signing)
	text := hex.EncodeToString(secret)
	switch info.Scheme {
	case verify.SchemeEd25519, verify.SchemeSendGrid: // a private key, which can sign samples
		text = verify.ExampleSecret(info.Scheme).Reveal()
	case verify.SchemeJWT:
		text = "pusher@my-project.iam.gserviceaccount.com"
	case verify.SchemeAgentKey:
		text = "planner:" + verify.AgentKeyPrefix + text
	case verify.SchemeSNS:
		text = "arn:aws:sns:us-east-1:123456789012:orders"
	}
	return fmt.Appendf(nil, devText, preset, text, strconv.Quote(strings.ReplaceAll(to, "${", "$${")),
		`"whsec_`+base64.StdEncoding.EncodeToString(signing)+`"`, allow, public), nil
}
