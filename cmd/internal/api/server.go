package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/stream/gate"
)

// Inbox answers questions about events, from the ledger. Errors are *schemas.Error. Where source is a topic's name and eventID
// is PARTITION@OFFSET, they name the rejected record at that place.
type Inbox interface {
	Items(ctx context.Context, f InboxFilter) (Page[InboxItem], error)
	Item(ctx context.Context, team, subscription, source, eventID string) (*InboxDetail, error)
	Raw(ctx context.Context, team, subscription, source, eventID string) (*Raw, error)
	Redrive(ctx context.Context, team, subscription, source, eventID string, r RedriveRequest) (*RedriveItem, error)
}

// Quarantine answers questions about the deliveries in quarantine topics. Errors are *schemas.Error.
type Quarantine interface {
	// Quarantined lists deliveries, the newest of each source first.
	Quarantined(ctx context.Context, f QuarantineFilter) (Page[QuarantineItem], error)
	// QuarantinedBody returns a delivery's body, byte for byte.
	QuarantinedBody(ctx context.Context, p QuarantinePlace) ([]byte, error)
	RedriveQuarantined(ctx context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error)
}

// Config is what a listener answers from.
type Config struct {
	// These need the ledger. They are nil in a process without the stream role; such a process answers 409 to their questions
	// and says which process to ask.
	Inbox        Inbox
	Stops        Stops
	Steering     Steering
	Destinations Destinations
	DeadLetters  DeadLetters
	Entities     Entities
	Replays      Replays
	Tokens       Tokens
	// Audit keeps what is changed; nil, without the stream role, keeps nothing: what such a process redrives says in the log who asked and why.
	Audit Audit

	Approvals Approvals // nil: there is no ledger
	// Budgets lists what is used of budgets, or those of which nothing is left; nil: there is no ledger.
	Budgets func(ctx context.Context, usedUp bool) ([]BudgetItem, error)
	Alerts  Alerts // nil: nothing is known of alerts

	SourceTests SourceTests // nil in a process without the intake role

	Drift func() *Drift // nil in a process without the intake role

	ConfigDiff func() []ConfigDifference // nil: nothing is known

	// Live returns why the process does not live, which /livez says; nil: it does.
	Live func() error

	// These are required.
	Ready         func(ctx context.Context, notes bool) []Check // what must work before the process is ready, and with notes what waits; /readyz calls it each time
	Quarantine    Quarantine
	Attention     func(ctx context.Context, f AttentionFilter) (*Attention, error) // what waits for an operator
	Sources       func() []SourceItem
	Subscriptions func(ctx context.Context) []SubscriptionItem
	Gatherer      prometheus.Gatherer // of /metrics

	// Access has those who ask prove who they are; nil: nobody has to, and the listener answers on loopback alone. Owners is needed with it,
	// in a process with the stream role.
	Access *Access
	Owners Owners

	Console http.Handler // of the pages below /console/; nil: there are none. They ask who somebody is by themselves

	Logger *slog.Logger // nil logs nothing
}

const (
	defaultLimit  = 50   // items of a list whose limit is not given
	maxLimit      = 1000 // the largest limit of a list
	answerTimeout = 20 * time.Second
)

type server struct {
	Config
	rates rates
}

// New makes the handler of the operator listener. It is safe for concurrent use. /livez and /readyz answer under any host name, since
// probes use the machine's address; the rest answers only under the names of loopback, to no other site's page, and to nothing that a
// Forebay sends to a destination or fetches.
func New(cfg Config) (http.Handler, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	questions := http.NewServeMux()
	s.mountConsole(questions)
	questions.Handle("GET /metrics", s.guarded(access.See, metrics(cfg.Gatherer)))
	questions.Handle("GET /debug/pprof/{profile}", s.guarded(access.Debug, http.HandlerFunc(profile)))
	questions.Handle("GET /debug/runtime", s.guarded(access.Debug, runtimeMetrics()))
	questions.Handle("GET /v1/openapi.yaml", http.HandlerFunc(serveDescription))
	s.mountQuestions(questions)
	questions.HandleFunc("/", s.elsewhere)
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusForbidden, problemOf(http.StatusForbidden, "refused: the request comes from a page of another site; send it from the console or the command line"))
	}))
	mux := probes(cfg.Live, cfg.Ready, func(r *http.Request) bool { w, err := s.asks(r); return err == nil && w.All() && w.May(access.See) })
	mux.Handle("/", s.reachable(nothingSent(sameOrigin.Handler(questions))))
	return mux, nil
}

