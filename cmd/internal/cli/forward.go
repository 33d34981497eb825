package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// forwardFlags are those of listen that read a source's topic instead of being a destination.
type forwardFlags struct {
	Source    string        `arg:"" optional:"" name:"team/source" help:"With --forward-to: the source whose events are forwarded."`
	ForwardTo string        `placeholder:"URL" help:"Read the source's topic, and post each event to this URL as its provider signs it, in order."`
	Since     time.Duration `placeholder:"10m" help:"With --forward-to: begin with events of so long ago. Default: with those to come."`
	Cursor    string        `placeholder:"FILE" help:"With --forward-to: keep in this file what was forwarded, and go on from there the next time, and with partitions that are new since then."`
	File      string        `short:"c" name:"config" placeholder:"FILE" env:"FOREBAY_CONFIG" help:"With --forward-to: the configuration file."`
	Data      string        `placeholder:"DIR" help:"With --forward-to: the --data directory that forebay dev was started with for this file."`
}

// forwarded is an event and what it was answered.
type forwarded struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	EventID   string `json:"event_id"`
	Type      string `json:"type"`
	Entity    string `json:"entity"`
	Status    int    `json:"status"`
}

// cursor is the next offset of each partition of a topic. A topic that was created again has the name and another id, and other events at
// the offsets.
type cursor struct {
	Topic   string          `json:"topic"`
	TopicID string          `json:"topic_id,omitempty"`
	Next    map[int32]int64 `json:"next"`
}

// forward posts the source's events until it is interrupted, has had --count, or one is not answered with 2xx: that one is the next of the
// cursor.
func (c *listenCmd) forward(e *env) error {
	if u, err := url.Parse(c.ForwardTo); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usageError("--forward-to is not a URL such as http://127.0.0.1:3000/hooks")
	}
	if c.Source == "" || c.File == "" {
		return usageError("--forward-to needs the source, and the file that has it: forebay listen acme/github --forward-to %s -c FILE", c.ForwardTo)
	}
	if c.Since < 0 {
		return usageError("--since must not be negative")
	}
	cfg, stop, err := fileFlags{File: c.File}.supplied(e, c.Data, config.RoleSend, config.RoleTopics, config.RoleCatalog)
	if err != nil {
		return err
	}
	defer stop()
	to, err := sourceIn(cfg, c.Source)
	if err != nil {
		return err
	}
	at, err := readCursor(c.Cursor, to.file.Teams[to.id.Team].Sources[to.id.Name].Topic)
	if err != nil {
		return err
	}
	options := append(app.KafkaOptions(to.file, config.RoleTopics), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err := c.begin(e, options, &at); err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	for p, next := range at.Next {
		starts[p] = kgo.NewOffset().At(next)
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: starts}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))...) // nothing is passed over silently
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Fprintf(e.Stderr, "forwarding %s to %s\n", at.Topic, plain(c.ForwardTo))
	return c.forwardAll(e, client, to, at)
}

// grownLook is how often it is looked for partitions that the topic has got since.
const grownLook = 5 * time.Second

// forwardAll posts what the client reads.
func (c *listenCmd) forwardAll(e *env, client *kgo.Client, to *namedSource, at cursor) error {
	looked := time.Now()
	for n := 0; ; {
		if time.Since(looked) >= grownLook {
			looked = time.Now()
			at.grown(e.ctx, client)
		}
		polling, cancel := context.WithTimeout(e.ctx, grownLook)
		fetches := client.PollRecords(polling, 100)
		cancel()
		if e.ctx.Err() != nil {
			return &exitError{code: exitInterrupt}
		}
		for _, failed := range fetches.Errors() {
			if !kerr.IsRetriable(failed.Err) && !errors.Is(failed.Err, context.DeadlineExceeded) {
				return schemas.Errorf(schemas.Unavailable, "read "+at.Topic, "%w", byHand(record.Lacks(client, "Read", "topic "+at.Topic, failed.Err)))
			}
		}
		for _, r := range fetches.Records() {
			if err := c.forwardOne(e, to, r); err != nil {
				return err
			}
			at.Next[r.Partition] = r.Offset + 1
			if err := at.write(c.Cursor); err != nil {
				return err
			}
			if n++; n == c.Count {
				return nil
			}
		}
	}
}

// grown has the client read the partitions that the topic has got since, from their beginning.
func (at cursor) grown(ctx context.Context, client *kgo.Client) {
	topics, err := kadm.NewClient(client).ListTopics(kadm.WithAuthorizedOps(ctx), at.Topic) // this option bypasses the client's cache
	if err != nil {
		return // the next look finds them, and the client's reads tell what is wrong
	}
	fresh := map[int32]kgo.Offset{}
	for p := range topics[at.Topic].Partitions {
		if _, known := at.Next[p]; !known {
			at.Next[p], fresh[p] = 0, kgo.NewOffset().At(0)
		}
	}
	if len(fresh) > 0 {
		client.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: fresh})
	}
}

