package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
)

type listenCmd struct {
	forwardFlags
	Address    string `default:"127.0.0.1:8000" help:"Address on this machine to listen on."`
	Anyone     bool   `help:"--address may be one that other machines reach, as in a container: whoever reaches it is answered, and what they send is printed."`
	Status     int    `default:"200" help:"Status that every call is answered with."`
	SecretFile string `placeholder:"FILE" help:"File with the destination's secret (whsec_...): calls that it has not signed are told, and answered 401."`
	Count      int    `help:"End after so many calls. Default: when it is interrupted."`
}

// heard is a call as listen has taken it.
type heard struct {
	At        time.Time `json:"at"`
	Answered  int       `json:"answered"`
	Signature string    `json:"signature"` // ok, none, unchecked: no secret was named, or why it does not hold
	Again     bool      `json:"again"`     // a call with its Idempotency-Key came before: a good destination does nothing then
	ActionID  string    `json:"action_id"`
	EventID   string    `json:"event_id"`
	Type      string    `json:"type"`
	Entity    string    `json:"entity"`
	Version   string    `json:"version"`
	delivery.File
}

// maxHeardKeys is how many keys of calls are remembered.
const maxHeardKeys = 100_000

// hearer is the destination. Its methods may be called concurrently.
type hearer struct {
	cmd    *listenCmd
	env    *env
	signed *verify.StandardWebhooks // nil: no secret is known
	stop   func()

	mu   sync.Mutex
	keys map[string]bool
	n    int
	err  error // of printing
}

// Run serves, or forwards a source's events, until it is interrupted, or has had --count calls.
func (c *listenCmd) Run(e *env) error {
	if c.ForwardTo != "" {
		return c.forward(e)
	}
	if c.Source != "" || c.Since != 0 || c.Cursor != "" || c.Data != "" {
		return usageError("a source, --since, --cursor and --data go with --forward-to")
	}
	if at, err := netip.ParseAddrPort(strings.Replace(c.Address, "localhost", "127.0.0.1", 1)); err != nil || !at.Addr().IsLoopback() && !c.Anyone {
		return usageError("--address %s is not of this machine alone, such as 127.0.0.1:8000: it answers to whoever calls; --anyone has it do so", c.Address)
	}
	if c.Status < 200 || c.Status > 599 {
		return usageError("--status %d is not between 200 and 599", c.Status)
	}
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	l := &hearer{cmd: c, env: e, stop: stop, keys: map[string]bool{}}
	if err := l.readSecret(); err != nil {
		return err
	}
	socket, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	hint := fmt.Sprintf("; url: \"http://%s/\" with %s makes it a destination", socket.Addr(), guard.AllowLine(socket.Addr().(*net.TCPAddr).AddrPort().Addr()))
	if c.Anyone {
		hint = ", whoever calls"
	}
	fmt.Fprintf(e.Stderr, "listening on http://%s, and answering %d%s\n", socket.Addr(), c.Status, hint)
	server := &http.Server{Handler: l, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute}
	ended := make(chan struct{}) // closed below
	go func() {
		defer close(ended)
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(last)
	}()
	err = server.Serve(socket)
	stop()
	<-ended
	switch {
	case !errors.Is(err, http.ErrServerClosed):
		return err
	case l.err != nil:
		return l.err
	case e.ctx.Err() != nil:
		return &exitError{code: exitInterrupt} // which is how it ends
	}
	return nil
}

func (l *hearer) readSecret() error {
	if l.cmd.SecretFile == "" {
		return nil
	}
	text, err := os.ReadFile(l.cmd.SecretFile)
	if err != nil {
		return err
	}
	secret := schemas.NewSecret(strings.TrimSpace(string(text)))
	l.signed, err = verify.NewStandardWebhooks(verify.Params{}, []schemas.Secret{secret})
	return err
}

