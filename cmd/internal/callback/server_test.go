package callback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

// fake is a ledger with one action.
type fake struct {
	state reports.ActionState
	err   error
	alive bool
	said  []ledger.Report
	beats []ledger.AttemptRef
	as    reports.State
}

func (f *fake) ID() ([16]byte, error) { return ours, f.err }

func (f *fake) Report(_ context.Context, r ledger.Report) (reports.State, error) {
	f.said = append(f.said, r)
	return f.as, f.err
}

func (f *fake) Beat(_ context.Context, r ledger.AttemptRef) (bool, error) {
	f.beats = append(f.beats, r)
	return f.alive, f.err
}

func (f *fake) ActionState(context.Context, ledger.AttemptRef) (reports.ActionState, error) {
	return f.state, f.err
}

func (f *fake) Event(_ context.Context, team, source, id string) (EventItem, error) {
	return EventItem{Team: team, Source: source, ID: id, Status: "received", Subscriptions: []EventInItem{}}, f.err
}

const actionID = "act_b9dq2bzwzvgbrj6n05r4872478"

// ours is the ledger of the fake.
var ours = [16]byte{7}

var attempt = ledger.AttemptRef{Fence: 4, LaneSeq: 17, Attempt: 2, Epoch: 5}

// desk is the listener on a fake.
type desk struct {
	*fake
	t    *testing.T
	keys *Keys
	h    http.Handler
	log  *bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, keys: keys("the server's secret"), log: &bytes.Buffer{}, fake: &fake{as: reports.Recorded, alive: true, state: reports.ActionState{
		ID: actionID, Subscription: "acme.triage", Name: "run", Destination: "acme/coder", Source: "/acme/github", EventID: "e-1",
		Status: ledger.Processing, Attempts: 2, AttemptEpoch: 5, Epoch: 5, ResultBy: new(time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)),
		BeatAt: new(time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)), Silence: time.Minute,
	}}}
	h, err := New(Config{Keys: d.keys, Ledger: d.fake, Logger: slog.New(slog.NewTextHandler(d.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d.h = h
	return d
}

func (d *desk) token() string { return d.keys.Action(ours, attempt, actionID, trace.Place{}).Reveal() }

// ask asks with the right token, unless change says otherwise.
func (d *desk) ask(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+d.token())
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "fba2_") || strings.Contains(d.log.String(), "fba2_") || strings.Contains(d.log.String(), "fbe1_") {
		d.t.Errorf("a token shows: %s %s", w.Body, d.log)
	}
	return w
}

// refused looks that an answer is a problem of this status that says words.
func (d *desk) refused(what string, w *httptest.ResponseRecorder, status int, words string) {
	d.t.Helper()
	var p problem
	err := json.Unmarshal(w.Body.Bytes(), &p)
	if err != nil || w.Code != status || p.Status != status || p.Title != http.StatusText(status) || !strings.Contains(p.Detail, words) ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		d.t.Errorf("%s: %d %s, want %d %q", what, w.Code, w.Body, status, words)
	}
}

const (
	resultPath = "/v1/actions/" + actionID + "/result"
	beatPath   = "/v1/actions/" + actionID + "/heartbeat"
	actionPath = "/v1/actions/" + actionID
)

