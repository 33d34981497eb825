package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

const apiToken = "ghp_s3cr3t"

// fakeAPI is what backfills and thin sources ask: GitHub's pull requests as its REST API gives them, and the revisions
// of a shop's orders. Faults come first, one a request.
type fakeAPI struct {
	*httptest.Server
	mu     sync.Mutex
	pulls  map[int]string // number: updated_at
	orders map[string][]int
	faults []http.HandlerFunc
	asked  []string // method, path and query of every request, in order
	hang   chan struct{}
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	a := &fakeAPI{pulls: map[int]string{}, orders: map[string][]int{}, hang: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repositories/186853002/pulls/{number}", a.pull)
	mux.HandleFunc("GET /orders/{order}/revisions", a.revisions)
	mux.HandleFunc("GET /orders/{order}", a.order)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := a.next(r); fault != nil {
			fault(w, r)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+apiToken || r.Header.Get("User-Agent") == "" {
			a.fail(w, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(a.hang); a.Close() })
	return a
}

// next notes a request and takes the fault that it meets.
func (a *fakeAPI) next(r *http.Request) (fault http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Method+" "+r.RequestURI)
	if len(a.faults) > 0 {
		fault, a.faults = a.faults[0], a.faults[1:]
	}
	return fault
}

func (a *fakeAPI) breaks(faults ...http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = faults
}

func (a *fakeAPI) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// fail answers as GitHub does.
func (a *fakeAPI) fail(w http.ResponseWriter, code int, header ...string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"message":%q,"documentation_url":"https://docs.github.com/rest"}`, http.StatusText(code))
}

func (a *fakeAPI) status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { a.fail(w, code, header...) }
}

// says answers 200 with a body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

// cut ends the connection in the middle of the body.
func cut(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[{\"order\":")
		c.Close()
	}
}

func (a *fakeAPI) late(http.ResponseWriter, *http.Request) { <-a.hang }

func pullJSON(number int, updatedAt string) map[string]any {
	return map[string]any{
		"id": 1000 + number, "number": number, "state": "open", "updated_at": updatedAt, "title": "Ünïcode & <b>",
		"base": map[string]any{"repo": map[string]any{"id": 186853002, "name": "hello", "owner": map[string]any{"login": "octo"}}},
	}
}

func (a *fakeAPI) pull(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.PathValue("number"))
	a.mu.Lock()
	updated, ok := a.pulls[number]
	a.mu.Unlock()
	if !ok {
		a.fail(w, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(pullJSON(number, updated))
}

// revisions gives the revisions of an order from..to, wrapped.
func (a *fakeAPI) revisions(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	to, _ := strconv.Atoi(r.URL.Query().Get("to"))
	a.mu.Lock()
	defer a.mu.Unlock()
	items := []any{}
	for _, rev := range a.orders[r.PathValue("order")] {
		if from <= rev && rev <= to {
			items = append(items, map[string]any{"type": "order", "order": r.PathValue("order"), "rev": rev})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"revisions": items, "at": time.Now()})
}

// order is the whole of an order, of a type of its own.
func (a *fakeAPI) order(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	revs, ok := a.orders[r.PathValue("order")]
	a.mu.Unlock()
	if !ok {
		a.fail(w, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.shop.order+json")
	fmt.Fprintf(w, `{"order":%q,"rev":%d,"lines":[1,2,3]}`, r.PathValue("order"), revs[len(revs)-1])
}
