package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/redact"
)

// Bundle says what goes into a bundle beside what the doctor has found.
type Bundle struct {
	Report *Report
	Client *api.Client     // of a running process; nil: there is none
	Hidden []config.Hidden // of each time that the file was read
	Log    string          // the file of a process's log; empty: none
	Build  any             // what the binary is
}

// logEnd is how much of a log goes along, in bytes.
const logEnd = 4 << 20

// bundleText is README.txt.
const bundleText = `What forebay doctor --bundle has written, for those who help.

manifest.json       when, by which binary, and what is missing here and why
checks.json         what the doctor has found
config.yaml         the configuration with every default; of texts that are no names the references alone
ready.json          what the process says of its parts
metrics.txt         its metrics
attention.json      what waits for an operator: kinds, places, reasons; no entity, no event id, no text from outside
subscriptions.json, sources.json, destinations.json   the lists of these names
log.txt             the end of a log, where one was given

No secret and no payload is in it: what the configuration hides is taken out of every file.
`

// part is one file of a bundle.
type part struct {
	name string
	make func(ctx context.Context) ([]byte, error)
}

var errNoProcess = errors.New("no running process was asked (--pre)")

// parts are the files of a bundle, but for its manifest.
func (b *Bundle) parts() []part {
	ask := func(name string, f func(ctx context.Context) (any, error)) part {
		return part{name, func(ctx context.Context) ([]byte, error) {
			if b.Client == nil {
				return nil, errNoProcess
			}
			v, err := f(ctx)
			if text, ok := v.([]byte); ok || err != nil {
				return text, err
			}
			return json.MarshalIndent(v, "", "  ")
		}}
	}
	return []part{
		{"README.txt", func(context.Context) ([]byte, error) { return []byte(bundleText), nil }},
		{"checks.json", func(context.Context) ([]byte, error) { return json.MarshalIndent(b.Report.Findings, "", "  ") }},
		{"config.yaml", func(context.Context) ([]byte, error) {
			if b.Report.File == nil {
				return nil, errors.New("it cannot be read: see the check config")
			}
			return b.Report.File.ForStrangers()
		}},
		ask("ready.json", func(ctx context.Context) (any, error) { return b.Client.Ready(ctx) }),
		ask("metrics.txt", func(ctx context.Context) (any, error) { return b.Client.Metrics(ctx) }),
		ask("attention.json", b.attention),
		ask("subscriptions.json", func(ctx context.Context) (any, error) { return b.Client.Subscriptions(ctx) }),
		ask("sources.json", func(ctx context.Context) (any, error) { return b.Client.Sources(ctx) }),
		ask("destinations.json", func(ctx context.Context) (any, error) { return b.Client.Destinations(ctx) }),
		{"log.txt", func(context.Context) ([]byte, error) { return b.log() }},
	}
}

// ownWords are the kinds of attention whose details have nothing that a sender, a destination or an operator wrote.
var ownWords = []string{api.KindStopped, api.KindUnread, api.KindForgotten, api.KindBarred, api.KindRefused, api.KindWaits, api.KindDiffers, api.KindKeys, api.KindExpires, api.KindClock, api.KindSpooling}

// attention is what waits, without entities, events and texts from outside.
func (b *Bundle) attention(ctx context.Context) (any, error) {
	a, err := b.Client.Attention(ctx, api.AttentionFilter{Limit: 1000})
	if err != nil {
		return nil, err
	}
	items := make([]api.AttentionItem, len(a.Items))
	for n, i := range a.Items { // what of it is nobody's data
		items[n] = api.AttentionItem{Kind: i.Kind, Team: i.Team, Subscription: i.Subscription, Source: i.Source, Destination: i.Destination, Topic: i.Topic, Partition: i.Partition,
			Offset: i.Offset, Reason: i.Reason, Events: i.Events, Since: i.Since}
		if slices.Contains(ownWords, i.Kind) {
			items[n].Detail = i.Detail
		}
	}
	return map[string]any{"items": items, "counts": a.Counts, "unknown": a.Unknown}, nil
}

// log returns the end of the log, whole lines.
func (b *Bundle) log() ([]byte, error) {
	if b.Log == "" {
		return nil, errors.New("none was given (--log FILE)")
	}
	f, err := os.Open(b.Log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from, err := f.Seek(-logEnd, io.SeekEnd)
	if err != nil { // it is shorter
		from, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, logEnd)) // a process may be writing on
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, err
}

// Write writes the bundle to a new file, which only its owner can read, and returns the files in it and why others are missing.
func (b *Bundle) Write(ctx context.Context, path string) (names []string, missing map[string]string, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, schemas.Errorf(schemas.Conflict, "", "%s exists: name a new file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path)) // half a bundle helps nobody
		}
	}()
	zip := gzip.NewWriter(f)
	out := tar.NewWriter(zip)
	dir := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), ".tgz")
	now, clean := time.Now().UTC().Truncate(time.Second), b.cleaner()
	add := func(name string, text []byte) error {
		text = clean.Bytes(text)
		names = append(names, name)
		err := out.WriteHeader(&tar.Header{Name: dir + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: now})
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	missing = map[string]string{}
	for _, p := range b.parts() {
		ctx, cancel := context.WithTimeout(ctx, partTime)
		text, err := p.make(ctx)
		cancel()
		if err != nil {
			missing[p.name] = err.Error()
		} else if err := add(p.name, text); err != nil {
			return names, missing, err
		}
	}
	text, err := json.MarshalIndent(map[string]any{"made_at": now, "build": b.Build, "missing": missing}, "", "  ")
	if err == nil {
		err = add("manifest.json", text)
	}
	return names, missing, errors.Join(err, out.Close(), zip.Close())
}

// partTime is how long a file of a bundle may take.
const partTime = 20 * time.Second

// cleaner takes out of a text what the configuration hides, of all teams: the bundle leaves the house.
func (b *Bundle) cleaner() *redact.Redactor {
	all := map[string]string{}
	for _, h := range b.Hidden {
		maps.Copy(all, h.Everywhere)
		for _, names := range h.OfTeams {
			maps.Copy(all, names)
		}
	}
	for text := range maps.Clone(all) { // errors of drivers have a URL's password without the URL
		if u, err := url.Parse(text); err == nil {
			if password, ok := u.User.Password(); ok {
				all[password] = "<redacted>"
			}
		}
	}
	return redact.Named(all)
}
