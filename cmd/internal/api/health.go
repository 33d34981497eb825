package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewHealth makes the handler of the health listener: /livez, /readyz and /metrics for whoever reaches it, under any name, and nothing
// else. Probes and Prometheus ask it from other hosts. live is nil, or returns why the process does not live.
func NewHealth(live func() error, ready func(ctx context.Context, notes bool) []Check, g prometheus.Gatherer) http.Handler {
	mux := probes(live, ready, func(*http.Request) bool { return true })
	mux.Handle("GET /metrics", metrics(g))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, Problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound,
			Detail: "this listener has /livez, /readyz and /metrics; all else is asked at listen.operator"})
	})
	return mux
}

// Live is the answer of /livez.
type Live struct {
	Live  bool   `json:"live"`
	Error string `json:"error,omitempty"` // why not
}

// probes are what says whether the process lives, and whether its roles can work, or with ?role= whether one of them can. Why not, which has
// names of teams, is told to those alone of whom tells is true.
func probes(live func() error, ready func(ctx context.Context, notes bool) []Check, tells func(r *http.Request) bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if live != nil {
			if err := live(); err != nil {
				write(w, http.StatusServiceUnavailable, Live{Error: err.Error()})
				return
			}
		}
		write(w, http.StatusOK, Live{Live: true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := OnlyKnown(r, "role"); err != nil { // which would ask about all roles
			write(w, http.StatusBadRequest, Problem{Type: "about:blank", Title: "Bad Request", Status: http.StatusBadRequest, Detail: err.Error()})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		role := r.URL.Query().Get("role")
		told := tells(r)
		body := readinessOf(ready(ctx, told), role)
		if !told {
			body.Checks = []Check{}
		}
		switch {
		case role != "" && len(body.Roles) == 0:
			write(w, http.StatusNotFound, Problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound,
				Detail: "this process does not have the role that is asked about"})
		case body.Ready:
			write(w, http.StatusOK, body)
		default:
			write(w, http.StatusServiceUnavailable, body)
		}
	})
	return mux
}

// readinessOf sums checks up: of all roles, or of one. A check without a role is for every role.
func readinessOf(checks []Check, role string) Readiness {
	body := Readiness{Ready: true, Roles: map[string]bool{}, Checks: []Check{}}
	for _, c := range checks {
		if c.Role != "" && (role == "" || role == c.Role) {
			body.Roles[c.Role] = true
		}
	}
	for _, c := range checks {
		if role != "" && c.Role != "" && c.Role != role {
			continue
		}
		body.Checks = append(body.Checks, c)
		if c.OK {
			continue
		}
		body.Ready = false
		for name := range body.Roles {
			if c.Role == "" || c.Role == name {
				body.Roles[name] = false
			}
		}
	}
	return body
}

// Probes reports whether a request asks how the process is, as Kubernetes does.
func Probes(r *http.Request) bool {
	return (r.URL.Path == "/livez" || r.URL.Path == "/readyz") && r.Body == http.NoBody
}

// metrics answers with what one request at a time gathers. Those that wait meanwhile, and take the same form, share what is gathered next.
func metrics(g prometheus.Gatherer) http.Handler {
	gathers := promhttp.HandlerFor(g, promhttp.HandlerOpts{})
	turn := make(chan struct{}, 1) // holds one while somebody gathers; never closed
	var began time.Time            // when found was gathered, and for whom
	var accepts string
	var found *kept
	gather := func(r *http.Request, came time.Time) *kept {
		defer func() { <-turn }()
		if as := fmt.Sprint(r.Header["Accept"], r.Header["Accept-Encoding"]); !began.After(came) || accepts != as {
			began, accepts, found = time.Now(), as, newKept()
			gathers.ServeHTTP(found, r)
		}
		return found
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := time.Now()
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		answer := gather(r, came)
		maps.Copy(w.Header(), answer.header)
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body.Bytes())
	})
}
