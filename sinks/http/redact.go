package httpsink

import (
	"net/url"
	"strings"

	"github.com/forebay-io/forebay/sinks/redact"
)

// redactor knows what is secret in a destination's configuration: keys, static headers, what its URL has of them, and whatever
// a reference of the file led to.
func redactor(cfg Config, target *url.URL) *redact.Redactor {
	secrets := append(redact.Words(cfg.Hidden...), cfg.Secret.Reveal(), strings.TrimPrefix(cfg.Secret.Reveal(), "whsec_"))
	for _, s := range cfg.Headers {
		secrets = append(secrets, redact.Words(s)...)
	}
	return redact.New(append(secrets, redact.URL(target)...)...)
}
