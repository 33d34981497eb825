package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Server is one Postgres and the pools of connections to it. Safe for concurrent use.
type Server struct {
	url       schemas.Secret
	deadlines Deadlines
	may       func(network, address string) error
	now       func() (schemas.Secret, error) // the URL as it is now; nil: as it was

	mu          sync.Mutex
	pools       []*Pool
	suspectedAt time.Time // when all idle connections were last given up
}

// NewServer returns the server at url. It does not connect.
func NewServer(url schemas.Secret, deadlines Deadlines) *Server {
	return &Server{url: url, deadlines: deadlines}
}

// Only has the server's connections made to addresses alone that may returns nil for; nil: to any. It is called before the first pool is made.
func (s *Server) Only(may func(network, address string) error) { s.may = may }

// Follow has new connections log in as the URL says that now returns; nil: as that of the start. It is called before the first pool is made.
func (s *Server) Follow(now func() (schemas.Secret, error)) { s.now = now }

// Deadlines are those of the server's sessions.
func (s *Server) Deadlines() Deadlines { return s.deadlines }

// readOnly is the SQLSTATE of a write in a session that may only read. It stays read only when its server's or its role's default is not any more,
// and when others have taken over from its server, so no such session is used again.
const readOnly = "25006"

// errUnparsed is said in the place of pgx's error, which would repeat the URL.
var errUnparsed = errors.New("postgres url cannot be parsed")

var errElsewhere = errors.New("postgres url leads to another server or database than at the start: start the process again to go there")

// Pool makes a pool of at most conns connections, whose sessions have settings, and whose queries and transactions have the deadline within.
// No connection is made before the first is needed.
func (s *Server) Pool(ctx context.Context, settings map[string]string, conns int32, within time.Duration) (*Pool, error) {
	cfg, err := pgxpool.ParseConfig(s.url.Reveal())
	if err != nil {
		return nil, errUnparsed
	}
	settings = maps.Clone(settings)
	settings[transactionTimeout] = Milliseconds(within * 9 / 10)
	Set(&cfg.ConnConfig.Config, settings)
	cfg.MaxConns = conns
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	cfg.MaxConnIdleTime = min(cfg.MaxConnIdleTime, sessionIdle/2)
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	cfg.ConnConfig.DialFunc = only(s.deadlines.dialer(), s.may).DialContext
	keeps := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) bool { return err.Code != readOnly && keeps(c, err) }
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		withWire(&c.Config)
		return s.login(&c.Config)
	}
	cfg.ShouldPing = s.dead
	made, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p := &Pool{made, s, within}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, p)
	return p, nil
}

// login has a connection log in as the URL says now, with the files that it names (certificates, a password file) as they are now: those of the
// pool are of its start. Where certificates cannot be read, as while they are replaced, they are still those of the pool. A URL that leads elsewhere
// by now is not followed.
func (s *Server) login(c *pgconn.Config) error {
	url := s.url
	if s.now != nil {
		var err error
		if url, err = s.now(); err != nil {
			return unreadError{err}
		}
	}
	now, certificates, err := parseLogin(url.Reveal())
	switch {
	case err != nil:
		return unreadError{errUnparsed}
	case address(now) != address(c) || now.Database != c.Database:
		return unreadError{errElsewhere}
	case certificates:
		c.TLSConfig, c.Fallbacks = now.TLSConfig, now.Fallbacks
	}
	c.User, c.Password = now.User, now.Password
	return nil
}

// parseLogin parses a URL, and says whether the certificates that it names could be read.
func parseLogin(url string) (c *pgconn.Config, certificates bool, err error) {
	if c, err = pgconn.ParseConfig(url); err == nil {
		return c, true, nil
	}
	c, err = pgconn.ParseConfig(withoutCertificates(url))
	return c, false, err
}

// withoutCertificates returns a URL that names no files of certificates, nor has them from the environment: of a key, the last value counts.
func withoutCertificates(url string) string {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + "sslrootcert=&sslcert=&sslkey="
}

// Pools returns the pools, in the order in which they were made.
func (s *Server) Pools() []*Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pools)
}

// Close releases the pools. It waits for what is in flight, but not for a server that does not answer: the error then says so.
func (s *Server) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		for _, p := range s.Pools() {
			all.Go(p.Close)
		}
		all.Wait()
	}()
	within := s.deadlines.closing()
	end := time.NewTimer(within)
	defer end.Stop()
	select {
	case <-closed:
		return nil
	case <-end.C:
		return fmt.Errorf("queries on them have not ended within %s", within)
	}
}

// dead finds out whether a connection that was idle for a while answers. The pool pings a connection for which dead returns true.
// That ping fails at once, and the pool throws the connection away.
func (s *Server) dead(ctx context.Context, p pgxpool.ShouldPingParams) bool {
	if p.IdleDuration < min(time.Second, s.deadlines.ping()) {
		return false
	}
	ctx, done := s.bounded(ctx, s.deadlines.ping())
	return done(p.Conn.Ping(ctx)) != nil
}

// errNoAnswer is the cause with which a deadline of ours ends a wait for the server.
var errNoAnswer = errors.New("postgres has not answered in time")

// bounded is [Pool.Bounded] with a deadline of its own.
func (s *Server) bounded(ctx context.Context, within time.Duration) (_ context.Context, done func(error) error) {
	began := time.Now()
	return s.until(ctx, began, began.Add(within))
}

// until is bounded with a point in time; what it bounds began at began.
func (s *Server) until(ctx context.Context, began, end time.Time) (_ context.Context, done func(error) error) {
	ctx, cancel := context.WithDeadlineCause(ctx, end, errNoAnswer)
	return ctx, func(err error) error {
		late := context.Cause(ctx) == errNoAnswer //nolint:errorlint // it is our own, and the cause itself
		cancel()
		if _, answered := errors.AsType[*pgconn.PgError](err); err == nil || answered || !late {
			return err
		}
		s.suspect(began)
		return silence{end.Sub(began).Round(time.Millisecond), err}
	}
}

// suspect gives up all idle connections of the server, because one that was in use since began hangs. Those in use have deadlines of
// their own, and are closed when they are given back.
func (s *Server) suspect(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began.Before(s.suspectedAt) {
		return // the connections of that time are gone already
	}
	s.suspectedAt = time.Now()
	for _, p := range s.pools {
		p.Reset()
	}
}