// TestResultsAreRecorded as what they mean.
func TestResultsAreRecorded(t *testing.T) {
	t.Parallel()
	const said = "the destination reported a failure; the answer has its words"
	d := newDesk(t)
	for _, tt := range []struct {
		body string
		want ledger.Report
	}{
		{`{"status":"done"}`, ledger.Report{Status: ledger.Done}},
		{`{"status":"done","code":200,"response":"merged"}`, ledger.Report{Status: ledger.Done, Code: 200, Response: []byte("merged")}},
		{`{"status":"done","response":{"pr": 7}}`, ledger.Report{Status: ledger.Done, Response: []byte(`{"pr": 7}`)}},
		{`{"status":"done","response":null}`, ledger.Report{Status: ledger.Done}},
		{`{"status":"done","cost":0.25}`, ledger.Report{Status: ledger.Done, Cost: 250_000}},
		{`{"status":"done","cost":"1.5"}`, ledger.Report{Status: ledger.Done, Cost: 1_500_000}},
		{`{"status":"done","cost":1.8e-05}`, ledger.Report{Status: ledger.Done, Cost: 18}}, // as Python's JSON has it
		{`{"status":"failed","error":"no runner","retry_after":1.5}`, ledger.Report{Status: ledger.Failed, Error: said, Response: []byte("no runner"), Wait: 1500 * time.Millisecond}},
		{`{"status":"failed","retryable":true}`, ledger.Report{Status: ledger.Failed}},
		{`{"status":"failed","retryable":false,"code":422}`, ledger.Report{Status: ledger.Dead, Code: 422}},
		{`{"status":"dead","error":"there is no such branch"}`, ledger.Report{Status: ledger.Dead, Error: said, Response: []byte("there is no such branch")}},
		{`{"status":"dead","error":"I was called with ` + d.token() + `"}`, ledger.Report{Status: ledger.Dead, Error: said, Response: []byte("I was called with <redacted>")}},
		{`{"status":"dead","error":"it is closed","response":{"pr": 7}}`, ledger.Report{Status: ledger.Dead, Error: said, Response: []byte("it is closed\n{\"pr\": 7}")}},
	} {
		d.said = nil
		w := d.ask("POST", resultPath, tt.body)
		tt.want.AttemptRef = attempt
		if diff := cmp.Diff([]ledger.Report{tt.want}, d.said); diff != "" || w.Code != http.StatusAccepted {
			t.Errorf("%s: %d %s %s", tt.body, w.Code, w.Body, diff)
		}
	}
	if w := d.ask("POST", resultPath, `{"status":"done"}`); w.Body.String() != `{"id":"`+actionID+`","attempt":2,"state":"recorded"}`+"\n" {
		t.Error(w.Body)
	}
	d.as = reports.Repeated
	if w := d.ask("POST", resultPath, `{"status":"done"}`); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"state":"repeated"`) {
		t.Error(w.Code, w.Body)
	}
}

func TestResultsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, tt := range []struct {
		name, body string
		status     int
		words      string
	}{
		{"nothing", ``, 400, "no result"}, {"not JSON", `done`, 400, "no result"}, {"a list", `[]`, 400, "no result"},
		{"two of them", `{"status":"done"}{"status":"dead"}`, 400, "something follows"},
		{"a slip", `{"status":"done","retriable":false}`, 400, `unknown field "retriable"`},
		{"no status", `{}`, 400, "status must be"}, {"another status", `{"status":"processing"}`, 400, "status must be"},
		{"a code", `{"status":"done","code":1000}`, 400, "code must be"}, {"a negative code", `{"status":"done","code":-1}`, 400, "code must be"},
		{"a cost", `{"status":"done","cost":-1}`, 400, "cost"}, {"too high a cost", `{"status":"done","cost":1e10}`, 400, "cost"},
		{"a wait", `{"status":"failed","retry_after":-1}`, 400, "retry_after"}, {"a long wait", `{"status":"failed","retry_after":1e9}`, 400, "retry_after"},
		{"a wait of what is done", `{"status":"done","retry_after":5}`, 400, "retry_after"},
		{"an error of what is done", `{"status":"done","error":"x"}`, 400, "error is for"},
		{"too much", `{"status":"done","response":"` + strings.Repeat("x", maxBody) + `"}`, 413, "larger than 65536 bytes"},
	} {
		d.refused(tt.name, d.ask("POST", resultPath, tt.body), tt.status, tt.words)
	}
	d.refused("a form", d.ask("POST", resultPath, `status=done`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415, "application/json")
	if len(d.said) > 0 {
		t.Errorf("recorded all the same: %+v", d.said)
	}
	d.as = reports.Differs
	d.refused("another result", d.ask("POST", resultPath, `{"status":"done"}`), 409, "another result of attempt 2")
	d.as, d.state.Attempts = reports.Late, 3
	d.refused("a later attempt", d.ask("POST", resultPath, `{"status":"done"}`), 409, "attempt 3 of the action has begun")
	d.state.Attempts, d.state.Status = 2, ledger.Dead
	d.refused("a dead action", d.ask("POST", resultPath, `{"status":"done"}`), 409, "unless an operator replays the action")
	d.state.Status = ledger.Failed // by a replay: what is no done was too late for good
	if w := d.ask("POST", resultPath, `{"status":"dead"}`); w.Code != 409 || strings.Contains(w.Body.String(), "still counts") {
		t.Error(w.Code, w.Body)
	}
}

// TestUnauthorized: whatever is wrong with a token, and whether or not there is such an action, the answer is the same.
func TestUnauthorized(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	as := func(header string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Authorization")
			if header != "" {
				r.Header.Set("Authorization", header)
			}
		}
	}
	later := attempt
	later.Attempt++
	forged := []byte(d.token())
	forged[len(forged)-10] ^= 1
	first := ""
	for _, path := range []string{resultPath, beatPath, actionPath, "/v1/actions/act_unknown/result", "/v1/actions/act_unknown", "/v1/events/acme/github/e-1"} {
		method := map[bool]string{true: "POST", false: "GET"}[strings.HasSuffix(path, "result") || strings.HasSuffix(path, "heartbeat")]
		for name, header := range map[string]string{
			"none": "", "basic": "Basic " + d.token(), "not a token": "Bearer x", "forged": "Bearer " + string(forged),
			"of another action": "Bearer " + d.keys.Action(ours, attempt, "act_other", trace.Place{}).Reveal(), "of another event": "Bearer " + d.keys.Event("acme", "github", "e-2"),
			"of another server": "Bearer " + keys("other").Action(ours, attempt, actionID, trace.Place{}).Reveal(),
		} {
			w := d.ask(method, path, `{"status":"done"}`, as(header))
			d.refused(path+" "+name, w, 401, "")
			if first == "" {
				first = w.Body.String()
			}
			if w.Body.String() != first || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s: another answer: %s", path, name, w.Body)
			}
		}
	}
	d.refused("an event's token for an action", d.ask("POST", resultPath, `{"status":"done"}`, as("Bearer "+d.keys.Event("acme", "github", actionID))), 401, "")
	d.refused("an action's token in the query", d.ask("GET", actionPath+"?token="+d.token(), "", as("")), 401, "")
	if len(d.said)+len(d.beats) > 0 {
		t.Error("something was recorded")
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := d.ask("POST", beatPath, "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"heartbeat_by":"2026-03-01T10:01:00Z"`) || len(d.beats) != 1 || d.beats[0] != attempt {
		t.Error(w.Code, w.Body, d.beats)
	}
	if got := w.Header()["X-Forebay-Cancel"]; got != nil || strings.Contains(w.Body.String(), `"cancel"`) {
		t.Errorf("%q, %s", got, w.Body)
	}
	d.state.Newer = true
	for method, path := range map[string]string{"POST": beatPath, "GET": actionPath} {
		w = d.ask(method, path, "")
		if w.Code != 200 || w.Header().Get("X-Forebay-Cancel") != "newer" || !strings.Contains(w.Body.String(), `"cancel":"newer"`) {
			t.Error(method, w.Code, w.Header(), w.Body)
		}
	}
	d.state.Attempts = 3 // of which the newest is the one that is not wanted
	if w = d.ask("GET", actionPath, ""); w.Code != 200 || w.Header().Get("X-Forebay-Cancel") != "" {
		t.Error(w.Code, w.Header(), w.Body)
	}
	d.state.Attempts, d.state.Newer = 2, false
	d.alive = false
	d.state.Attempts = 1 // its 202 is not recorded yet
	if w = d.ask("POST", beatPath, ""); w.Code != 200 {
		t.Error(w.Code, w.Body)
	}
	d.state.Attempts, d.state.Status = 2, ledger.Failed
	d.refused("timed out", d.ask("POST", beatPath, ""), 409, "a result still counts")
	d.state.Attempts = 3
	d.refused("attempted again", d.ask("POST", beatPath, ""), 409, "attempt 3")
	d.state.Attempts, d.state.Status = 2, ledger.Done
	d.refused("done", d.ask("POST", beatPath, ""), 409, "the action is done")
}