// begin gives the cursor the partitions that it does not have, and writes it: what comes while nobody forwards is not passed over. A partition that a
// cursor of an earlier time lacks is a new one, of which nothing was forwarded. What is not kept any more is said; a cursor that is of another log is an error.
func (c *listenCmd) begin(e *env, options []kgo.Opt, at *cursor) error {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	topics, err := adm.ListTopics(e.ctx, at.Topic)
	starts, errStarts := adm.ListStartOffsets(e.ctx, at.Topic)
	ends, errEnds := adm.ListEndOffsets(e.ctx, at.Topic)
	fresh, errFresh := ends, error(nil)
	switch {
	case len(at.Next) > 0:
		fresh = starts
	case c.Since > 0:
		fresh, errFresh = adm.ListOffsetsAfterMilli(e.ctx, time.Now().Add(-c.Since).UnixMilli(), at.Topic)
	}
	if err = cmp.Or(err, topics.Error(), errStarts, starts.Error(), errEnds, ends.Error(), errFresh, fresh.Error()); err != nil {
		return schemas.Errorf(schemas.Unavailable, "look for "+at.Topic, "%w", record.Lacks(client, "Read", "topic "+at.Topic, err))
	}
	id := topics[at.Topic].ID.String()
	if cmp.Or(at.TopicID, id) != id {
		return usageError("%s is a cursor of an earlier topic %s, which was created again since: name another file with --cursor", c.Cursor, at.Topic)
	}
	at.TopicID = id
	for p, next := range at.Next {
		start, _ := starts.Lookup(at.Topic, p)
		end, _ := ends.Lookup(at.Topic, p)
		switch {
		case next > end.Offset:
			return usageError("%s is at offset %d of partition %d of %s, which ends at %d, so it is no cursor of it: name another file with --cursor", c.Cursor, next, p, at.Topic, end.Offset)
		case next < start.Offset:
			fmt.Fprintf(e.Stderr, "offsets %d to %d of partition %d are not kept any more: they are not forwarded\n", next, start.Offset-1, p)
			at.Next[p] = start.Offset
		}
	}
	fresh.Each(func(o kadm.ListedOffset) {
		if _, ok := at.Next[o.Partition]; !ok {
			at.Next[o.Partition] = o.Offset
		}
	})
	return at.write(c.Cursor)
}

// forwardOne posts an event, and prints what it was answered.
func (c *listenCmd) forwardOne(e *env, to *namedSource, r *kgo.Record) error {
	event, err := record.Decode(r)
	if err != nil {
		return fmt.Errorf("read %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	request := &verify.Request{Method: http.MethodPost, Header: http.Header{}, Body: event.Data, URL: cmp.Or(to.publicURL, c.ForwardTo)}
	if event.DataContentType != "" {
		request.Header.Set("Content-Type", event.DataContentType)
	}
	for _, h := range event.Headers {
		request.Header.Set(h.Name, h.Value)
	}
	if err := to.Sign(request, time.Now()); err != nil {
		return fmt.Errorf("sign for %s: %w", names.Source.Print(to.id), err)
	}
	request.URL = c.ForwardTo
	answer, err := delivery.Post(e.ctx, request, false)
	if err != nil {
		return noAnswer(e, c.ForwardTo, err, "does anything listen there?")
	}
	out := forwarded{r.Partition, r.Offset, event.ID, event.Type, string(event.Entity), answer.Status}
	line := fmt.Sprintf("%d@%d -> %d  %s  %s  %s", out.Partition, out.Offset, out.Status, cell(out.Type), cell(out.Entity), cell(out.EventID))
	err = printCall(e, out, out.EventID, line, withoutSecrets(request.Header), request.Body)
	if err == nil && answer.Status/100 != 2 {
		err = &exitError{code: exitFailed, err: fmt.Errorf("%s answered %d: %s", c.ForwardTo, answer.Status, clipped(answer.Body))}
	}
	return err
}

func clipped(s string) string { return plain(s[:min(len(s), 200)]) }

func readCursor(file, topic string) (cursor, error) {
	at := cursor{Topic: topic, Next: map[int32]int64{}}
	if file == "" {
		return at, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	var had cursor
	if err := json.Unmarshal(text, &had); err != nil || had.Topic != topic || had.Next == nil {
		return at, usageError("%s is no cursor of %s (it is of %s): name another file with --cursor", file, topic, strconv.Quote(had.Topic))
	}
	return had, nil
}

// write replaces the file, so that it is whole at any time.
func (at cursor) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".next")
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, file))
}
