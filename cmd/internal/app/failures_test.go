package app

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/stream/sink"
)

// meeting is a destination at which a row of the failure table is met, and the entities of the events that meet it.
type meeting struct {
	row      string
	url      string
	extra    string // of the destination, as YAML
	entities []string
	status   string // of the event in the end
	attempts func(entity string) []string
}

// testedElsewhere are the rows that no destination can bring about, and the tests that do.
var testedElsewhere = map[sink.Class]string{
	sink.ClassPayload: "suite: TestOpenWorkOutlivesTheLog; lane: TestPayloadLostIsDead",
	sink.ClassDropped: "lane: TestRateOfADestination",
	sink.ClassOrder:   "lane: TestRedriveThatCannotBeToldIsDead; ledger: TestOvertakenEndsInTime",
	sink.ClassBug:     "lane: TestPanicIsOurFault",
}

// TestFailureTableInTheLedger meets every row of the failure table through a whole process, with real servers behind the
// http sink: what the event's status is in the end, and which attempts are on record. What is retried fails once and then
// does well, or uses up its attempts where it cannot.
func TestFailureTableInTheLedger(t *testing.T) {
	t.Parallel()
	meetings := failing(t)
	for _, row := range sink.Failures() {
		if testedElsewhere[row.Class] == "" && !slices.ContainsFunc(meetings, func(m meeting) bool { return m.row == row.What }) {
			t.Errorf("nobody meets %q", row.What)
		}
	}
	r := deploy(t, newAgent(t).URL, newLedger(t), false)
	r.text = strings.Replace(r.text, "partitions: 3", "partitions: 1", 1) // of which each row has one
	var destinations, subscriptions strings.Builder
	for i, m := range meetings {
		if m.extra == "" {
			m.extra = "timeout: 1m, retry: {attempts: 2, min: 10ms, max: 50ms}, allow_networks: [127.0.0.0/8]"
		}
		fmt.Fprintf(&destinations, "      d%d: {type: http, url: %q, %s}\n", i, m.url, m.extra)
		fmt.Fprintf(&subscriptions, "      s%d: {sources: [orders], types: [t%d], begin: all, actions: [{name: run, to: d%d}]}\n", i, i, i)
	}
	r.text = strings.Replace(r.text, "    subscriptions:\n", destinations.String()+"    subscriptions:\n"+subscriptions.String(), 1)
	r.edit = func(c *config.Config) { // a name that leads where it may not: of localhost config.Load would say so
		for i, m := range meetings {
			if strings.HasPrefix(m.url, "https://localhost:") {
				c.Teams["acme"].Destinations[fmt.Sprint("d", i)].AllowNetworks = nil
			}
		}
	}
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)
	for i, m := range meetings {
		for _, entity := range m.entities {
			p.accepted("orders", "orders-secret", &verify.Request{
				Method: "POST", Body: fmt.Appendf(nil, `{"type":"t%d","order":%q,"rev":1}`, i, entity),
				Header: http.Header{"Content-Type": {"application/json"}, "X-Event-Id": {fmt.Sprintf("d%d-%s", i, entity)}},
			})
		}
	}
	for i, m := range meetings {
		for _, entity := range m.entities {
			t.Run(m.row+"/"+entity, func(t *testing.T) { p.checkRow(t, i, m, entity) })
		}
	}
	p.clean()
}

// checkRow waits for an event's end and holds it to what its row says.
func (p *process) checkRow(t *testing.T, i int, m meeting, entity string) {
	t.Helper()
	var item *api.InboxDetail
	var err error
	if !rig.Until(time.Minute, func() bool {
		item, err = p.api.Item(t.Context(), "acme", fmt.Sprintf("s%d", i), "orders", fmt.Sprintf("d%d-%s", i, entity))
		return err == nil && item.Status == m.status // else it is not decided yet
	}) {
		t.Fatalf("never %s: %+v %v", m.status, item, err)
	}
	var got []string
	for _, a := range item.Actions[0].Attempts {
		got = append(got, strings.TrimSpace(a.Class+" "+strconv.Itoa(a.Code)))
	}
	if diff := cmp.Diff(m.attempts(entity), got); diff != "" {
		t.Errorf("attempts (-want +got)\n%s", diff)
	}
	if at := item.Actions[0].Attempts; slices.Contains([]string{"429", "503"}, entity) && at[1].At.Sub(at[0].At) < time.Second {
		t.Errorf("tried again %s after the first attempt, the answer said a second", at[1].At.Sub(at[0].At))
	}
}

// statusesOf are statuses that a row is met with; which row each belongs to is tested in package sink. 202 is another matter: it may mean that the work goes on.
var statusesOf = map[string][]int{
	"2xx": {204}, "401, 403": {403}, "404": {404}, "410": {410}, "429": {429}, "503": {503},
	"408, 425, other 5xx": {408, 599}, "400, 422, any other status, redirects among them": {307, 422, 999},
}

