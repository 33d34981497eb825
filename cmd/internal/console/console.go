package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

//go:embed templates static
var files embed.FS

const (
	pageTimeout = 20 * time.Second // as the API has for an answer
	partTimeout = 5 * time.Second  // of a part of the overview: the others are shown without it
	maxForm     = 64 << 10         // bytes of a form
)

// policy lets a page load its own stylesheet and script, and nothing else. Whatever a sender manages to put into a page, no browser runs it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Config is what the pages are made from. All of it but Login and Logger is required.
type Config struct {
	API      *api.Client                                       // of [api.InProcess]: a page asks as the person does who looks at it
	Ready    func(ctx context.Context, notes bool) []api.Check // what must work before the process is ready, and with notes what waits
	Stream   bool                                              // the process has the stream role; without it, pages of the ledger say whom to ask
	Gatherer prometheus.Gatherer                               // of what the pages count
	Roles    []config.Role                                     // what the process does; may be nil
	Login    *Login                                            // nil: nobody has to log in, and whoever looks may see and do everything
	Logger   *slog.Logger                                      // nil logs nothing
}

// Console answers for the pages. It is safe for concurrent use.
type Console struct {
	Config
	pages   map[string]*template.Template // by name: each with the layout
	lags    lags
	hour    lastHour
	seeking chan struct{} // holds one while somebody asks for a seek; never closed
	handler http.Handler

	attempts, allAttempts *access.Rates // to log in: of each address, and of all
	visits, strays        *access.Rates // pages of each session and each person, and cookies that open nothing of each address
	sessions              knownSessions
	refusals              refusals // of logins

	liveEvery time.Duration
	looks     looks
	watching  chan struct{} // holds one for each live view; never closed
	watchers  watchers
	ended     chan struct{} // Run closes it: live views end, or a stop would wait for them
}

// ServeHTTP answers for everything below /console/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run keeps the counters of the last hour, until ctx is done, and ends the live views then. It may be called once.
func (c *Console) Run(ctx context.Context) {
	defer close(c.ended)
	c.hour.run(ctx)
}

// New makes the pages.
func New(cfg Config) (*Console, error) {
	if cfg.API == nil || cfg.Ready == nil || cfg.Gatherer == nil {
		return nil, errors.New("console: API, Ready and Gatherer are all required, and one is nil")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	pages, err := parsed()
	if err != nil {
		return nil, err
	}
	c := &Console{Config: cfg, pages: pages, lags: lags{asking: make(chan struct{}, 1), known: map[string]knownLag{}}, hour: lastHour{gather: cfg.Gatherer, grown: map[int64]map[counter]float64{}}, seeking: make(chan struct{}, 1),
		liveEvery: liveEvery, watching: make(chan struct{}, liveAtOnce), watchers: watchers{open: map[string]int{}}, ended: make(chan struct{}),
		attempts: access.NewRates(everyOfOne, attemptsOfOne), allAttempts: access.NewRates(everyOfAll, attemptsOfAll),
		visits: access.NewRates(visitsEvery, visitsAtOnce), strays: access.NewRates(straysEvery, straysAtOnce),
		sessions: knownSessions{all: map[[32]byte]struct{}{}}, refusals: refusals{rates: access.NewRates(refusalsEvery, refusalsAtOnce)}}
	c.looks = looks{ask: c.API.Items, render: c.inboxRow, every: liveEvery, found: map[string]*found{}}
	mux := http.NewServeMux()
	for pattern, answer := range c.routes() {
		mux.HandleFunc(pattern, answer)
	}
	c.handler = c.guarded(c.entrance(mux))
	return c, nil
}

// parsed returns the pages by name, each with the layout. They are the same for every console.
var parsed = sync.OnceValues(func() (map[string]*template.Template, error) {
	pages := map[string]*template.Template{}
	for _, name := range pageNames {
		t, err := template.New("layout.html").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("console page %s: %w", name, err)
		}
		pages[name] = t
	}
	return pages, nil
})

