package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// Requests of one token, and of one address that has none which opens: so many a second on the average, and so many at once. The command
// line asks one by one, and waits where it is told to.
const (
	asksEvery     = 50
	asksAtOnce    = 200
	strangersEach = 5
	strangersMost = 50
)

// rates bound what each caller asks, where callers are told apart.
type rates struct{ known, strangers *access.Rates }

func newRates() rates {
	return rates{access.NewRates(asksEvery, asksAtOnce), access.NewRates(strangersEach, strangersMost)}
}

// tooOften is the error of a caller who is to wait. The API answers 429, with Retry-After.
type tooOften struct {
	who  string
	wait time.Duration
}

func (e *tooOften) Error() string {
	return fmt.Sprintf("too many requests by %s: try again in %d s", e.who, e.seconds())
}

// Unwrap returns an error of the kind that package schemas has for it.
func (e *tooOften) Unwrap() error { return schemas.Errorf(schemas.Throttled, "", "%s", e.Error()) }

// seconds is how long to wait, rounded up.
func (e *tooOften) seconds() int { return max(1, int(math.Ceil(e.wait.Seconds()))) }

// counted returns an error if who has sent a request asks too often. asks is nil where failed says why nobody knows who that is.
func (s *server) counted(r *http.Request, asks *access.Who, failed error) error {
	if _, inside := r.Context().Value(whoKey{}).(*access.Who); inside || s.Access == nil {
		return nil
	}
	if failed == nil {
		if wait := s.rates.known.Take(asks.Name); wait > 0 {
			return &tooOften{asks.String(), wait}
		}
		return nil
	}
	if schemas.KindOf(failed) != schemas.Unauthenticated {
		return nil
	}
	address := s.address(r)
	if wait := s.rates.strangers.Take(address); wait > 0 {
		return &tooOften{"address " + address, wait}
	}
	return nil
}

// address returns whom a request counts for that has no token.
func (s *server) address(r *http.Request) string {
	if s.Access.Address != nil {
		return s.Access.Address(r)
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// sayWhen tells a caller who asks too often when to ask again.
func sayWhen(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*tooOften](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(e.seconds()))
	}
}

// Waits of a client that asks too often: it is told for how long, and waits so often for one answer.
const (
	mostWaits   = 20
	longestWait = 10 * time.Second
)

// askAgain waits as long as an answer says, or until ctx ends, and reports whether the request, whose answer that is, can be sent again then.
func askAgain(ctx context.Context, req *http.Request, resp *http.Response) bool {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	if resp.StatusCode != http.StatusTooManyRequests || err != nil || wait <= 0 || wait > longestWait || req.Body != nil && req.GetBody == nil {
		return false
	}
	next := time.NewTimer(wait)
	defer next.Stop()
	select {
	case <-next.C:
	case <-ctx.Done(): // which sending it again says
	}
	if req.GetBody != nil {
		req.Body, err = req.GetBody()
	}
	return err == nil
}