func failing(t *testing.T) []meeting {
	t.Helper()
	var all []meeting
	for _, row := range sink.Failures() {
		if len(row.Codes) == 0 {
			continue
		}
		codes := statusesOf[row.What]
		if len(codes) == 0 {
			t.Errorf("no status is of %q", row.What)
		}
		m := meeting{row: row.What, url: inTurn(t, byStatus(row.Then == sink.ThenRetried)).URL}
		for _, code := range codes {
			m.entities = append(m.entities, strconv.Itoa(code))
		}
		m.attempts = func(entity string) []string {
			first := strings.TrimSpace(string(row.Class) + " " + entity)
			if row.Then == sink.ThenRetried {
				return []string{first, "200"}
			}
			return []string{first}
		}
		if m.status = "done"; row.Then == sink.ThenDead {
			m.status = "dead_letter"
		}
		if row.Hold { // Retry-After counts for no more than the longest delay
			m.extra = "retry: {attempts: 2, min: 10ms, max: 1m}, allow_networks: [127.0.0.0/8]"
		}
		all = append(all, m)
	}
	return append(all, failingWithoutStatus(t)...)
}

// byStatus answers with the status that the entity is, once or always, then with 200.
func byStatus(once bool) func(w http.ResponseWriter, r *http.Request, entity string, call int) {
	return func(w http.ResponseWriter, r *http.Request, entity string, call int) {
		code, _ := strconv.Atoi(entity)
		if once && call > 1 {
			code = http.StatusOK
		}
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(code)
	}
}

func failingWithoutStatus(t *testing.T) []meeting {
	t.Helper()
	const ok = "200"
	always := func(list ...string) func(string) []string { return func(string) []string { return list } }
	broken := inTurn(t, func(w http.ResponseWriter, r *http.Request, entity string, call int) {
		switch {
		case call > 1:
		case entity == "reset":
			panic(http.ErrAbortHandler)
		case entity == "cut":
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-")
			conn.Close()
		case entity == "half":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half an ans")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default: // silent
			<-r.Context().Done()
		}
	})
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	_, port, _ := net.SplitHostPort(broken.Listener.Addr().String())
	const network = "a connection that is refused, reset or cut off, or fails in TLS"
	return []meeting{
		{row: "no answer in time", url: broken.URL, extra: "timeout: 2s, retry: {attempts: 2, min: 10ms, max: 50ms}, allow_networks: [127.0.0.0/8]",
			entities: []string{"silent"}, status: "done", attempts: always("timeout 0", ok)},
		{row: network, url: broken.URL, entities: []string{"reset"}, status: "done", attempts: always("network 0", ok)},
		{row: network, url: broken.URL, entities: []string{"cut"}, status: "done", attempts: always("network 0", ok)},
		{row: network, url: broken.URL, entities: []string{"half"}, status: "done", attempts: always("network 200", ok)},
		{row: network, url: "http://" + rig.FreeAddress(t), entities: []string{"refused"}, status: "dead_letter", attempts: always("network 0", "network 0")},
		{row: network, url: untrusted.URL, entities: []string{"tls"}, status: "dead_letter", attempts: always("network 0", "network 0")},
		// A label of 64 letters is no name: nobody is asked for it.
		{row: "a name that does not resolve, or a name server that does not answer", url: "https://" + strings.Repeat("a", 64) + ".example", extra: "retry: {attempts: 7, min: 10ms, max: 50ms}",
			entities: []string{"nowhere"}, status: "dead_letter", attempts: always(slices.Repeat([]string{"dns 0"}, sink.ClassDNS.Most())...)},
		{row: "an address that Forebay's own guard refuses", url: "https://localhost:" + port, extra: "retry: {attempts: 7, min: 10ms, max: 50ms}, allow_networks: [127.0.0.0/8]",
			entities: []string{"inner"}, status: "dead_letter", attempts: always("forbidden 0")},
		{row: "a template that fails on the event", url: broken.URL, extra: `params: {body: "{{body.missing.deeply}}"}, allow_networks: [127.0.0.0/8]`,
			entities: []string{"template"}, status: "dead_letter", attempts: always("template 0")},
	}
}

// inTurn is a destination that tells its handler whose event it is and which call of it.
func inTurn(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, entity string, call int)) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	calls := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entity := r.Header.Get("Ce-Partitionkey")
		mu.Lock()
		calls[entity]++
		n := calls[entity]
		mu.Unlock()
		answer(w, r, entity, n)
	}))
	t.Cleanup(server.Close)
	return server
}
