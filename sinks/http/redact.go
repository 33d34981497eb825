package httpsink

import (
	"net/url"
	"strings"

	"github.com/forebay-io/forebay/sinks/redact"
)

// redactor knows what is secret in a destination's configuration: keys, static headers, and in its URL the query and
// what is long in the path.
func redactor(cfg Config, target *url.URL) *redact.Redactor {
	secrets := []string{cfg.Secret.Reveal(), strings.TrimPrefix(cfg.Secret.Reveal(), "whsec_")}
	for _, s := range cfg.Headers {
		secrets = append(secrets, redact.Words(s)...)
	}
	for segment := range strings.SplitSeq(target.Path, "/") { // chat services put the token into the path
		if len(segment) >= 16 {
			secrets = append(secrets, segment)
		}
	}
	return redact.New(append(secrets, redact.Query(target)...)...)
}
