package ingest

import (
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Source is a configured source. Safe for concurrent use; immutable.
type Source struct {
	*provider.Source
	// Topic and QuarantineTopic are events.<team>.<source> and quarantine.<team>.<source>; required.
	Topic, QuarantineTopic string
	// PublicURL is the URL that the provider calls, without its query; required where the signature covers the URL. It is never taken
	// from a request: Host is the sender's word, and behind a proxy that ends TLS it is another URL.
	PublicURL string
	// Limiter bounds authentic deliveries; nil means no limit. Forged ones do not count, so that a forger cannot find out by the limit
	// that the source exists. A source whose configuration changes keeps its Limiter.
	Limiter *rate.Limiter

	counted atomic.Pointer[counted]

	// mapping replaces the provider's in tests.
	mapping mapping
}

// mapping is what intake needs of a [provider.Source] once the signature is verified.
type mapping interface {
	Challenge(r *verify.Request) (*provider.Answer, bool)
	Read(r *verify.Request, received time.Time, e *schemas.Event) error
	// SecretHeaders returns the headers that contain a secret itself, not a signature made with it.
	SecretHeaders() []string
	// Proof returns which parts of the request a later verification needs.
	Proof() verify.Proof
}

var _ mapping = (*provider.Source)(nil)

// calledURL returns the URL that the provider called, with the query of the request; empty where it is not known.
func (s *Source) calledURL(called *url.URL) string {
	if s.PublicURL == "" || called.RawQuery == "" && !called.ForceQuery {
		return s.PublicURL
	}
	return s.PublicURL + "?" + called.RawQuery
}

func (s *Source) mapper() mapping {
	if s.mapping != nil {
		return s.mapping
	}
	return s.Source
}

// patience returns how long a delivery may take: the provider's deadline minus a fifth of it, at most a second, so that the answer
// arrives in time.
func (s *Source) patience() time.Duration {
	deadline := s.Deadline
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	return deadline - min(deadline/5, time.Second)
}
