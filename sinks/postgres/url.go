package postgressink

import (
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

var errForm = errors.New("is not a URL of the form postgres://user:password@host:5432/database")

// CheckURL returns what is wrong with a URL; the error goes behind its key and shows nothing of it. Whoever writes a team's file brings
// a user and a password: the process's own, of its ledger or of the machine, are not for its destinations.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Fragment != "" {
		return nil, errForm
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, "+", "%2B") // to libpq and pgx a + is one; net/url would take it for a space
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errForm
	}
	for _, key := range slices.Sorted(maps.Keys(q)) {
		if err := mayHave(key, q[key]); err != nil {
			return nil, err
		}
	}
	password, _ := u.User.Password()
	if u.User.Username() == "" && q.Get("user") == "" || password == "" && q.Get("password") == "" {
		return nil, errors.New("has no user and password: PG* variables and .pgpass of the process are not for destinations; write postgres://user:password@host:5432/database")
	}
	if u.Host == "" && q.Get("host") == "" {
		return nil, errors.New("has no host: write postgres://user:password@host:5432/database")
	}
	return u, nil
}

// taken are the keys that a URL may have. pgx reads files by others, and may by keys that it does not know yet: what is not listed is
// refused. Any setting of a session goes into options.
var taken = []string{
	"host", "port", "dbname", "database", "user", "password", "connect_timeout", "target_session_attrs",
	"ssl", "sslmode", "sslsni", "sslcertmode", "sslnegotiation", "channel_binding", "require_auth", "min_protocol_version", "max_protocol_version",
	"application_name", "options", "search_path", "timezone", "TimeZone", "client_encoding", "datestyle", "DateStyle", "role", "synchronous_commit",
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "default_transaction_isolation",
	"default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
	"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conn_idle_time",
	"pool_health_check_period", "pool_ping_timeout",
}

// mayHave returns an error for a key that a URL may not have, or not with these values, with what to write in its place.
func mayHave(key string, values []string) error {
	switch {
	case key == "service" || key == "servicefile" || key == "passfile":
		return errors.New("has " + key + ", a file of the machine's: write user and password into the URL, postgres://user:password@host:5432/database")
	case key == "sslcert" || key == "sslkey" || key == "sslpassword":
		return errors.New("has " + key + ": a destination shows no certificate of the machine's; log in with user and password, postgres://user:password@host:5432/database")
	case key == "sslrootcert" && slices.ContainsFunc(values, func(v string) bool { return v != "system" }):
		return errors.New("has sslrootcert with a file of the machine's: put the server's CA into the system's store, and write sslrootcert=system")
	case key != "sslrootcert" && !slices.Contains(taken, key):
		// The key is not shown: it may be the rest of a password with a & in it.
		return errors.New("has a query parameter that Forebay does not know: a setting of the session is written options=-c%20name%3Dvalue, and a & of a password %26")
	}
	return nil
}

// defaults are the settings that pgx takes from the process's environment and home directory where a URL does not have them, with what they
// are instead: libpq's defaults.
var defaults = map[string]string{
	"sslmode": "prefer", "sslkey": "", "sslcert": "", "sslcertmode": "allow", "sslsni": "1", "sslrootcert": "", "sslpassword": "", "sslnegotiation": "",
	"connect_timeout": "0", "target_session_attrs": "any", "min_protocol_version": "", "max_protocol_version": "", "channel_binding": "prefer", "require_auth": "",
	"application_name": "", "timezone": "", "options": "", "passfile": "",
}

