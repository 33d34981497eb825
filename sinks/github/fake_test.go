package github_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

const (
	token = "github_pat_000000000000"
	repo  = "octo-org/hello"
)

// fake is one repository with issue 7.
type fake struct {
	mu         sync.Mutex
	issues     []thing // oldest first
	comments   []thing // of issue 7
	labels     []string
	dispatches []map[string]any
	calls      []string // method, path and query
	headers    http.Header
	page       int           // most that a page has; 0: as asked
	lag        time.Duration // how long a list lacks what was made
}

type thing struct {
	Number  int       `json:"number"`
	HTMLURL string    `json:"html_url"`
	Title   string    `json:"title,omitempty"`
	Body    *string   `json:"body"`
	Labels  []string  `json:"-"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
	made    time.Time
}

var _ sinktest.Fake = (*fake)(nil)

// Done is how often the first action's effect is there.
func (f *fake) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := string(sinktest.Action(1).ID)
	n := 0
	for _, t := range slices.Concat(f.issues, f.comments) {
		if t.Body != nil && strings.Contains(*t.Body, id) {
			n++
		}
	}
	for _, d := range f.dispatches {
		if text, _ := json.Marshal(d); strings.Contains(string(text), id) {
			n++
		}
	}
	if slices.Contains(f.labels, "triage") {
		n++
	}
	return n
}

func (f *fake) put(list *[]thing, title, body string, at time.Time) thing {
	n := len(f.issues) + len(f.comments) + 1
	t := thing{Number: n, Title: title, Body: &body, Created: at, Updated: at, made: time.Now(), HTMLURL: fmt.Sprintf("https://github.com/%s/issues/%d", repo, n)}
	*list = append(*list, t)
	return t
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.String())
	f.headers = r.Header
	var in struct {
		Title, Body, EventType string
		Labels, Assignees      []string
		Type                   string         `json:"event_type"`
		Payload                map[string]any `json:"client_payload"`
	}
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		answer(w, 400, map[string]any{"message": "Problems parsing JSON"})
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v3/repos/"+repo)
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		answer(w, 401, map[string]any{"message": "Bad credentials"})
	case r.Header.Get("X-Github-Api-Version") == "":
		answer(w, 400, map[string]any{"message": "no version"})
	case !ok:
		answer(w, 404, map[string]any{"message": "Not Found"})
	case path == "/issues" && r.Method == http.MethodPost:
		t := f.put(&f.issues, in.Title, in.Body, time.Now().UTC().Truncate(time.Second))
		f.issues[len(f.issues)-1].Labels = slices.Concat(in.Labels, in.Assignees)
		answer(w, 201, t)
	case path == "/issues":
		newest := slices.Clone(f.issues)
		slices.Reverse(newest)
		f.list(w, r, newest)
	case path == "/issues/7/comments" && r.Method == http.MethodPost:
		answer(w, 201, f.put(&f.comments, "", in.Body, time.Now().UTC().Truncate(time.Second)))
	case path == "/issues/7/comments":
		f.list(w, r, f.comments)
	case path == "/issues/7/labels":
		for _, l := range in.Labels {
			if !slices.Contains(f.labels, l) {
				f.labels = append(f.labels, l)
			}
		}
		answer(w, 200, []any{})
	case path == "/dispatches":
		f.dispatches = append(f.dispatches, map[string]any{"event_type": in.Type, "client_payload": in.Payload})
		answer(w, 204, nil)
	default:
		answer(w, 404, map[string]any{"message": "Not Found"})
	}
}

func (f *fake) list(w http.ResponseWriter, r *http.Request, all []thing) {
	q := r.URL.Query()
	since, err := time.Parse(time.RFC3339, q.Get("since"))
	if err != nil {
		answer(w, 422, map[string]any{"message": "since"})
		return
	}
	all = slices.DeleteFunc(slices.Clone(all), func(t thing) bool { return t.Updated.Before(since) || time.Since(t.made) < f.lag })
	size, _ := strconv.Atoi(q.Get("per_page"))
	if f.page > 0 {
		size = f.page
	}
	page, _ := strconv.Atoi(q.Get("page"))
	from, to := min(len(all), (page-1)*size), min(len(all), page*size)
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<https://api.github.com/x?page=%d>; rel="next", <https://api.github.com/x?page=9>; rel="last"`, page+1))
	}
	answer(w, 200, all[from:to])
}
