package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/header"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/sink"
)

// Client makes one exchange; sinks/guard has one. It must follow no redirect and send nothing twice. Its errors are
// [sink.AttemptError]s that name no URL.
type Client interface {
	Do(req *http.Request) (*http.Response, error)
}

// FetcherConfig makes a [Fetcher]. A zero limit takes its default.
type FetcherConfig struct {
	// Source is "/<team>/<source>", for metrics.
	Source string
	Use    Use
	// URL is the template, see [ParseTemplate]. It is never shown.
	URL string
	// Headers are sent with every request.
	Headers map[string]schemas.Secret
	// PerSecond and Burst are the token bucket that all requests of the fetcher share; PerSecond 0 is no limit.
	PerSecond float64
	Burst     int
	// Timeout bounds one exchange, its answer included; default 10 s.
	Timeout time.Duration
	// MaxBytes bounds an answer, of all its pages together; default 8 MiB.
	MaxBytes int64
	// Retry bounds the exchanges of one request of a gap; a body is asked for once, because the lane tries again.
	// Defaults: 5 attempts within 1 minute, delays from 500 ms to what lets all of them fit (44 s).
	Retry sink.RetryPolicy
	// Client stays open: its maker closes it. Required.
	Client Client
	// ClassOf returns the failure class of an HTTP status, RetryAfter how long an answer asks to wait; both as for destinations.
	// Required.
	ClassOf    func(code int) sink.Class
	RetryAfter func(h http.Header, now time.Time) time.Duration
	// Agent is the User-Agent; default "Forebay".
	Agent string
	// Rand gives uniform numbers in [0, 1) for jitter; default math/rand/v2.
	Rand    func() float64
	Metrics *Metrics // nil counts nothing
}

func (c FetcherConfig) withDefaults() FetcherConfig {
	def(&c.Timeout, 10*time.Second)
	def(&c.MaxBytes, 8<<20)
	def(&c.Retry.Attempts, 5)
	def(&c.Retry.Within, time.Minute)
	def(&c.Retry.Min, 500*time.Millisecond)
	if c.Retry.Max == 0 {
		c.Retry.Max = c.Retry.LongestDelay()
	}
	def(&c.Agent, "Forebay")
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// def sets a field that is zero to its default.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate refuses what withDefaults leaves unusable: a missing function, or a negative limit. A zero is a default by now, or no limit.
func (c FetcherConfig) validate() error {
	switch {
	case c.Client == nil || c.ClassOf == nil || c.RetryAfter == nil:
		return errors.New("client, ClassOf and RetryAfter are needed")
	case c.PerSecond < 0 || c.Burst < 0 || c.Timeout < 0 || c.MaxBytes < 0:
		return errors.New("a limit is negative")
	case c.Retry.Attempts < 0 || c.Retry.Within < 0 || c.Retry.Min < 0 || c.Retry.Max < c.Retry.Min:
		return errors.New("retry: attempts, within and min must not be negative, nor max below min")
	}
	return nil
}

// Fetcher asks one API for one source. Safe for concurrent use.
type Fetcher struct {
	sink.Opaque
	cfg     FetcherConfig
	tpl     *Template
	headers http.Header
	limit   *limit
	metrics fetchMetrics
}

// NewFetcher compiles a fetcher without connecting. Errors are of kind invalid and show neither URL nor headers' values.
func NewFetcher(cfg FetcherConfig) (*Fetcher, error) {
	cfg = cfg.withDefaults()
	f := &Fetcher{Opaque: sink.Opaque("fetcher of " + cfg.Source), limit: newLimit(cfg.PerSecond, cfg.Burst), metrics: cfg.Metrics.fetcher(cfg.Source, cfg.Use)}
	err := cfg.validate()
	if err == nil {
		f.tpl, err = ParseTemplate(cfg.Use, cfg.URL)
	}
	if err == nil {
		f.headers, err = header.Compile(cfg.Headers, "Accept-Encoding", "Range") // refused: a packed answer or a part of one cannot be read
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "%w", err)
	}
	if f.headers["Accept"] == nil {
		f.headers.Set("Accept", "application/json")
	}
	if f.headers["User-Agent"] == nil { // GitHub, for one, refuses requests without it
		f.headers.Set("User-Agent", cfg.Agent)
	}
	cfg.URL, cfg.Headers = "", nil
	f.cfg = cfg
	return f, nil
}

// document is the body of an answer.
type document struct {
	body  []byte
	ctype string   // Content-Type
	next  *url.URL // the next page, nil if there is none
}

// fetch returns the answer to a request, of at most maxBytes. It makes one exchange after the other, each in its turn of the source's
// rate, until one succeeds, fails for good, or was the last of Retry.Attempts. None begins after the deadline: where the next turn, the
// delay or the server's Retry-After would end later, fetch returns the failure at once, as it does when ctx ends.
func (f *Fetcher) fetch(ctx context.Context, u *url.URL, maxBytes int64, deadline time.Time) (*document, *failure) {
	for n := 1; ; n++ {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, &failure{reason: Throttled, class: sink.ClassThrottled, err: errors.New("the time for the request was up before its turn came")}
		}
		switch wait, err := f.limit.take(ctx, left); {
		case err != nil:
			return nil, &failure{reason: Internal, class: sink.ClassBug, err: err}
		case wait > 0:
			return nil, &failure{reason: Throttled, class: sink.ClassThrottled, retryAfter: wait,
				err: fmt.Errorf("the next request may be made in %s, which is too late", wait.Round(time.Millisecond))}
		}
		d, fail := f.exchangeOnce(ctx, u, maxBytes)
		if fail == nil || !fail.class.Retried() || n >= f.cfg.Retry.Attempts {
			return d, fail
		}
		// A Retry-After is heeded to the deadline. Retry.Max does not bound it: its default goes by the number of attempts.
		wait := max(fail.retryAfter, sink.Delay(f.cfg.Retry, n, 0, time.Until(deadline), f.cfg.Rand()))
		if time.Until(deadline) < wait || retry.Sleep(ctx, wait) != nil {
			return nil, fail
		}
	}
}

