package lane

import (
	"errors"
	"time"

	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// errLimited is why no attempt was made.
var errLimited = errors.New("the destination's rate is used up")

// limit ends a head that found no token at a destination where that makes nobody wait: it is dropped, or counts as an
// attempt that failed. The destination is not called.
func (l *Lanes) limit(e *entry, d *destination) {
	if d.user.OnLimit() == shared.Drop {
		d.metrics.attempts[sink.ClassDropped].Inc()
		res := ledger.Result{Status: ledger.Dead, Class: string(sink.ClassDropped), Error: clean(errLimited)}
		l.line(e, &res)
		l.finish(e, d, res, nil)
		return
	}
	l.finish(e, d, l.judged(e, d, sink.Idempotent, time.Now(), sink.Outcome{}, sink.ClassThrottled, errLimited), nil)
}