// newServer checks that a configuration has what is required.
func newServer(cfg Config) (*server, error) {
	if cfg.Ready == nil || cfg.Quarantine == nil || cfg.Attention == nil || cfg.Sources == nil || cfg.Subscriptions == nil || cfg.Gatherer == nil {
		return nil, errors.New("operator listener: Ready, Quarantine, Attention, Sources, Subscriptions and Gatherer are all required, and one is nil")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Access != nil && cfg.Access.Who == nil || cfg.Access != nil && cfg.DeadLetters != nil && cfg.Owners == nil {
		return nil, errors.New("operator listener: Access.Who, and Owners beside DeadLetters, are required with Access, and one is nil")
	}
	return &server{cfg, newRates()}, nil
}

func (s *server) mountQuestions(mux *http.ServeMux) {
	for _, r := range s.routes() {
		mux.Handle(r.pattern, s.answer(r))
	}
}

// loopbackOnly answers 421 to a request whose Host is not localhost or a loopback address. This stops DNS rebinding: the page of a
// site whose name was made to resolve to 127.0.0.1 reaches this listener, but still sends the site's name.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		addr, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !addr.IsLoopback()) {
			write(w, http.StatusMisdirectedRequest, problemOf(http.StatusMisdirectedRequest, "the operator listener answers to localhost, 127.0.0.1 and [::1] only"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nothingSent answers 403 to what this process, or another Forebay on the machine, sends to a destination or fetches. It comes from loopback
// as operators do, and asks what somebody has written who may not.
func nothingSent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(guard.Outgoing) != "" {
			write(w, http.StatusForbidden, problemOf(http.StatusForbidden, "the operator listener is for operators: no destination, backfill or thin may call it"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// question reads a request and returns the answer. [server.answer] writes a *[Raw] as its bytes, anything else as JSON.
type question func(ctx context.Context, r *http.Request) (any, error)

// answer makes the handler of a question, which has answerTimeout to be answered.
func (s *server) answer(q route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		answer, err := s.answerTo(ctx, q, r)
		if err != nil {
			s.fail(w, err)
			return
		}
		if raw, ok := answer.(*Raw); ok {
			WriteRaw(w, raw)
			return
		}
		write(w, http.StatusOK, answer)
	}
}

// answerTo asks a question for whoever sends r, if they may, and returns what they may see of its answer.
func (s *server) answerTo(ctx context.Context, q route, r *http.Request) (any, error) {
	asks, err := s.asks(r)
	if err := s.counted(r, asks, err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if !q.answered {
		return nil, schemas.Errorf(schemas.Conflict, "", "this process has no stream role, so it has no ledger and calls no destination; ask one that runs `forebay serve --roles stream`")
	}
	if err := OnlyKnown(r, q.query...); err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, whoKey{}, asks)
	if r, err = s.admit(ctx, asks, q, r); err != nil {
		return nil, err
	}
	answer, err := s.change(ctx, asks, q, r.WithContext(ctx))
	switch {
	case err != nil && !asks.All() && schemas.KindOf(err) == schemas.NotFound:
		return nil, errNotYours // what else there is, which such an error may name, is not theirs
	case err != nil:
		return nil, err
	}
	return shownTo(asks, answer), nil
}

// elsewhere answers at paths that are none.
func (s *server) elsewhere(w http.ResponseWriter, r *http.Request) {
	asks, err := s.asks(r)
	if often := s.counted(r, asks, err); often != nil {
		err = often
	}
	if err == nil {
		err = nothingAt(r)
	}
	s.fail(w, err)
}

func nothingAt(r *http.Request) error {
	return schemas.Errorf(schemas.NotFound, "", "nothing at %s", r.URL.Path)
}

func (s *server) inbox(ctx context.Context, r *http.Request) (any, error) {
	f, err := inboxFilter(r)
	if err != nil {
		return nil, err
	}
	return paged(s.Inbox.Items(ctx, f))
}

func (s *server) item(ctx context.Context, r *http.Request) (any, error) {
	return s.Inbox.Item(ctx, r.PathValue("team"), r.PathValue("subscription"), r.PathValue("source"), r.PathValue("event"))
}

func (s *server) raw(ctx context.Context, r *http.Request) (any, error) {
	return s.Inbox.Raw(ctx, r.PathValue("team"), r.PathValue("subscription"), r.PathValue("source"), r.PathValue("event"))
}

func (s *server) record(ctx context.Context, r *http.Request) (any, error) {
	most := math.MaxInt
	if text := r.URL.Query().Get("bytes"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 {
			return nil, schemas.Errorf(schemas.Invalid, "", "bytes must be a number from 1 on (most bytes of the body), not %q", text)
		}
	}
	raw, err := s.Inbox.Raw(ctx, r.PathValue("team"), r.PathValue("subscription"), r.PathValue("source"), r.PathValue("event"))
	if err != nil {
		return nil, err
	}
	return &InboxRecord{ContentType: raw.ContentType, Headers: raw.Headers, Body: raw.Data[:min(most, len(raw.Data))], Bytes: len(raw.Data)}, nil
}

// WriteRaw writes a body as a download. Its bytes are a provider's, or those of somebody who has stolen a secret, so no browser
// may show or run them: the content type that they came with goes into a header that browsers do not know.
func WriteRaw(w http.ResponseWriter, raw *Raw) {
	h := w.Header()
	if raw.ContentType != "" {
		h.Set("Forebay-Content-Type", raw.ContentType)
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", "attachment")
	h.Set("Cache-Control", "no-store")
	w.Write(raw.Data) //nolint:gosec // a download of no type that a browser shows
}

// inboxFilter reads the filter from the query.
func inboxFilter(r *http.Request) (InboxFilter, error) {
	q := r.URL.Query()
	f := InboxFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")),
		Type: q.Get("type"), Status: q.Get("status"), Decision: gate.Decision(q.Get("decision")), Delivery: q.Get("delivery"), Cursor: q.Get("cursor")}
	var err error
	f.Limit, f.Since, err = limitAndSince(q)
	return f, err
}

// limitAndSince reads the parameters limit, which has a default, and since, which is zero where it is not given.
func limitAndSince(q url.Values) (limit int, since time.Time, err error) {
	if limit, err = parseLimit(q.Get("limit")); err != nil {
		return 0, since, err
	}
	if text := q.Get("since"); text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return 0, since, schemas.Errorf(schemas.Invalid, "", "since %q is not an RFC 3339 time", text)
		}
	}
	return limit, since, nil
}

// OnlyKnown returns an error if the request has a parameter other than these, one twice, or what cannot be read: a filter with a slip must not
// be ignored and list everything. Nor does it take what is no text for the database, in the path either.
func OnlyKnown(r *http.Request, names ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return schemas.Errorf(schemas.Invalid, "", "the parameters cannot be read: %w", err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			return schemas.Errorf(schemas.Invalid, "", "unknown parameter %q", name)
		case len(values) > 1:
			return schemas.Errorf(schemas.Invalid, "", "parameter %s is given %d times", name, len(values))
		case !isText(values[0]):
			return schemas.Errorf(schemas.Invalid, "", "parameter %s is no text: %q", name, values[0])
		}
	}
	if !isText(r.URL.Path) {
		return schemas.Errorf(schemas.Invalid, "", "the path is no text: %q", r.URL.Path)
	}
	return nil
}

// isText reports whether Postgres takes a text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// parseLimit reads the limit of a list; an empty text is the default.
func parseLimit(text string) (int, error) {
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, schemas.Errorf(schemas.Invalid, "", "limit must be between 1 and %d", maxLimit)
	}
	return n, nil
}

// listed returns all items as one page, and err.
func listed[T any](items []T, err error) (any, error) { return paged(Page[T]{Items: items}, err) }

// paged returns the page, and err. An empty page goes over the wire as "items": [], not as null.
func paged[T any](page Page[T], err error) (any, error) {
	if page.Items == nil {
		page.Items = []T{}
	}
	return page, err
}

// write writes body as JSON, a [Problem] with its own content type.
func write(w http.ResponseWriter, status int, body any) {
	contentType := "application/json"
	if _, ok := body.(Problem); ok {
		contentType = "application/problem+json"
	}
	text, err := json.Marshal(body)
	if err != nil { // such as a float that is NaN; nothing of the answer is written then
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}

// statuses maps error kinds to HTTP.
var statuses = map[schemas.Kind]int{
	schemas.Invalid: http.StatusBadRequest, schemas.Unauthenticated: http.StatusUnauthorized, schemas.NotFound: http.StatusNotFound,
	schemas.Conflict: http.StatusConflict, schemas.TooLarge: http.StatusRequestEntityTooLarge, schemas.Throttled: http.StatusTooManyRequests,
	schemas.Unavailable: http.StatusServiceUnavailable, schemas.Permanent: http.StatusGone, schemas.Internal: http.StatusInternalServerError,
}

// fail answers with a problem body made from err, and logs what is the server's fault.
func (s *server) fail(w http.ResponseWriter, err error) {
	if no, ok := errors.AsType[*forbidden](err); ok {
		p := problemOf(http.StatusForbidden, no.text)
		p.Kind = kindForbidden
		write(w, p.Status, p)
		return
	}
	kind := schemas.KindOf(err)
	p := problemOf(statuses[kind], fmt.Sprint(err))
	p.Kind = string(kind)
	switch {
	case p.Status >= http.StatusInternalServerError:
		s.Logger.Warn("operator question", "error", err)
	case p.Status == http.StatusTooManyRequests:
		sayWhen(w, err)
	case p.Status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	write(w, p.Status, p)
}

// kindForbidden is the kind of a problem that says what a token may not do. It is none of package schemas: no other part refuses by rights.
const kindForbidden = "forbidden"