var errTimeout = errors.New("no answer in time")

// exchangeOnce makes one exchange within the timeout and counts it. Where the API throttles, the whole source pauses.
func (f *Fetcher) exchangeOnce(ctx context.Context, u *url.URL, maxBytes int64) (*document, *failure) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, f.cfg.Timeout, errTimeout)
	defer cancel()
	d, fail := f.exchange(ctx, u, maxBytes)
	if fail != nil && errors.Is(context.Cause(ctx), errTimeout) && fail.class.Retried() {
		fail.class, fail.reason, fail.err = sink.ClassTimeout, Timeout, fmt.Errorf("no answer in %s", f.cfg.Timeout)
	}
	class := sink.ClassOK
	if fail != nil {
		class = fail.class
		if class == sink.ClassThrottled {
			f.limit.pause(fail.retryAfter)
		}
	}
	f.metrics.exchange(class, time.Since(began))
	return d, fail
}

// exchange sends a GET and reads the answer, of at most maxBytes.
func (f *Fetcher) exchange(ctx context.Context, u *url.URL, maxBytes int64) (*document, *failure) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "", nil)
	if err != nil {
		return nil, &failure{reason: Internal, class: sink.ClassBug, err: err}
	}
	req.URL, req.Host, req.Header = u, u.Host, f.headers.Clone()
	resp, err := f.cfg.Client.Do(req)
	if err != nil {
		return nil, failedExchange(err)
	}
	defer resp.Body.Close()
	if class, wait := f.classify(resp); class != sink.ClassOK {
		return nil, &failure{reason: reasonOf(class, resp.StatusCode), class: class, code: resp.StatusCode, retryAfter: wait,
			err: fmt.Errorf("the API answered %d%s", resp.StatusCode, hint(resp.StatusCode))}
	}
	d := &document{ctype: resp.Header.Get("Content-Type")}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, final(NotJSON, "the answer is encoded as %.20q, which was not asked for", coding)
	}
	if d.body, err = io.ReadAll(io.LimitReader(resp.Body, maxBytes+1)); err != nil {
		return nil, failedExchange(err)
	}
	if int64(len(d.body)) > maxBytes {
		return nil, final(TooLarge, "the answer is larger than allowed: more than %d bytes", maxBytes)
	}
	if d.next, err = nextPage(u, resp.Header); err != nil {
		return nil, final(BadPaging, "%w", err)
	}
	return d, nil
}

// failedExchange returns the failure of an exchange without a complete answer.
func failedExchange(err error) *failure {
	class := sink.ClassNetwork
	if e, ok := errors.AsType[*sink.AttemptError](err); ok {
		class, err = e.Class, e.Err
	}
	return &failure{reason: reasonOf(class, 0), class: class, err: err}
}

// hint is appended to an error about a status: what to do about it. Empty if there is nothing to say.
func hint(code int) string {
	switch {
	case 300 <= code && code <= 399:
		return "; redirects are not followed: put the address that it redirects to into the url"
	case code == 401 || code == 403:
		return "; look at the headers' credentials"
	case code == 404:
		return ": it does not exist, or the credentials may not see it"
	}
	return ""
}

// classify returns the class of an answer and how long the server wants us to wait. A 403 with the headers of a rate limit counts as
// throttled: GitHub answers so.
func (f *Fetcher) classify(resp *http.Response) (sink.Class, time.Duration) {
	class, now := f.cfg.ClassOf(resp.StatusCode), time.Now()
	wait := f.cfg.RetryAfter(resp.Header, now)
	spent := resp.Header.Get("X-RateLimit-Remaining") == "0"
	if resp.StatusCode == http.StatusForbidden && (spent || wait > 0) {
		class = sink.ClassThrottled
	}
	if class == sink.ClassThrottled && wait == 0 && spent {
		wait = untilReset(resp.Header.Get("X-RateLimit-Reset"), now)
	}
	return class, wait
}

// leastUnixTime is the smallest X-RateLimit-Reset that is taken for a Unix time, of 2001; a smaller one is a number of seconds.
// GitHub sends a Unix time, others seconds.
const leastUnixTime = 1_000_000_000

// untilReset returns how long a server wants us to wait by its X-RateLimit-Reset, which is a number of seconds or a Unix time; 0 if it
// is neither. Seconds are cut to maxHold so that they fit into a Duration. Callers bound what is returned: [limit.pause] by maxHold,
// fetch by its deadline.
func untilReset(text string, now time.Time) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 0:
		return 0
	case n >= leastUnixTime:
		return max(0, time.Unix(n, 0).Sub(now))
	}
	return time.Duration(min(n, int64(maxHold/time.Second))) * time.Second
}