// ServeHTTP takes one call, prints it and answers.
func (l *hearer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSent))
	if err != nil {
		http.Error(w, "its body could not be read", http.StatusBadRequest)
		return
	}
	get := r.Header.Get
	call := heard{At: time.Now().UTC(), Answered: l.cmd.Status, Signature: l.signature(r, body), ActionID: get("Idempotency-Key"), EventID: get("Ce-Id"), Type: get("Ce-Type"),
		Entity: get("Ce-Partitionkey"), Version: get("Ce-Entityversion"), File: delivery.File{Method: r.Method, URL: r.URL.RequestURI()}}
	if l.signed != nil && call.Signature != "ok" {
		call.Answered = http.StatusUnauthorized
	}
	call.SetHeader(withoutSecrets(r.Header))
	call.SetContent(body)
	if l.hear(&call) {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(call.Answered)
}

// signature says whether a call is signed with the secret.
func (l *hearer) signature(r *http.Request, body []byte) string {
	switch {
	case r.Header.Get("Webhook-Signature") == "":
		return "none"
	case l.signed == nil:
		return "unchecked"
	}
	if err := l.signed.Verify(&verify.Request{Method: r.Method, Header: r.Header, Body: body}, time.Now()); err != nil {
		return err.Error()
	}
	return "ok"
}

// shownHeaders are the headers of a call whose values are no secret.
var shownHeaders = []string{"Idempotency-Key", "Traceparent", "Tracestate", "Content-Type", "Content-Length", "User-Agent", "Accept", "Accept-Encoding",
	"Forebay-Result-Url", "Forebay-Heartbeat-Url", "Forebay-Deadline", "Forebay-Heartbeat", "Forebay-Outgoing"}

// withoutSecrets returns headers with the values of those alone that Forebay itself has written, and that are no secret: others are the
// configuration's, which may be tokens.
func withoutSecrets(h http.Header) http.Header {
	h = h.Clone()
	for name := range h {
		if !strings.HasPrefix(name, "Ce-") && !strings.HasPrefix(name, "Webhook-") && !slices.Contains(shownHeaders, name) {
			h[name] = []string{redactedValue}
		}
	}
	return h
}

// hear prints a call, and reports whether it was the last one.
func (l *hearer) hear(call *heard) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd.Count > 0 && l.n >= l.cmd.Count {
		return true
	}
	if call.Again = call.ActionID != "" && l.keys[call.ActionID]; len(l.keys) >= maxHeardKeys {
		clear(l.keys)
	}
	l.keys[call.ActionID] = true
	l.n++
	if l.err = cmp.Or(l.err, l.print(call)); l.err != nil || l.n == l.cmd.Count {
		l.stop()
		return true
	}
	return false
}

func (l *hearer) print(call *heard) (err error) {
	note := ""
	if call.Again {
		note = ", again"
	}
	line := fmt.Sprintf("%s %s %s -> %d%s  %s  %s %s %s  signature %s, %d bytes", call.At.Format("15:04:05"), plain(call.Method), plain(call.URL), call.Answered, note,
		cell(call.ActionID), cell(call.Type), cell(call.Entity), cell(l.env.version(call.Version)), plain(call.Signature), len(call.Content()))
	return printCall(l.env, call, call.ActionID, line, call.Header(), call.Content())
}

// printCall prints a call that was heard or forwarded: as its line, with -o wide with its headers and body, with -o id as its id, with others as a
// document of its own.
func printCall(e *env, call any, id, line string, header http.Header, body []byte) (err error) {
	switch e.output {
	case "json", "jsonl":
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(call)
	case "yaml":
		if _, err := fmt.Fprintln(e.Stdout, "---"); err != nil {
			return err
		}
		return printYAML(e.Stdout, call)
	case "id":
		line = plain(id)
	}
	_, err = fmt.Fprintln(e.Stdout, line)
	if err == nil && e.output == "wide" {
		showHeaders(e.Stdout, header)
		_, err = fmt.Fprintf(e.Stdout, "\n%s\n\n", visibleBody(body))
	}
	return err
}

// visibleBody returns a body as a terminal may show it: line by line without control characters.
func visibleBody(body []byte) string {
	lines := strings.Split(string(body), "\n")
	for n := range lines {
		lines[n] = plain(lines[n])
	}
	return strings.Join(lines, "\n")
}
