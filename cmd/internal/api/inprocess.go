package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// InProcess returns a client of the questions of cfg that goes over no network: each is answered, refused and kept in the audit as over the
// wire. Who asks is what [As] has put into the context; else it is whoever may ask without a token.
func InProcess(cfg Config) (*Client, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	s.mountQuestions(mux)
	c, err := NewClient("http://localhost") // of the questions, only the path is read
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: inProcess{mux, s.Logger}, CheckRedirect: c.http.CheckRedirect}
	return c, nil
}

// As returns a context in which a client of [InProcess] asks as somebody.
func As(ctx context.Context, w *access.Who) context.Context {
	return context.WithValue(ctx, whoKey{}, w)
}

// Asks returns who asks in a context; [access.Anybody] where nobody has to prove who they are.
func Asks(ctx context.Context) *access.Who { return who(ctx) }

// inProcess has a handler answer requests.
type inProcess struct {
	handler http.Handler
	log     *slog.Logger
}

// RoundTrip implements [http.RoundTripper]. The body of the answer is whole when it returns. A handler that panics has answered 500: a page
// asks in goroutines of its own, in which nobody else would recover.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.WithContext(r.Context()) // a copy: a client may send r again
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	in.RequestURI = r.URL.RequestURI() // as a listener has it
	w := p.answer(in)
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, nil
}

// answer returns what the handler answers.
func (p inProcess) answer(r *http.Request) (w *kept) {
	w = newKept()
	defer func() {
		if why := recover(); why != nil {
			p.log.Error("a question of a page has panicked", "question", r.Pattern, "panic", why, "stack", string(debug.Stack()))
			w = newKept() // without what was written before
			problem := problemOf(http.StatusInternalServerError, "an error in this process: its log says where")
			problem.Kind = string(schemas.Internal)
			write(w, problem.Status, problem)
		}
	}()
	p.handler.ServeHTTP(w, r)
	return w
}

// kept is an answer that is kept in memory.
type kept struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newKept() *kept { return &kept{status: http.StatusOK, header: http.Header{}} }

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }
