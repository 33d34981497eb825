package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// ratedWorld is the handler of a listener on which ann and bob have tokens of their names.
func ratedWorld(t *testing.T) http.Handler {
	t.Helper()
	cfg := Config{}
	(&world{}).config(&cfg)
	cfg.Access = &Access{Who: func(_ context.Context, token string) (*access.Who, error) {
		if token == "ann" || token == "bob" {
			return &access.Who{Name: token, Role: "viewer"}, nil
		}
		return nil, schemas.Errorf(schemas.Unauthenticated, "", "the token is not known")
	}}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func asksAs(t *testing.T, h http.Handler, token, from string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/sources", nil)
	r.RemoteAddr = from + ":1234"
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestWhoAsksTooOften: a token is answered so often, wherever it comes from; an address without one that opens, so often; nobody for another.
func TestWhoAsksTooOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := ratedWorld(t)
		for _, tt := range []struct {
			token string
			most  int
			every int
			want  int
		}{{"ann", asksAtOnce, asksEvery, http.StatusOK}, {"wrong", strangersMost, strangersEach, http.StatusUnauthorized}} {
			for n := range tt.most {
				if w := asksAs(t, h, tt.token, "192.0.2.1"); w.Code != tt.want {
					t.Fatalf("%s: question %d: %d", tt.token, n, w.Code)
				}
			}
			w := asksAs(t, h, tt.token, "192.0.2.1")
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"kind":"throttled"`) || strings.Contains(w.Body.String(), "wrong") {
				t.Errorf("%s: %d %v %s", tt.token, w.Code, w.Header(), w.Body)
			}
			if w := asksAs(t, h, "bob", "192.0.2.1"); w.Code != http.StatusOK {
				t.Errorf("bob is not answered: %d", w.Code)
			}
			if w := asksAs(t, h, "wrong", "192.0.2.2"); w.Code != http.StatusUnauthorized {
				t.Errorf("another address: %d", w.Code)
			}
			time.Sleep(time.Second)
			answered := 0
			for asksAs(t, h, tt.token, "192.0.2.1").Code == tt.want {
				answered++
			}
			if answered != tt.every {
				t.Errorf("%s: a second later, %d are answered", tt.token, answered)
			}
		}
	})
}

// TestClientWaits: who asks too often is told when to ask again, and the client does so, with what it had sent; not for ever.
func TestClientWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		after, refuse, times, sent := "2", 3, 0, ""
		c, err := NewClient("http://localhost")
		if err != nil {
			t.Fatal(err)
		}
		c.http = &http.Client{Transport: inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var b [100]byte
			n, _ := r.Body.Read(b[:])
			if times, sent = times+1, string(b[:n]); times <= refuse {
				w.Header().Set("Retry-After", after)
				write(w, http.StatusTooManyRequests, Problem{Status: http.StatusTooManyRequests, Detail: "too often", Kind: string(schemas.Throttled)})
				return
			}
			write(w, http.StatusOK, map[string]any{})
		}), slog.New(slog.DiscardHandler)}}
		began := time.Now()
		if _, err := c.PlanReplay(t.Context(), ReplayPlan{Team: "acme"}); err != nil || times != 4 || !strings.Contains(sent, "acme") || time.Since(began) != 6*time.Second {
			t.Errorf("%v, asked %d times, sent %q, after %s", err, times, sent, time.Since(began))
		}
		for _, refused := range []string{"", "x", "-1", "3600"} {
			after, refuse, times = refused, 100, 0
			if _, err := c.Sources(t.Context()); schemas.KindOf(err) != schemas.Throttled || times != 1 {
				t.Errorf("Retry-After %q: %v, asked %d times", refused, err, times)
			}
		}
		after, times = "1", 0
		if _, err := c.Sources(t.Context()); schemas.KindOf(err) != schemas.Throttled || times != mostWaits+1 {
			t.Errorf("%v, asked %s times", err, strconv.Itoa(times))
		}
	})
}

// TestClientStopsWaiting: who asks too often and gives up while waiting has asked for nothing, whatever was sent before.
func TestClientStopsWaiting(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	c, err := NewClient(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.http = &http.Client{Transport: afterwards{s.Client().Transport, cancel}}
	if _, err := c.PlanReplay(ctx, ReplayPlan{Team: "acme"}); !errors.Is(err, context.Canceled) || Unanswered(err) {
		t.Errorf("%v", err)
	}
}

// afterwards does something once a request is answered.
type afterwards struct {
	http.RoundTripper
	do func()
}

func (a afterwards) RoundTrip(r *http.Request) (*http.Response, error) {
	defer a.do()
	return a.RoundTripper.RoundTrip(r)
}
