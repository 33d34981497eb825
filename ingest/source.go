package ingest

import (
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/drift"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
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
	// TeamLimiter does so for all sources of the team, which have the same one.
	TeamLimiter *rate.Limiter
	// Keys counts what the secrets verify; nil counts nothing. A source whose secrets stay keeps its Keys.
	Keys *Keys
	// Refused keeps what is refused; nil keeps nothing. A source whose limits stay keeps its Refused.
	Refused *Refused
	// Used is what its Verifier was made with. A source keeps it, whatever of it changes.
	Used *verify.Used
	// Fields notices when the bodies of accepted events change their shape; nil looks at nothing.
	Fields *drift.Source

	counted atomic.Pointer[counted]

	// mapping replaces the provider's in tests.
	mapping mapping
}

// mapping is what intake needs of a [provider.Source] once the signature is verified.
type mapping interface {
	Challenge(r *verify.Request) (*provider.Answer, bool)
	// Confirm does what a handshake wants beside its answer.
	Confirm(r *verify.Request) error
	// Asks says whether the provider's handshakes come with a method beside POST, and whether those are verified.
	Asks(method string) (verified, asks bool)
	// Several says that a delivery has a list of events, which Split returns; Read then reads one of its elements.
	Several() bool
	Split(r *verify.Request) ([]verify.Request, error)
	Read(r *verify.Request, received time.Time, e *schemas.Event) error
	// CheckSchema holds the event's body against its schema, where the source wants that.
	CheckSchema(e *schemas.Event) (verdict jsonschema.Verdict, why string, err error)
	// SecretHeaders returns the headers that contain a secret itself, not a signature made with it.
	SecretHeaders() []string
	// Accepted returns the provider's own form of answer to a durable delivery; nil: the usual one.
	Accepted(r *verify.Request) *provider.Answer
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
