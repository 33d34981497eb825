package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/registry"
	"github.com/forebay-io/forebay/schemas"
)

// schemaIDs knows under what the registry has the schemas that events name. It asks beside the intake, at the start and with each reload, and
// again while the registry is away or lacks some: no delivery waits for it, and until it knows an id records go without.
type schemaIDs struct {
	log     *slog.Logger
	known   atomic.Pointer[map[namedSchema][]byte]
	changed chan struct{} // capacity 1: what is wanted has changed; never closed

	mu     sync.Mutex
	wanted []registry.Wanted
	at     *config.Registry // nil: there is none
}

// namedSchema is a schema as events name it: by their source and the schema's $id.
type namedSchema struct{ source, id string }

// schemasRetry is how long it is until the registry is asked again for what it did not give.
const schemasRetry = time.Minute

func newSchemaIDs(log *slog.Logger) *schemaIDs {
	s := &schemaIDs{log: log, changed: make(chan struct{}, 1)}
	s.known.Store(&map[namedSchema][]byte{})
	return s
}

// of returns the value of an event's header; nil: it has none, or none is known. It is called for every record.
func (s *schemaIDs) of(e *schemas.Event) []byte {
	if e.DataSchema == "" {
		return nil
	}
	return (*s.known.Load())[namedSchema{e.Source, e.DataSchema}]
}

// want says which schemas are wanted from now on. What is known of others, or of others of the same $id, is forgotten at once.
func (s *schemaIDs) want(c *config.Config) error {
	wanted, err := registry.Of(c)
	if err != nil {
		return err
	}
	at := c.RegistryFound()
	s.mu.Lock()
	before, known := s.texts(), map[namedSchema][]byte{}
	if at != nil && s.at != nil && at.URL == s.at.URL {
		for _, w := range wanted {
			name := nameOf(w)
			if id := (*s.known.Load())[name]; id != nil && before[name] == string(w.Schema.Text()) {
				known[name] = id
			}
		}
	}
	s.wanted, s.at = wanted, at
	s.known.Store(&known)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // it looks anyway
	}
	return nil
}

func nameOf(w registry.Wanted) namedSchema { return namedSchema{w.Source, w.Schema.ID} }

// texts returns the texts of what is wanted. The caller holds mu.
func (s *schemaIDs) texts() map[namedSchema]string {
	texts := map[namedSchema]string{}
	for _, w := range s.wanted {
		texts[nameOf(w)] = string(w.Schema.Text())
	}
	return texts
}

// run asks the registry until ctx ends.
func (s *schemaIDs) run(ctx context.Context) {
	retry := time.NewTimer(schemasRetry)
	defer retry.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			reported = ""
		case <-retry.C:
		}
		missing := s.ask(ctx)
		if missing != "" && missing != reported && ctx.Err() == nil {
			s.log.Warn("records go without __value_schema_id; asking again every minute", "why", missing)
		}
		if reported = missing; missing != "" {
			retry.Reset(schemasRetry)
		} else {
			retry.Stop()
		}
	}
}

// ask asks for what is not known, and returns why some of it still is not.
func (s *schemaIDs) ask(ctx context.Context) (missing string) {
	s.mu.Lock()
	wanted, at := s.wanted, s.at
	s.mu.Unlock()
	if at == nil || len(wanted) == 0 {
		return ""
	}
	client, err := registry.New(*at)
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	lacking, found, refused := 0, 0, ""
	for _, w := range wanted {
		if w.Schema.ID == "" || (*s.known.Load())[nameOf(w)] != nil {
			continue
		}
		id, ok, err := client.Lookup(ctx, w)
		switch {
		case err != nil && registry.OfAll(err):
			return err.Error() // the others would wait for the same
		case err != nil:
			refused = err.Error() // of this one: a registry may refuse a user one subject, or fail on it, and have the others
		case !ok:
			lacking++
		case !s.learn(at, w, id.Header()):
			return "" // it is wanted no more: this begins again
		default:
			found++
		}
	}
	if found > 0 {
		s.log.Info("the registry has schemas of sources; their events have __value_schema_id", "found", found, "lacking", lacking)
	}
	if refused != "" {
		return refused
	}
	if lacking > 0 {
		return fmt.Sprintf("the registry at %s lacks %d of %d schemas: `forebay schemas push` registers them", at.URL, lacking, len(wanted))
	}
	return ""
}

// learn keeps an id, and returns false if what is wanted has changed since the question.
func (s *schemaIDs) learn(at *config.Registry, w registry.Wanted, header []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != at {
		return false
	}
	known := map[namedSchema][]byte{}
	maps.Copy(known, *s.known.Load())
	known[nameOf(w)] = header
	s.known.Store(&known)
	return true
}
