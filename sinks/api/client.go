// Package api makes the calls of sinks whose destination is an HTTP API that takes and gives JSON. It brings answers, and
// leaves what they mean to the sink.
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Client].
type Config struct {
	// Kind names the sink in errors and where it is printed: slack. Required.
	Kind string
	// BaseURL is what the paths of calls are put behind. Required.
	BaseURL string
	// Headers are sent with every call.
	Headers http.Header
	// Secrets are cut out of answers and errors.
	Secrets []schemas.Secret
	// AllowNetworks lists private networks that may be reached, and reached by plain http.
	AllowNetworks []netip.Prefix
	// MaxValue bounds a value that is read whole out of an answer, in bytes; default 512 KiB. An answer may be sixteen times as large.
	MaxValue int
	// Timeout bounds one call whatever its context says; default 30 s.
	Timeout time.Duration
	// Version is this binary's, for User-Agent; default "dev".
	Version string
	// Now is the clock that dates in Retry-After are seen from; default time.Now.
	Now func() time.Time
}

// Client calls one API. Safe for concurrent use.
type Client struct {
	sink.Opaque
	base    *url.URL
	headers http.Header
	guarded *guard.Client
	redact  *redact.Redactor
	most    int // bytes of a value
	now     func() time.Time
}

const (
	// manyValues is how many of the largest values an answer may have out of which a [Call.Read] takes what it wants: a page of comments of GitHub
	// or messages of Slack may be large.
	manyValues = 16
	// maxBody is how much of any other answer is read.
	maxBody = 64 << 10
)

// New makes a client without connecting. Errors are of kind invalid and show no secret.
func New(cfg Config) (*Client, error) {
	op := "make a " + cfg.Kind + " destination"
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, schemas.Errorf(schemas.Invalid, op, "base_url is not a URL without query and fragment")
	}
	if base.Path == "" {
		base.Path = "/" // or paths are joined to one that is not absolute
	}
	c := &Client{Opaque: sink.Opaque(cfg.Kind + " destination"), base: base, headers: cfg.Headers.Clone(), now: cfg.Now, most: cmp.Or(cfg.MaxValue, maxValue), redact: redact.New(append(redact.Words(cfg.Secrets...), redact.URL(base)...)...)}
	if c.now == nil {
		c.now = time.Now
	}
	if c.headers == nil {
		c.headers = http.Header{}
	}
	c.headers.Set("User-Agent", "Forebay/"+cmp.Or(cfg.Version, "dev"))
	if c.guarded, err = guard.New(guard.Config{
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, MaxResponse: manyValues * int64(c.most),
	}); err != nil {
		return nil, err
	}
	if err := c.guarded.CheckURL(base); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "base_url: %w", err)
	}
	return c, nil
}

// Call is one call of the API.
type Call struct {
	Method string
	// Path is put behind the base, each segment encoded, so that none can lead elsewhere. A segment that is empty, . or ..
	// is refused.
	Path  []string
	Query url.Values
	Body  any              // as JSON; nil: none
	Key   schemas.ActionID // Idempotency-Key of a call that acts; empty for one that only asks
	// Read takes what it wants out of an answer with a status of success; nil: the first 64 KiB are [Answer.Body].
	Read func(l *List) error
}

// Answer is what came back.
type Answer struct {
	Code   int
	Header http.Header
	// Redirect says where an answer that is a redirect leads, see [guard.Location]; the sink puts it behind the status.
	Redirect string
	Body     []byte // nil where [Call.Read] has read it
	// Broken says why it was not read to its end: a [sink.AttemptError], [guard.ErrTooLarge], or what [Call.Read] said.
	Broken error
	// Ahead is by how much the API's clock is ahead of ours, where that is more than a minute; below zero: it is behind.
	Ahead time.Duration
	// Outcome is to be recorded.
	Outcome sink.Outcome
}

// Do makes one call, whatever status it ends with. The error is a [sink.AttemptError]: there was no answer, or the call
// could not be made.
func (c *Client) Do(ctx context.Context, call Call) (Answer, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.guarded.Do(req)
	if err != nil {
		return Answer{}, c.redact.Err(err)
	}
	defer resp.Body.Close()
	a := Answer{Code: resp.StatusCode, Header: resp.Header, Redirect: guard.Location(resp), Ahead: ahead(resp.Header, c.now())}
	body := &window{from: resp.Body, left: maxBody, keep: c.redact.Limit()}
	if call.Read != nil && sink.ClassOfStatus(resp.StatusCode) == sink.ClassOK {
		a.Broken = call.Read(newList(body, c.most))
		body.left = redact.Drain
		_, _ = io.Copy(io.Discard, body)
	} else {
		a.Body, a.Broken = io.ReadAll(body)
	}
	a.Outcome = sink.Outcome{
		Code: resp.StatusCode, Response: c.redact.Head(body.head), RetryAfter: guard.RetryAfter(resp.Header, c.now()),
	}
	return a, nil
}

