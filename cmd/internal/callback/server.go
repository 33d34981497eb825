package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config is what the handler is made of.
type Config struct {
	Keys   *Keys
	Ledger Ledger
	Logger *slog.Logger // nil logs nothing
	// Tracer makes a span of each result, and of its steps, whose attempt is in a sampled trace; nil makes none.
	Tracer *trace.Tracer
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
}

const (
	maxBody       = 64 << 10           // of a request
	maxWait       = 7 * 24 * time.Hour // largest retry_after of a result
	answerTimeout = 10 * time.Second
	retryAfter    = "5" // seconds, in a 503: the ledger does not answer
)

type server struct {
	Config
	requests *prometheus.CounterVec
}

// New makes the handler. It is safe for concurrent use.
func New(cfg Config) (http.Handler, error) {
	if cfg.Keys == nil || cfg.Ledger == nil {
		return nil, errors.New("agents listener: Keys and Ledger are both required, and one is nil")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	s := &server{Config: cfg, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forebay_agents_requests_total", Help: "Requests to the agents listener by question and status.",
	}, []string{"question", "status"})}
	if err := cfg.Registerer.Register(s.requests); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, question := range []struct {
		name, method, path string
		ask                func(*http.Request) (int, any, error)
	}{
		{"result", http.MethodPost, "/v1/actions/{id}/result", s.result},
		{"heartbeat", http.MethodPost, "/v1/actions/{id}/heartbeat", s.heartbeat},
		{"action", http.MethodGet, "/v1/actions/{id}", s.action},
		{"event", http.MethodGet, "/v1/events/{team}/{source}/{id}", s.event},
	} {
		mux.HandleFunc(question.method+" "+question.path, s.answer(question.name, question.ask))
		mux.HandleFunc(question.path, s.answer(question.name, func(*http.Request) (int, any, error) { return 0, nil, notAllowed(question.method) }))
	}
	mux.HandleFunc("/", s.answer("none", func(*http.Request) (int, any, error) {
		return 0, nil, refuse(http.StatusNotFound, "there is nothing at this path")
	}))
	return mux, nil
}

// refusal is the error of a request that is answered with this status.
type refusal struct {
	status int
	detail string
	allow  string // the header Allow of a 405
}

func (r *refusal) Error() string { return r.detail }

// refuse makes a refusal.
func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, detail: fmt.Sprintf(format, args...)}
}

// Misdirected is the error of a question to a process with another ledger than the one that knows the answer: 421.
func Misdirected(format string, args ...any) error {
	return refuse(http.StatusMisdirectedRequest, format, args...)
}

// notAllowed refuses a request whose method is not the one of its path.
func notAllowed(method string) error {
	return &refusal{status: http.StatusMethodNotAllowed, detail: "only " + method + " is understood here", allow: method}
}

// unauthorized refuses a token that is missing, wrong, or for something else. A request cannot find out by it which actions and events
// exist.
var unauthorized = &refusal{status: http.StatusUnauthorized, detail: "the token is missing or does not open this"}

// statuses maps kinds of errors to HTTP.
var statuses = map[schemas.Kind]int{
	schemas.Invalid: http.StatusBadRequest, schemas.NotFound: http.StatusNotFound, schemas.Conflict: http.StatusConflict,
	schemas.Unavailable: http.StatusServiceUnavailable,
}

// answer makes the handler of a question: ask returns the status and the body to write as JSON, or an error. name is the question in
// metrics and logs.
func (s *server) answer(name string, ask func(*http.Request) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		status, body, err := ask(r)
		if err != nil {
			status, body = s.errorAnswer(w, name, err)
		}
		s.requests.WithLabelValues(name, strconv.Itoa(status)).Inc()
		if item, ok := body.(ActionItem); ok && item.Cancel != "" {
			w.Header().Set(sink.CancelHeader, item.Cancel)
		}
		write(w, status, body)
	}
}

// errorAnswer returns the status and the body for an error, and sets the headers that belong to the status. It logs an error that is no
// fault of the request and keeps its text from the client.
func (s *server) errorAnswer(w http.ResponseWriter, name string, err error) (int, problem) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		status, known := statuses[schemas.KindOf(err)]
		if !known {
			status = http.StatusInternalServerError
		}
		r = &refusal{status: status, detail: err.Error()}
		if status >= http.StatusInternalServerError {
			s.Logger.Warn("a question of an agent", "question", name, "error", err)
			r.detail = "the ledger does not answer now; ask again"
		}
	}
	if ok { // it may be that no token was shown: then nobody keeps a connection that idles
		w.Header().Set("Connection", "close")
	}
	switch r.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", r.allow)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryAfter)
	}
	return r.status, problem{Type: "about:blank", Title: http.StatusText(r.status), Status: r.status, Detail: r.detail}
}

// write writes body as JSON, a problem with its own content type.
func write(w http.ResponseWriter, status int, body any) {
	contentType := "application/json"
	if _, ok := body.(problem); ok {
		contentType = "application/problem+json"
	}
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// NoLedger answers 421 to a request that needs the ledger, in a process that has none. agentsURL is agents.public_url, where a process that
// has the ledger listens for such requests; empty if it is not configured. Whoever asks has shown nothing, and so keeps no connection.
func NoLedger(w http.ResponseWriter, agentsURL string) {
	w.Header().Set("Connection", "close")
	if agentsURL == "" {
		agentsURL = "the address of listen.agents"
	}
	write(w, http.StatusMisdirectedRequest, problem{Type: "about:blank", Title: http.StatusText(http.StatusMisdirectedRequest),
		Status: http.StatusMisdirectedRequest,
		Detail: "this is the intake, which has no ledger; ask " + agentsURL + ": a process with the stream role (forebay serve --roles stream) listens there"})
}

// bearer returns the token of a request; empty if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// attempt returns what the request's token was made for, and the state of its action in the ledger. It checks the token before
// it asks the ledger. It refuses a token of another ledger, in which the place is another attempt's, and one whose place now belongs to another
// action.
func (s *server) attempt(r *http.Request) (a tokenAttempt, state reports.ActionState, err error) {
	id := r.PathValue("id")
	a, ok := s.Keys.openAction(bearer(r), id)
	if !ok {
		return a, state, unauthorized
	}
	if err := s.ours(a.ledger); err != nil {
		return a, state, err
	}
	state, err = s.Ledger.ActionState(r.Context(), a.ref)
	if err == nil && string(state.ID) != id {
		err = refuse(http.StatusNotFound, "the ledger does not know this action; it is not the one that the token was made with")
	}
	return a, state, err
}

// ours refuses an attempt of another ledger: no process of this one knows it.
func (s *server) ours(of [16]byte) error {
	mine, err := s.Ledger.ID()
	if err != nil || of == mine {
		return err
	}
	return Misdirected("the action is in another ledger than this process's: send it to the process that made the call, at its agents.public_url; " +
		"processes with different ledgers need different ones. If its subscription was moved to another ledger, nobody waits for this attempt any more")
}

// result records the result of an attempt. Of an attempt that is lost only done counts, until another attempt is recorded: what is done
// must not be done again, and what else came of it says nothing about the attempt that is made now.
func (s *server) result(r *http.Request) (int, any, error) {
	began := time.Now()
	a, state, err := s.attempt(r)
	if err != nil {
		return 0, nil, err
	}
	ref := a.ref
	var body Result
	if err := readJSON(r, &body); err != nil {
		return 0, nil, err
	}
	report, err := body.report(ref, bearer(r))
	if err != nil {
		return 0, nil, err
	}
	if state.Lost(ref) && state.Reported == "" && report.Status != ledger.Done {
		return 0, nil, refuse(http.StatusConflict, "the result does not count: %s; report with that one", lostCall)
	}
	reported, err := s.Ledger.Report(r.Context(), report)
	if err != nil {
		return 0, nil, err
	}
	s.Logger.Info("result of an action", "action_id", state.ID, "subscription", state.Subscription, "destination", state.Destination,
		"attempt", ref.Attempt, "result", report.Status, "state", reported)
	item := ResultItem{ID: string(state.ID), Attempt: ref.Attempt, State: string(reported)}
	steps, err := readSteps(body.Steps, redact.New(bearer(r)))
	if err != nil {
		item.StepsRefused = err.Error()
	}
	switch reported {
	case reports.Differs:
		return 0, nil, refuse(http.StatusConflict, "another result of attempt %d was recorded before, and stands", ref.Attempt)
	case reports.Late:
		kept := "and changes nothing"
		if report.Cost > 0 {
			kept = "and of it only its cost counts"
		}
		if report.Status == ledger.Done && state.Status == ledger.Dead {
			kept += ", unless an operator replays the action, which takes it instead of another call"
		}
		return 0, nil, refuse(http.StatusConflict, "too late: %s; the result is kept, %s", whyPast(ref, &state), kept)
	case reports.Repeated:
		return http.StatusOK, item, nil
	}
	s.trace(a, &state, statusName(report.Status), began, steps)
	return http.StatusAccepted, item, nil
}

// lostCall says what became of an attempt that is lost; see [reports.ActionState.Lost].
const lostCall = "the process that made this call ended before it had recorded it, and the call is made again, with another token"

// whyPast returns why nobody waits for the result of an attempt any more.
func whyPast(ref ledger.AttemptRef, s *reports.ActionState) string {
	if s.Attempts > ref.Attempt {
		return fmt.Sprintf("attempt %d of the action has begun", s.Attempts)
	}
	if s.Lost(ref) {
		return lostCall
	}
	return fmt.Sprintf("the action is %s", s.Status)
}

// heartbeat notes that an attempt is still at work. An attempt whose 202 is not recorded yet cannot have that noted; it is answered as if
// it had.
func (s *server) heartbeat(r *http.Request) (int, any, error) {
	a, state, err := s.attempt(r)
	if err != nil {
		return 0, nil, err
	}
	ref := a.ref
	alive, err := s.Ledger.Beat(r.Context(), ref)
	if err != nil {
		return 0, nil, err
	}
	if alive {
		if state, err = s.Ledger.ActionState(r.Context(), ref); err != nil { // with the new time of the heartbeat
			return 0, nil, err
		}
		return http.StatusOK, itemOf(ref, &state), nil
	}
	if state.Attempts >= ref.Attempt || state.Past(ref) || state.Lost(ref) {
		why := whyPast(ref, &state)
		if !state.Past(ref) && !state.Lost(ref) {
			why += "; a result still counts until it is attempted again"
		}
		return 0, nil, refuse(http.StatusConflict, "nobody waits for this attempt any more: %s", why)
	}
	return http.StatusOK, itemOf(ref, &state), nil
}

// action answers with the state of an action.
func (s *server) action(r *http.Request) (int, any, error) {
	a, state, err := s.attempt(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, itemOf(a.ref, &state), nil
}

// itemOf returns the state of an action for the API, with what was reported of one attempt.
func itemOf(ref ledger.AttemptRef, s *reports.ActionState) ActionItem {
	item := ActionItem{ID: string(s.ID), Name: s.Name, Subscription: s.Subscription, Destination: s.Destination, Source: s.Source,
		EventID: s.EventID, Status: s.Status, Attempt: ref.Attempt, Attempts: s.Attempts, ResultBy: utc(s.ResultBy)}
	if s.Silence > 0 && s.BeatAt != nil {
		by := s.BeatAt.Add(s.Silence)
		item.HeartbeatBy = utc(&by)
	}
	if s.Newer && !s.Past(ref) {
		item.Cancel = sink.Newer
	}
	if s.Reported != "" {
		item.Result = &ReportedItem{Status: statusName(s.Reported), State: s.Outcome}
		if s.Outcome == "" {
			item.Result.State = string(reports.Recorded)
		}
	}
	return item
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// statusName returns a status as destinations write it.
func statusName(s ledger.Status) string {
	if s == ledger.Dead {
		return "dead"
	}
	return string(s)
}

// event answers with what became of an event. The token may be in the query: a status_url carries it there.
func (s *server) event(r *http.Request) (int, any, error) {
	team, source, id := r.PathValue("team"), r.PathValue("source"), r.PathValue("id")
	token := bearer(r)
	if token == "" {
		token = r.URL.Query().Get("token")
	}
	if !s.Keys.IsForEvent(token, team, source, id) {
		return 0, nil, unauthorized
	}
	item, err := s.Ledger.Event(r.Context(), team, source, id)
	return http.StatusOK, item, err
}

// readJSON decodes the request's body, one JSON object. A field that the result does not have is an error: a typing slip must not make
// another result of it.
func readJSON(r *http.Request, to any) error {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return refuse(http.StatusUnsupportedMediaType, "the body must be application/json")
		}
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(to)
	if err == nil {
		if _, errEnd := dec.Token(); !errors.Is(errEnd, io.EOF) {
			err = errors.New("something follows the JSON object")
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is no result: %v", err)
	}
	return nil
}

// report checks a result and returns it as a report for the ledger. If the result's texts have the token in them, it is redacted there.
func (body *Result) report(ref ledger.AttemptRef, token string) (ledger.Report, error) {
	r := ledger.Report{AttemptRef: ref, Code: body.Code}
	switch body.Status {
	case "done":
		r.Status = ledger.Done
	case "failed":
		r.Status = ledger.Failed
		if body.Retryable != nil && !*body.Retryable {
			r.Status = ledger.Dead
		}
	case "dead":
		r.Status = ledger.Dead
	default:
		return r, refuse(http.StatusBadRequest, `status must be "done", "failed" or "dead"`)
	}
	switch {
	case body.Code < 0 || body.Code > 999:
		return r, refuse(http.StatusBadRequest, "code must be between 0 and 999")
	case r.Status != ledger.Failed && body.RetryAfter != 0:
		return r, refuse(http.StatusBadRequest, "retry_after is for a result that is failed and retryable")
	case body.RetryAfter < 0 || body.RetryAfter > maxWait.Seconds():
		return r, refuse(http.StatusBadRequest, "retry_after must be between 0 and %d seconds", int(maxWait.Seconds()))
	case r.Status == ledger.Done && body.Error != "":
		return r, refuse(http.StatusBadRequest, "error is for a result that is not done")
	}
	if body.Cost != "" {
		cost, err := sink.ParseCost(string(body.Cost))
		if err != nil {
			return r, refuse(http.StatusBadRequest, "cost is %v", err)
		}
		r.Cost = int64(cost)
	}
	r.Wait = time.Duration(body.RetryAfter * float64(time.Second))
	clean := redact.New(token)
	r.Response = clean.Bytes(textOf(body.Response))
	if body.Error != "" { // its words are the destination's, which not everybody may see who may see that it failed
		r.Error = "the destination reported a failure; the answer has its words"
		words := clean.Bytes([]byte(body.Error))
		if len(r.Response) > 0 {
			words = append(words, '\n')
		}
		r.Response = append(words, r.Response...)
	}
	return r, nil
}

// textOf returns a JSON text without its quotes, anything else as it was written.
func textOf(raw json.RawMessage) []byte {
	var text string
	if string(raw) == "null" {
		return nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}