// An attempt that its owner has not recorded is lost once another owner has the partition: what is said of it is said of no other
// attempt, whether or not there is another with its number. Only done is passed on.
func TestLostAttempts(t *testing.T) {
	t.Parallel()
	const lost = "the call is made again, with another token"
	for name, change := range map[string]func(*reports.ActionState){
		"nothing is recorded":         func(s *reports.ActionState) { s.Status, s.Attempts, s.AttemptEpoch = ledger.Pending, 0, 0 },
		"the attempt before":          func(s *reports.ActionState) { s.Status, s.Attempts, s.AttemptEpoch = ledger.Failed, 1, 4 },
		"the next owner's, out there": func(s *reports.ActionState) { s.AttemptEpoch = 6 },
		"the next owner's, failed":    func(s *reports.ActionState) { s.Status, s.AttemptEpoch = ledger.Failed, 6 },
	} {
		d := newDesk(t)
		d.alive, d.state.Epoch = false, 6
		change(&d.state)
		for _, body := range []string{`{"status":"failed"}`, `{"status":"dead"}`} {
			d.refused(name+" "+body, d.ask("POST", resultPath, body), 409, lost)
		}
		d.refused(name+", heartbeat", d.ask("POST", beatPath, ""), 409, lost)
		if len(d.said) > 0 {
			t.Errorf("%s: recorded all the same: %+v", name, d.said)
		}
		if w := d.ask("POST", resultPath, `{"status":"done"}`); w.Code != 202 || len(d.said) != 1 || d.said[0].Epoch != attempt.Epoch {
			t.Errorf("%s, done: %d %s, passed on: %+v", name, w.Code, w.Body, d.said)
		}
		d.as = reports.Late
		d.refused(name+", late", d.ask("POST", resultPath, `{"status":"done"}`), 409, "too late: the process that made this call ended")
		d.as, d.state.Reported = reports.Repeated, ledger.Dead // before the other owner took over
		if w := d.ask("POST", resultPath, `{"status":"dead"}`); w.Code != 200 {
			t.Errorf("%s, said again: %d %s", name, w.Code, w.Body)
		}
	}
	d := newDesk(t)
	d.state.Epoch = 9 // recorded by its owner, taken up by others
	if w := d.ask("POST", resultPath, `{"status":"dead"}`); w.Code != 202 || len(d.said) != 1 {
		t.Error(w.Code, w.Body, d.said)
	}
}

