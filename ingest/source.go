package ingest

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Source is a configured source as intake serves it. Safe for concurrent use; immutable.
type Source struct {
	*provider.Source
	// Topic and QuarantineTopic are events.<team>.<source> and quarantine.<team>.<source>; required.
	Topic, QuarantineTopic string
	// Limiter bounds authentic deliveries; nil means no limit. Forged ones do not use it up, and so do not show by
	// its exhaustion that the source exists. A source whose configuration changes keeps its Limiter, and so its limit.
	Limiter *rate.Limiter

	counted atomic.Pointer[counted]

	// mapping replaces the provider's in tests.
	mapping mapping
}

// mapping is what intake needs of a [provider.Source] behind the signature.
type mapping interface {
	Challenge(r *verify.Request) (*provider.Answer, bool)
	Read(r *verify.Request, received time.Time, e *schemas.Event) error
	// SecretHeaders are those that carry a secret itself instead of proving one.
	SecretHeaders() []string
	// Proof is what a later verification reads.
	Proof() verify.Proof
}

var _ mapping = (*provider.Source)(nil)

func (s *Source) mapper() mapping {
	if s.mapping != nil {
		return s.mapping
	}
	return s.Source
}

// patience is how long intake may take: short of the provider's deadline by a fifth, at most a second, so that the
// answer is there in time.
func (s *Source) patience() time.Duration {
	deadline := s.Deadline
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	return deadline - min(deadline/5, time.Second)
}
