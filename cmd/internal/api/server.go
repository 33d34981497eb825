package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
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
	// Quarantined lists the newest deliveries, the newest first.
	Quarantined(ctx context.Context, f QuarantineFilter) ([]QuarantineItem, error)
	// QuarantinedBody returns a delivery's body, byte for byte.
	QuarantinedBody(ctx context.Context, p QuarantinePlace) ([]byte, error)
	RedriveQuarantined(ctx context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error)
}

// Config is what a listener answers from.
type Config struct {
	// These four need the ledger. They are nil in a process without the stream role; such a process answers 409 to their questions
	// and says which process to ask.
	Inbox        Inbox
	Stops        Stops
	Destinations Destinations
	DeadLetters  DeadLetters

	// These are required.
	Ready         func(ctx context.Context) []Check // what must work before the process is ready; /readyz calls it each time
	Quarantine    Quarantine
	Sources       func() []SourceItem
	Subscriptions func() []SubscriptionItem
	Gatherer      prometheus.Gatherer // of /metrics

	Logger *slog.Logger // nil logs nothing
}

const (
	defaultLimit  = 50   // items of a list whose limit is not given
	maxLimit      = 1000 // the largest limit of a list
	answerTimeout = 20 * time.Second
)

type server struct{ Config }

// New makes the handler of the operator listener. It is safe for concurrent use. /livez and /readyz answer under any host name, since
// probes use the machine's address; the rest answers only under the names of loopback, and to no other site's page.
func New(cfg Config) (http.Handler, error) {
	if cfg.Ready == nil || cfg.Quarantine == nil || cfg.Sources == nil || cfg.Subscriptions == nil || cfg.Gatherer == nil {
		return nil, errors.New("operator listener: Ready, Quarantine, Sources, Subscriptions and Gatherer are all required, and one is nil")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{cfg}
	questions := http.NewServeMux()
	questions.Handle("GET /metrics", metrics(cfg.Gatherer))
	// handle is set anew for each group of paths, with whether this process can answer them.
	handle := func(pattern string, q question) { questions.Handle(pattern, s.answer(true, q)) }
	handle("GET /v1/quarantine", s.quarantine)
	handle("GET /v1/quarantine/{team}/{source}/{partition}/{offset}/raw", s.quarantineRaw)
	handle("POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive", s.quarantineRedrive)
	handle("GET /v1/sources", func(context.Context, *http.Request) (any, error) { return listed(cfg.Sources(), nil) })
	handle("GET /v1/subscriptions", func(context.Context, *http.Request) (any, error) { return listed(cfg.Subscriptions(), nil) })
	handle("/", func(_ context.Context, r *http.Request) (any, error) { return nil, nothingAt(r) })

	handle = func(pattern string, q question) { questions.Handle(pattern, s.answer(cfg.Inbox != nil, q)) }
	handle("GET /v1/inbox", s.inbox)
	handle("GET /v1/inbox/{team}/{subscription}/{source}/{event}", s.item)
	handle("GET /v1/inbox/{team}/{subscription}/{source}/{event}/raw", s.raw)
	handle("POST /v1/inbox/{team}/{subscription}/{source}/{event}/redrive", s.redrive)

	handle = func(pattern string, q question) { questions.Handle(pattern, s.answer(cfg.DeadLetters != nil, q)) }
	handle("GET /v1/dlq", s.deadLetters)
	handle("GET /v1/dlq-groups", s.deadLetterGroups)
	handle("GET /v1/dlq/{action}", s.deadLetter)
	handle("GET /v1/dlq/{action}/record", s.deadRecord)
	handle("POST /v1/dlq/{action}/{verb}", s.askDeadLetter)

	handle = func(pattern string, q question) { questions.Handle(pattern, s.answer(cfg.Stops != nil, q)) }
	handle("GET /v1/subscriptions/{team}/{subscription}", s.subscription)
	handle("POST /v1/subscriptions/{team}/{subscription}/accept", s.accept)

	handle = func(pattern string, q question) { questions.Handle(pattern, s.answer(cfg.Destinations != nil, q)) }
	handle("GET /v1/destinations", s.destinations)
	handle("GET /v1/destinations/{team}/{destination}", s.destination)
	handle("POST /v1/destinations/{team}/{destination}/pause", s.pause)
	handle("POST /v1/destinations/{team}/{destination}/resume", s.resume)
	mux := probes(cfg.Ready)
	mux.Handle("/", loopbackOnly(http.NewCrossOriginProtection().Handler(questions)))
	return mux, nil
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
			write(w, http.StatusMisdirectedRequest, Problem{Type: "about:blank", Title: "Misdirected Request", Status: http.StatusMisdirectedRequest,
				Detail: "the operator listener answers to localhost, 127.0.0.1 and [::1] only"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// question reads a request and returns the answer. [server.answer] writes a *[Raw] as its bytes, anything else as JSON.
type question func(ctx context.Context, r *http.Request) (any, error)

// answer makes the handler of a question, which has answerTimeout to be answered. Without canAnswer, the handler says that this
// process has no stream role.
func (s *server) answer(canAnswer bool, ask question) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !canAnswer {
			s.fail(w, schemas.Errorf(schemas.Conflict, "", "this process has no stream role, so it has no ledger and calls no destination; ask one that runs `forebay serve --roles stream`"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		answer, err := ask(ctx, r)
		if err != nil {
			s.fail(w, err)
			return
		}
		if raw, ok := answer.(*Raw); ok {
			writeRaw(w, raw)
			return
		}
		write(w, http.StatusOK, answer)
	}
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

// writeRaw writes a body as a download. Its bytes are a provider's, or those of somebody who has stolen a secret, so no browser
// may show or run them: the content type that they came with goes into a header that browsers do not know.
func writeRaw(w http.ResponseWriter, raw *Raw) {
	h := w.Header()
	if raw.ContentType != "" {
		h.Set("Forebay-Content-Type", raw.ContentType)
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", "attachment")
	w.Write(raw.Data)
}

// inboxFilter reads the filter from the query. A parameter that it does not know is an error.
func inboxFilter(r *http.Request) (InboxFilter, error) {
	q := r.URL.Query()
	f := InboxFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")),
		Type: q.Get("type"), Status: q.Get("status"), Decision: gate.Decision(q.Get("decision")), Delivery: q.Get("delivery"), Cursor: q.Get("cursor")}
	if err := onlyKnown(r, "team", "subscription", "source", "entity", "type", "status", "decision", "delivery", "cursor", "limit", "since"); err != nil {
		return f, err
	}
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

// onlyKnown returns an error if the request has a parameter other than these: a filter with a typing slip must not be ignored and
// list everything.
func onlyKnown(r *http.Request, names ...string) error {
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	for name := range r.URL.Query() {
		if !known[name] {
			return schemas.Errorf(schemas.Invalid, "", "unknown parameter %q", name)
		}
	}
	return nil
}

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
	kind := schemas.KindOf(err)
	status := statuses[kind]
	if status >= http.StatusInternalServerError {
		s.Logger.Warn("operator question", "error", err)
	}
	write(w, status, Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprint(err), Kind: string(kind)})
}