// ahead returns by how much the clock of an answer's Date (RFC 9110, section 6.6.1) is ahead of now; 0 where it has none, or the way of the answer
// and whole seconds may be all of it.
func ahead(h http.Header, now time.Time) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if by := date.Sub(now); err == nil && by.Abs() > time.Minute {
		return by
	}
	return 0
}

// Answer implements [sink.Answerer].
func (c *Client) Answer() int { return maxBody }

// request returns the HTTP request of a call, which is not sent yet.
func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	for _, segment := range call.Path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, Unmade("a value is empty, or leads elsewhere, where a part of the path is wanted")
		}
	}
	target := *c.base.JoinPath(escaped(call.Path)...)
	target.RawQuery = call.Query.Encode()
	var body io.Reader
	if call.Body != nil {
		text, err := json.Marshal(call.Body)
		if err != nil {
			return nil, Unmade("what is to be sent cannot be written as JSON")
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, "", body)
	if err != nil {
		return nil, &sink.AttemptError{Class: sink.ClassBug, Err: err, Untouched: true}
	}
	req.URL, req.Host, req.Header = &target, target.Host, c.headers.Clone()
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if call.Key != "" {
		req.Header.Set("Idempotency-Key", string(call.Key))
	}
	return req, nil
}

func escaped(segments []string) []string {
	list := make([]string, len(segments))
	for i, s := range segments {
		list[i] = url.PathEscape(s)
	}
	return list
}

// Unmade is an attempt that could not be made of what the templates gave; why quotes nothing of it.
func Unmade(why string) error {
	return &sink.AttemptError{Class: sink.ClassTemplate, Err: errors.New(why), Untouched: true}
}

// Failed is an attempt that the API answered, with the class that the sink reads out of the answer and what it says.
func (c *Client) Failed(class sink.Class, format string, args ...any) error {
	return c.redact.Err(&sink.AttemptError{Class: class, Err: fmt.Errorf(format, args...)})
}

// CheckJSON returns an error if an answer has a body that does not begin as JSON does, such as the login page of a proxy: it is not the API's.
func (c *Client) CheckJSON(what string, a Answer) error {
	if text := bytes.TrimLeft(a.Body, " \t\r\n"); len(text) == 0 || text[0] == '{' || text[0] == '[' {
		return nil
	}
	return c.Failed(sink.ClassBusy, "%s answered %d with something that is not JSON", what, a.Code)
}

// LimitWait is how long a destination waits that has reached a limit and is not told for how long: these APIs count by the minute.
const LimitWait = time.Minute

// Ended returns what is recorded of an answer that means err: a limit holds the destination, for [LimitWait] where it does not say how long.
func Ended(a Answer, err error) (sink.Outcome, error) {
	out := a.Outcome
	if sink.ClassOf(err) == sink.ClassThrottled && out.RetryAfter == 0 {
		out.RetryAfter = LimitWait
	}
	return out, err
}

// CheckWhole returns an error if an answer's body is not complete; what names the answer in it.
func (c *Client) CheckWhole(what string, a Answer) error {
	if a.Broken == nil {
		return nil
	}
	class, err := sink.ClassBusy, a.Broken // ErrTooLarge: retried, since a later answer may be shorter
	if e, ok := errors.AsType[*sink.AttemptError](err); ok {
		class, err = e.Class, e.Err
	}
	return c.Failed(class, "%s: the answer cannot be read to its end: %w", what, err)
}

// Untouched marks an attempt's error: nothing was done, because the attempt failed before the call that acts.
func Untouched(err error) error {
	untouched := sink.AttemptError{Class: sink.ClassBug, Err: err, Untouched: true}
	if e, ok := errors.AsType[*sink.AttemptError](err); ok {
		untouched.Class, untouched.Err = e.Class, e.Err
	}
	return &untouched
}

// Check reports whether the API's address is allowed and accepts connections.
func (c *Client) Check(ctx context.Context) error { return c.redact.Err(c.guarded.Reach(ctx, c.base)) }

// Where implements [sink.Located].
func (c *Client) Where() string { return c.redact.Text(guard.Plain(c.base)) }

// Close closes idle connections.
func (c *Client) Close(context.Context) error {
	c.guarded.Close()
	return nil
}
