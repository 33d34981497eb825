package lane

import (
	"errors"
	"time"

	"github.com/forebay-io/forebay/stream"
	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// errLimited is why no attempt was made.
var errLimited = errors.New("the destination's rate is used up")

// limit ends a head that found no token at a destination where that makes nobody wait: it is dropped, or counts as an
// attempt that failed. The destination is not called.
func (l *Lanes) limit(e *entry, d *destination) {
	if d.user.OnLimit() == shared.Drop {
		d.metrics.attempts[stream.ClassDropped].Inc()
		res := ledger.Result{Status: ledger.Dead, Class: string(stream.ClassDropped), Error: clean(errLimited)}
		l.line(e, &res)
		l.finish(e, d, res, nil)
		return
	}
	l.finish(e, d, l.judged(e, d, stream.Idempotent, time.Now(), stream.Outcome{}, stream.ClassThrottled, errLimited), nil)
}
