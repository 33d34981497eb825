package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Client asks an operator listener. Safe for concurrent use.
type Client struct {
	base  string
	token string // empty: none is sent
	http  *http.Client
}

// NewClient makes a client of the listener at base, for example http://127.0.0.1:9090. It does not connect yet.
func NewClient(base string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, &AskedError{fmt.Sprintf("%q is not a URL such as http://127.0.0.1:9090", base)}
	}
	follow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a listener leads nowhere else, and a token is for it alone
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Timeout: 30 * time.Second, CheckRedirect: follow}}, nil
}

// WithToken returns a client that asks with a token. The token is sent over TLS or on this machine alone.
func (c *Client) WithToken(token string) (*Client, error) {
	u, err := url.Parse(c.base)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback(); token != "" && u.Scheme != "https" && !local {
		return nil, schemas.Errorf(schemas.Invalid, "", "a token is not sent to %s, where whoever listens on the way could read it: use https", c.base)
	}
	with := *c
	with.token = token
	return &with, nil
}

// WithCertificate returns a client that takes the certificate of a PEM file and no other, whatever its names and whoever signed it: for a process
// that asks its own listener. The file is read for every connection.
func (c *Client) WithCertificate(file string) *Client {
	with, asking := *c, *c.http
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection takes one certificate alone
		VerifyConnection: func(state tls.ConnectionState) error {
			text, err := os.ReadFile(file)
			if block, _ := pem.Decode(text); err == nil && (block == nil || len(state.PeerCertificates) == 0 || !bytes.Equal(block.Bytes, state.PeerCertificates[0].Raw)) {
				err = schemas.Errorf(schemas.Unauthenticated, "", "%s shows another certificate than %s has", c.base, file)
			}
			return err
		}}
	asking.Transport = transport
	with.http = &asking
	return &with
}

// maxAnswer is the most bytes that are read of one answer: a body of 100 MiB, the largest that the configuration allows, and room
// for the rest of the answer.
const maxAnswer = 128 << 20

// get returns the body and the headers of the answer to a GET.
func (c *Client) get(ctx context.Context, path string, query url.Values) ([]byte, http.Header, error) {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	return c.send(req, false)
}

// unanswered is the error of a request for a change that was sent and has no answer: what it asks for may be done.
type unanswered struct{ error }

func (e *unanswered) Error() string {
	return e.error.Error() + "; the request was sent and has no answer: perhaps it is done, so look before you ask again"
}

func (e *unanswered) Unwrap() error { return e.error }

// Unanswered reports whether err is of a request for a change that was sent and has no answer: what it asks for may be done.
func Unanswered(err error) bool {
	_, ok := errors.AsType[*unanswered](err)
	return ok
}