// routes returns what answers at which path, by the patterns of http.ServeMux.
func (c *Console) routes() map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{
		"GET /console/static/":        static().ServeHTTP,
		"GET /console/{$}":            c.page("overview", "Overview", c.overview),
		"GET /console/attention":      c.page("attention", "Attention", c.attention),
		"GET /console/inbox":          c.page("inbox", "Inbox", c.inbox),
		"GET /console/inbox/live":     c.liveInbox,
		"GET /console/event":          c.page("event", "Event", c.event),
		"GET /console/event/raw":      c.rawEvent,
		"GET /console/entity":         c.page("entity", "Entity", c.entity),
		"GET /console/dlq":            c.page("dlq", "Dead letters", c.deadLetters),
		"GET /console/dlq/progress":   c.page("dlqprogress", "How far it is", c.progress),
		"GET /console/event/redrive":  c.page("redrive", "Redrive an event", c.planRedrive),
		"POST /console/event/redrive": c.page("redrive", "Redrive an event", c.redrive),
		"GET /console/gaps":           c.page("gaps", "Gaps", c.gaps),
		"GET /console/quarantine":     c.page("quarantine", "Quarantine", c.quarantine),
		"GET /console/quarantine/{team}/{source}/{partition}/{offset}":     c.page("delivery", "Delivery in quarantine", c.delivery),
		"GET /console/quarantine/{team}/{source}/{partition}/{offset}/raw": c.rawDelivery,
		"POST /console/quarantine/{team}/{source}/{partition}/{offset}":    c.page("delivery", "Delivery in quarantine", c.redriveDelivery),
		"GET /console/subscriptions":                                       c.page("subscriptions", "Subscriptions", c.subscriptionList),
		"GET /console/subscriptions/{team}/{subscription}":                 c.page("subscription", "Subscription", c.subscription),
		"POST /console/subscriptions/{team}/{subscription}/pause":          c.page("subscription", "Subscription", c.steer(c.API.PauseSubscription)),
		"POST /console/subscriptions/{team}/{subscription}/resume":         c.page("subscription", "Subscription", c.steer(c.API.ResumeSubscription)),
		"GET /console/subscriptions/{team}/{subscription}/seek":            c.page("seek", "Move a position", c.planSeek),
		"POST /console/subscriptions/{team}/{subscription}/seek":           c.page("seek", "Move a position", c.seek),
		"GET /console/subscriptions/{team}/{subscription}/accept":          c.page("accept", "Accept a stop", c.planAccept),
		"POST /console/subscriptions/{team}/{subscription}/accept":         c.page("accept", "Accept a stop", c.accept()),
		"GET /console/destinations":                                        c.page("destinations", "Destinations", c.destinations),
		"GET /console/sources":                                             c.page("sources", "Sources", c.sourceList),
		"GET /console/sources/{team}/{source}":                             c.page("source", "Source", c.source),
		"GET /console/sources/{team}/{source}/test":                        c.page("sourcetest", "Send a test", c.newTest),
		"POST /console/sources/{team}/{source}/test":                       c.page("sourcetest", "Send a test", c.sendTest),
		"GET /console/approvals":                                           c.page("approvals", "Approvals", c.approvals),
		"GET /console/approvals/{approval}":                                c.page("approval", "Approval", c.approval),
		"POST /console/approvals/{approval}/approve":                       c.page("approval", "Approval", c.answer(api.VerbApprove)),
		"POST /console/approvals/{approval}/deny":                          c.page("approval", "Approval", c.answer(api.VerbDeny)),
		"GET /console/replays":                                             c.page("replays", "Replays", c.replays),
		"GET /console/replays/{replay}":                                    c.page("replay", "Replay", c.replay),
		"POST /console/replays/{replay}/start":                             c.page("replay", "Replay", c.askReplay("start")),
		"POST /console/replays/{replay}/cancel":                            c.page("replay", "Replay", c.askReplay("cancel")),
		"GET /console/schemas":                                             c.page("schemas", "Schemas", c.schemas),
		"GET /console/schemas/{name}":                                      c.page("schema", "Schema", c.schema),
		"GET /console/audit":                                               c.page("audit", "Audit", c.audit),
		"GET /console/health":                                              c.page("health", "Health", c.health),
		"/console/": c.page("problem", "Nothing here", func(_ context.Context, r *http.Request) (any, error) {
			return nil, schemas.Errorf(schemas.NotFound, "", "nothing at %s", r.URL.Path)
		}),
	}
	for verb, w := range verbs {
		routes["GET /console/dlq/"+verb] = c.page("dlqask", w.Title, c.planAsk(verb))
		routes["POST /console/dlq/"+verb] = c.page("dlqask", w.Title, c.askAll(verb))
	}
	for _, at := range []string{"/console/destinations/{team}/{destination}", "/console/destinations/{destination}"} { // a shared one has no team
		routes["GET "+at] = c.page("destination", "Destination", c.destination)
		routes["POST "+at+"/pause"] = c.page("destination", "Destination", c.hold(c.API.Pause))
		routes["POST "+at+"/resume"] = c.page("destination", "Destination", c.hold(c.API.Resume))
	}
	return routes
}