// poolConfig returns the configuration that a URL alone makes. pgx cannot be told not to read PG* variables, .pgpass, service files
// and the certificates in the home directory; so each of their settings is written into the URL.
func poolConfig(text string) (*pgxpool.Config, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	written := u.Query()
	whole, err := url.Parse(writtenOut(u))
	if err != nil {
		return nil, errForm
	}
	q := whole.Query()
	if service := os.Getenv("PGSERVICE"); service != "" { // which cannot be unset by a URL: it is shown an empty one
		file, err := emptyService(service)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(filepath.Dir(file))
		q.Set("service", service)
		q.Set("servicefile", file)
	}
	u.RawQuery = encoded(q)
	full := u.String()
	allowed := append(slices.Sorted(maps.Keys(q)), "host", "port", "user", "password", "database") // were pgx to read other keys in it
	if _, err := pgconn.ParseConfigWithOptions(full, pgconn.ParseConfigOptions{ConnStringAllowedKeys: allowed}); err != nil {
		return nil, errForm
	}
	pool, err := pgxpool.ParseConfig(full)
	if err != nil {
		return nil, errForm
	}
	maps.DeleteFunc(pool.ConnConfig.RuntimeParams, func(key, _ string) bool { return !written.Has(key) })
	return pool, nil
}

// Alone returns a URL as [CheckURL] takes it with every setting written out that pgx would otherwise take from the process (the time zone as
// UTC), and whether a connection may be made without TLS.
func Alone(text string) (full string, plain bool, err error) {
	u, err := parseURL(text)
	if err != nil {
		return "", false, err
	}
	if os.Getenv("PGSERVICE") != "" {
		return "", false, errors.New("cannot be used while PGSERVICE is set, which pgx would read: unset it")
	}
	if q := u.Query(); !q.Has("timezone") { // an empty one, a server refuses
		q.Set("timezone", "UTC")
		u.RawQuery = encoded(q)
	}
	full = writtenOut(u)
	c, err := pgconn.ParseConfig(full)
	if err != nil {
		return "", false, errForm
	}
	plain = c.TLSConfig == nil
	for _, f := range c.Fallbacks {
		plain = plain || f.TLSConfig == nil
	}
	return full, plain, nil
}

// writtenOut returns a URL with libpq's default for each setting that it does not have, so that pgx asks neither PG* variables nor files of
// the process for it. An empty dbname is libpq's too: the database is called as the user.
func writtenOut(u *url.URL) string {
	q := u.Query()
	for key, value := range defaults {
		if !q.Has(key) && !(key == "sslmode" && q.Has("ssl")) {
			q.Set(key, value)
		}
	}
	if strings.Trim(u.Path, "/") == "" && !q.Has("dbname") && !q.Has("database") {
		q.Set("dbname", "")
	}
	if u.Port() == "" && !q.Has("port") && !strings.Contains(u.Host, ",") {
		q.Set("port", "5432")
	}
	out := *u
	out.RawQuery = encoded(q)
	return out.String()
}

// encoded returns a URL's query as pgx reads it: net/url writes a space as +, and to pgx, as to libpq, that is a plus.
func encoded(q url.Values) string { return strings.ReplaceAll(q.Encode(), "+", "%20") }

const (
	mostStatements = 512      // pgx's default; it makes room for all of them with each connection
	mostMessage    = 16 << 20 // of the server, in bytes: what it announces is made room for before it comes. pgx's default is 1 GiB
)

// bound keeps what a URL and a server ask for from using up the process, which pgx does not: it starts as many goroutines as there are to be
// idle connections, and a time of nothing between two health checks ends the process.
func bound(pool *pgxpool.Config) {
	pool.MinConns, pool.MinIdleConns = min(max(0, pool.MinConns), pool.MaxConns), min(max(0, pool.MinIdleConns), pool.MaxConns)
	pool.HealthCheckPeriod = max(time.Second, pool.HealthCheckPeriod)
	c := pool.ConnConfig
	keeps := c.OnPgError
	// A session that may only read stays so when the server's or the role's default is not any more, and when others have taken over from the server.
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool { return err.Code != "25006" && keeps(conn, err) }
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = min(mostStatements, c.StatementCacheCapacity), min(mostStatements, c.DescriptionCacheCapacity)
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(mostMessage)
		return f
	}
}

// emptyService writes a service file with a service that has no settings.
func emptyService(name string) (file string, err error) {
	dir, err := os.MkdirTemp("", "forebay-")
	if err != nil {
		return "", errors.New("cannot be used: pgx reads the service that PGSERVICE names, and no file can be written to keep it from that; unset PGSERVICE")
	}
	file = filepath.Join(dir, "service")
	return file, os.WriteFile(file, []byte("["+name+"]\n"), 0o600)
}