// send sends a request and returns the body and the headers of its answer. An answer other than 200 is an error; where it says that the client
// asks too often, the client waits. changes: the request asks for a change.
func (c *Client) send(req *http.Request, changes bool) ([]byte, http.Header, error) {
	var sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	none := func(format string, args ...any) error {
		err := schemas.Errorf(schemas.Unavailable, "ask "+c.base, format, args...)
		if changes && sent.Load() {
			return &unanswered{err}
		}
		return err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	for n := 0; err == nil && n < mostWaits && askAgain(req.Context(), req, resp); n++ {
		resp.Body.Close()
		sent.Store(false) // that was answered: nothing is done
		resp, err = c.http.Do(req)
	}
	if ended := context.Cause(req.Context()); err != nil && ended != nil {
		return nil, nil, none("%w", ended) // says nothing of who is asked
	}
	if err != nil {
		return nil, nil, none("%w; is `forebay dev` or `forebay serve` running there? --url or FOREBAY_URL names another address", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, nil, none("%w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, c.problem(resp, body)
	}
	return body, resp.Header, nil
}

// AskedError says that the request itself is invalid, not its target. It is of kind Invalid.
type AskedError struct{ detail string }

func (e *AskedError) Error() string { return e.Unwrap().Error() }

func (e *AskedError) Unwrap() error { return schemas.Errorf(schemas.Invalid, "", "%s", e.detail) }

// problem returns the error that an answer other than 200 stands for. If the body is a problem, that is an error of the problem's
// kind with its text; else, something other than an operator listener has answered.
func (c *Client) problem(resp *http.Response, body []byte) error {
	var p Problem
	contentType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if contentType != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return schemas.Errorf(schemas.Internal, "ask "+c.base, "answered %s: is it a Forebay operator listener?", resp.Status)
	}
	if p.Kind == kindForbidden {
		return &forbidden{p.Detail}
	}
	if kind := schemas.Kind(p.Kind); kind == schemas.Invalid {
		return &AskedError{p.Detail}
	} else if slices.Contains(schemas.Kinds(), kind) {
		return schemas.Errorf(kind, "", "%s", p.Detail)
	}
	return schemas.Errorf(schemas.Internal, "ask "+c.base, "%s", p.Detail)
}

// getJSON makes a GET and decodes the answer as a T.
func getJSON[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	body, _, err := c.get(ctx, path, query)
	return answer[T](c, body, err)
}

// postJSON posts request as JSON and decodes the answer as a T.
func postJSON[T any](ctx context.Context, c *Client, path string, request any) (T, error) {
	var none T
	text, err := json.Marshal(request)
	if err != nil {
		return none, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return none, err
	}
	req.Header.Set("Content-Type", "application/json")
	var asks struct {
		DryRun bool `json:"dry_run"`
	}
	if err := json.Unmarshal(text, &asks); err != nil {
		return none, err
	}
	body, _, err := c.send(req, !asks.DryRun)
	return answer[T](c, body, err)
}

// answer decodes a body as a T, unless the request has failed with err.
func answer[T any](c *Client, body []byte, err error) (T, error) {
	var v T
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, schemas.Errorf(schemas.Internal, "ask "+c.base, "answer is not what was expected: %w", err)
	}
	return v, nil
}

// query makes the parameters of a list. Filters that are empty, a limit of 0 and a zero since are left out.
func query(limit int, since time.Time, filters map[string]string) url.Values {
	q := url.Values{}
	for name, value := range filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339))
	}
	return q
}

// Items lists events.
func (c *Client) Items(ctx context.Context, f InboxFilter) (Page[InboxItem], error) {
	return getJSON[Page[InboxItem]](ctx, c, "/v1/inbox", query(f.Limit, f.Since, map[string]string{"team": f.Team, "subscription": f.Subscription, "source": f.Source,
		"entity": string(f.Entity), "type": f.Type, "status": f.Status, "decision": string(f.Decision), "delivery": f.Delivery, "cursor": f.Cursor}))
}

func itemPath(team, subscription, source, eventID string) string {
	return fmt.Sprintf("/v1/inbox/%s/%s/%s/%s", url.PathEscape(team), url.PathEscape(subscription), url.PathEscape(source), url.PathEscape(eventID))
}

// Item returns one event with its actions and attempts.
func (c *Client) Item(ctx context.Context, team, subscription, source, eventID string) (*InboxDetail, error) {
	return getJSON[*InboxDetail](ctx, c, itemPath(team, subscription, source, eventID), nil)
}

// Raw returns an event's body, byte for byte.
func (c *Client) Raw(ctx context.Context, team, subscription, source, eventID string) (*Raw, error) {
	body, header, err := c.get(ctx, itemPath(team, subscription, source, eventID)+"/raw", nil)
	if err != nil {
		return nil, err
	}
	return &Raw{ContentType: header.Get("Forebay-Content-Type"), Data: body}, nil
}

// Record returns an event's record in the log, with so many bytes of its body at most.
func (c *Client) Record(ctx context.Context, team, subscription, source, eventID string, most int) (*InboxRecord, error) {
	return getJSON[*InboxRecord](ctx, c, itemPath(team, subscription, source, eventID)+"/record", url.Values{"bytes": {strconv.Itoa(most)}})
}

// Sources lists the configured sources.
func (c *Client) Sources(ctx context.Context) (Page[SourceItem], error) {
	return getJSON[Page[SourceItem]](ctx, c, "/v1/sources", nil)
}

// Subscriptions lists the configured subscriptions.
func (c *Client) Subscriptions(ctx context.Context) (Page[SubscriptionItem], error) {
	return getJSON[Page[SubscriptionItem]](ctx, c, "/v1/subscriptions", nil)
}
