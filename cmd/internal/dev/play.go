package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// outcome is what became of one play of the scene.
type outcome struct {
	sent     []delivery
	want     expectation          // by the model
	got      expectation          // seen from outside: by the sender, the agent and the operator's API
	took     time.Duration        // to send it, up to what comes late
	dead     []api.DeadLetterItem // those that got.dead counts
	repeats  int                  // calls of the agent that came a second time under their key
	arrivals map[string][]int     // the versions of an entity in the order in which they were sent, by "source entity"
}

// playWithin is the longest time that a play may take; gapWait, as in the configuration, is a part of it.
const (
	playWithin = 90 * time.Second
	gapWait    = 3 * time.Second
)

// play sends the scene, waits until everything has run, and prints what became of it.
func (s *session) play(ctx context.Context) (*outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, playWithin, fmt.Errorf("the scene was not over after %s", playWithin))
	defer cancel()
	sent, err := scene(time.Now().UTC().Format("20060102T150405.000"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.Data, started), nil, 0o600); err != nil {
		return nil, err
	}
	o := &outcome{sent: sent, want: expect(sent), got: expectation{run: map[string][]int{}}, arrivals: map[string][]int{}}
	fmt.Fprintf(s.Stdout, "The scene: %d deliveries of 9 entities, %d of them twice, shuffled; one forged, one under another event's name, one withheld, one late.\nThe agent refuses one of them.\n\n", sceneDeliveries, sceneRepeats)
	s.agent.refuseOnce(sent[slices.IndexFunc(sent, isRejected)].id)
	began, filler := time.Now(), len(sent)-1
	if err := s.send(ctx, o, sent[:filler]); err != nil {
		return nil, err
	}
	o.took = time.Since(began)
	if err := s.agent.wait(ctx, o.want.actions()); err != nil { // the gap was skipped
		return nil, err
	}
	if err := s.send(ctx, o, sent[filler:]); err != nil {
		return nil, err
	}
	if err := s.observe(ctx, o); err != nil {
		return nil, err
	}
	return o, o.print(s.Stdout)
}

// send posts deliveries one after the other and counts the answers in o.got. An answer other than 202 or 401 is an error.
func (s *session) send(ctx context.Context, o *outcome, list []delivery) error {
	senders := map[string]*provider.Source{}
	for _, name := range []string{"github", "orders"} {
		cfg := s.config.Source("demo", name)
		source, err := provider.Compile(cfg)
		if err != nil {
			return err
		}
		senders[name] = source
		cfg.Secrets = []schemas.Secret{schemas.NewSecret("not the secret of this source")}
		if senders["forged "+name], err = provider.Compile(cfg); err != nil {
			return err
		}
	}
	for _, d := range list {
		name := d.source
		if d.role == forged {
			name = "forged " + name
		}
		status, err := s.post(ctx, senders[name], d)
		if err != nil {
			return err
		}
		switch status {
		case http.StatusAccepted:
			o.got.received++
		case http.StatusUnauthorized:
			o.got.refused++
		default:
			return fmt.Errorf("delivery %s was answered %d", d.id, status)
		}
		if d.role.event() {
			o.arrivals[d.entityName()] = append(o.arrivals[d.entityName()], d.version)
		}
	}
	return nil
}

// post signs a delivery as source's provider does and posts it.
func (s *session) post(ctx context.Context, source *provider.Source, d delivery) (status int, err error) {
	r := &verify.Request{Method: http.MethodPost, URL: s.intake() + "/v1/in/demo/" + d.source, Header: http.Header{}, Body: d.body}
	for k, v := range d.headers {
		r.Header.Set(k, v)
	}
	if err := source.Sign(r, time.Now()); err != nil {
		return 0, err
	}
	if d.role == unusable { // the name of the event is not signed, and the body does not fit it
		r.Header.Set("X-GitHub-Event", "push")
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return 0, err
	}
	req.Header = r.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// check returns how the outcome differs from the model's; nil if it does not.
func (o *outcome) check() error {
	var errs []error
	same := func(what string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			errs = append(errs, fmt.Errorf("%s: %v instead of %v", what, got, want))
		}
	}
	same("received", o.got.received, o.want.received)
	same("refused", o.got.refused, o.want.refused)
	same("in quarantine", o.got.quarantined, o.want.quarantined)
	same("duplicates", o.got.duplicates, o.want.duplicates)
	same("stale", o.got.stale, o.want.stale)
	same("buffered", o.got.buffered, o.want.buffered)
	same("dead letters", o.got.dead, o.want.dead)
	same("behind a dead letter", o.got.behind, o.want.behind)
	same("calls repeated", o.repeats, 0)
	for entity := range o.want.run {
		same("order of "+entity, o.got.run[entity], o.want.run[entity])
	}
	same("entities that ran", len(o.got.run), len(o.want.run))
	if len(errs) > 0 && o.took >= gapWait {
		errs = append(errs, fmt.Errorf("the deliveries took %s to send, and a gap is waited for %s: what fills it may have come too late; run the demo again when this machine is less busy", o.took.Round(time.Millisecond), gapWait))
	}
	return errors.Join(errs...)
}

// print writes the counts, and for each entity the versions in the order of arrival and in the order in which they ran.
func (o *outcome) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(what string, n int, how string) { fmt.Fprintf(tw, "%s\t%d\t%s\n", what, n, how) }
	row("received", o.got.received, "answered 202 after the broker's ack")
	row("refused", o.got.refused, "forged: answered 401, nothing kept")
	row("in quarantine", o.got.quarantined, "authentic, but its body is of another event than its header says: in the quarantine topic")
	row("duplicates", o.got.duplicates, "the same delivery again: did nothing")
	row("stale", o.got.stale, "a state older than the one acted on, also one for a place of that gap: did nothing")
	row("buffered", o.got.buffered, "came before the one in front of them, and waited; one gap was skipped after 3s")
	row("actions run", o.got.actions(), "each once, under its own key")
	row("dead letters", o.got.dead, fmt.Sprintf("refused by the agent with 422: waits for you, and so do %d events behind it", o.got.behind))
	fmt.Fprintln(tw, "\nENTITY\tARRIVED\tRAN")
	for _, entity := range slices.Sorted(maps.Keys(o.want.run)) {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", entity, numbers(o.arrivals[entity]), numbers(o.got.run[entity]))
	}
	return tw.Flush()
}

func numbers(v []int) string { return strings.Trim(fmt.Sprint(v), "[]") }