// guarded sets the headers that hold for every answer.
func (c *Console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // entities and ids are in the URLs
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if c.Login != nil && c.Login.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000") // a year
		}
		next.ServeHTTP(w, r)
	})
}

// static serves the stylesheet and the script.
func static() http.Handler {
	serve := http.StripPrefix("/console/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // they change with the binary
		serve.ServeHTTP(w, r)
	})
}

// view is what the layout shows of a page.
type view struct {
	Title, Path string
	Nav         []group
	Banner      []notice
	Problem     string // why there is no page, or not all of it
	Data        any    // of the page's template; nil: there is the problem alone
	Person      *person
	session     *session
	who         *access.Who // who looks
}

// group is entries of the navigation that belong together.
type group struct {
	Name   string
	Places []place
}

// place is an entry of the navigation.
type place struct {
	Name, Path string
	Right      access.Right // that who looks must have; empty: everybody sees it
	Here       string       // what a screen reader is told: page, if it is the page that is shown, true, if that is below it; empty elsewhere
}

var places = []group{
	{"Look", []place{{Name: "Overview", Path: "/console/"}, {Name: "Inbox", Path: "/console/inbox"}, {Name: "Attention", Path: "/console/attention"}}},
	{"Fix", []place{{Name: "Approvals", Path: "/console/approvals"}, {Name: "Dead letters", Path: "/console/dlq"}, {Name: "Gaps", Path: "/console/gaps"}, {Name: "Quarantine", Path: "/console/quarantine"}, {Name: "Replays", Path: "/console/replays"}}},
	{"Steer", []place{{Name: "Sources", Path: "/console/sources"}, {Name: "Subscriptions", Path: "/console/subscriptions"}, {Name: "Destinations", Path: "/console/destinations"}, {Name: "Schemas", Path: "/console/schemas"}}},
	{"Check", []place{{Name: "Audit", Path: "/console/audit", Right: access.Audit}, {Name: "Health", Path: "/console/health"}}},
}

// navigation returns the entries as a page at a path has them for somebody.
func navigation(path string, who *access.Who) (groups []group) {
	for _, g := range places {
		g.Places = slices.DeleteFunc(slices.Clone(g.Places), func(p place) bool { return p.Right != "" && !who.May(p.Right) })
		for i := range g.Places {
			switch p := &g.Places[i]; {
			case p.Path == path:
				p.Here = "page"
			case p.Path != "/console/" && strings.HasPrefix(path, p.Path+"/"):
				p.Here = "true"
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// pageNames are the templates that are pages.
var pageNames = []string{"overview", "inbox", "event", "entity", "attention", "dlq", "dlqask", "dlqprogress", "redrive", "gaps", "quarantine", "delivery", "subscriptions", "subscription", "seek", "accept", "destinations", "destination", "sources", "source", "sourcetest", "replays", "replay", "approvals", "approval", "schemas", "schema", "audit", "health", "problem", "login"}

// page makes the handler of a page: ask returns what its template shows. With an error it may return that, too: the page is shown with the
// problem then.
func (c *Console) page(name, title string, ask func(ctx context.Context, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		v := view{Title: title, Path: r.URL.Path, Nav: navigation(r.URL.Path, api.Asks(ctx))}
		var err error
		v.Data, err = ask(ctx, r)
		if to, ok := v.Data.(seeOther); ok && err == nil {
			http.Redirect(w, r, string(to), http.StatusSeeOther)
			return
		}
		status := http.StatusOK
		if err != nil {
			if status, v.Problem = api.Status(err), err.Error(); errors.Is(ctx.Err(), context.DeadlineExceeded) {
				v.Problem = fmt.Sprintf("this was not answered within %s: %s", pageTimeout, v.Problem)
			}
		}
		shown := name
		if v.Data == nil {
			shown = "problem"
		}
		v.Banner = c.banner(r.Context()) // behind the page: it may have paused or resumed something
		c.write(w, shown, status, v.seenBy(r))
	}
}

// write renders a page and writes it whole, or an error.
func (c *Console) write(w http.ResponseWriter, name string, status int, v view) {
	var b bytes.Buffer
	if err := c.pages[name].Execute(&b, v); err != nil {
		c.Logger.Error("console page cannot be rendered", "page", name, "error", err)
		http.Error(w, "the page cannot be rendered; the log of this process says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(withFormField(visible(b.Bytes()), v.session))
}