func TestActionAndEvent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.state.Reported = ledger.Dead
	w := d.ask("GET", actionPath, "")
	want := `{"id":"` + actionID + `","name":"run","subscription":"acme.triage","destination":"acme/coder","source":"/acme/github","event_id":"e-1",` +
		`"status":"processing","attempt":2,"attempts":2,"result_by":"2026-03-01T10:30:00Z","heartbeat_by":"2026-03-01T10:01:00Z","result":{"status":"dead","state":"recorded"}}`
	if w.Code != 200 || w.Body.String() != want+"\n" {
		t.Error(w.Code, w.Body)
	}
	path := "/v1/events/acme/github/e%2F1"
	token := d.keys.Event("acme", "github", "e/1")
	for name, w := range map[string]*httptest.ResponseRecorder{
		"header": d.ask("GET", path, "", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }),
		"query":  d.ask("GET", path+"?token="+token, "", func(r *http.Request) { r.Header.Del("Authorization") }),
	} {
		if w.Code != 200 || w.Body.String() != `{"team":"acme","source":"github","id":"e/1","status":"received","subscriptions":[]}`+"\n" {
			t.Error(name, w.Code, w.Body)
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.refused("no such path", d.ask("GET", "/v1/inbox", ""), 404, "nothing at this path")
	d.refused("a method", d.ask("GET", resultPath, ""), 405, "only POST")
	if w := d.ask("DELETE", actionPath, ""); w.Header().Get("Allow") != "GET" {
		t.Error(w.Header())
	}
	d.state.ID = "act_of_another_ledger"
	d.refused("another ledger", d.ask("POST", resultPath, `{"status":"done"}`), 404, "does not know this action")
	d.err = schemas.Errorf(schemas.NotFound, "read an action", "the ledger does not keep it any more")
	d.refused("forgotten", d.ask("GET", actionPath, ""), 404, "does not keep it any more")
	d.err = &schemas.Error{Kind: schemas.Unavailable, Op: "read", Err: errors.New("password of 10.0.0.7 refused")}
	w := d.ask("GET", actionPath, "")
	d.refused("away", w, 503, "does not answer now")
	if strings.Contains(w.Body.String(), "10.0.0.7") || w.Header().Get("Retry-After") == "" {
		t.Error(w.Body, w.Header())
	}
	rec := httptest.NewRecorder()
	NoLedger(rec, "https://agents.example.com")
	if rec.Header().Get("Connection") != "close" || d.ask("DELETE", actionPath, "").Header().Get("Connection") != "close" {
		t.Error("a refusal keeps the connection")
	}
	d.refused("no ledger", rec, 421, "ask https://agents.example.com: a process with the stream role")
}

// TestBodyIsNotReadWithoutAToken: a stranger's bytes cost nothing.
func TestBodyIsNotReadWithoutAToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := httptest.NewRequestWithContext(t.Context(), "POST", resultPath, unread{t})
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	d.refused("a stranger", w, 401, "")
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// An attempt of another ledger in the same place, of the same action even (its subscription was moved): nothing that is said of it reaches
// this ledger, and who says it is told where it belongs.
func TestAttemptsOfAnotherLedger(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	strange := func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+d.keys.Action([16]byte{8}, attempt, actionID, trace.Place{}).Reveal())
	}
	for path, body := range map[string]string{"POST /result": `{"status":"done"}`, "POST /heartbeat": "", "GET ": ""} {
		method, path, _ := strings.Cut(path, " ")
		w := d.ask(method, "/v1/actions/"+actionID+path, body, strange)
		if w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), "the action is in another ledger than this process's: send it to the process that made the call") {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	if len(d.said)+len(d.beats) > 0 {
		t.Errorf("the ledger was told %v and %v", d.said, d.beats)
	}
	if w := d.ask("POST", "/v1/actions/"+actionID+"/result", `{"status":"done"}`); w.Code != http.StatusAccepted {
		t.Errorf("its own attempt: %d %s", w.Code, w.Body)
	}
}
