package postgressink

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// processSettings sets all that pgx reads of a process, with values that would be noticed, and returns a word that is in most of them.
func processSettings(t *testing.T) (mark string) {
	t.Helper()
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOME", home)
	write(".pgpass", "*:*:*:*:process-pgpass\n")
	const service = "[process]\nuser=process-service\npassword=process-service\nhost=process-service.example\nport=2\ndbname=process-service\n" +
		"connect_timeout=3\nsslmode=verify-full\ntarget_session_attrs=read-only\nsearch_path=process-service\noptions=-c process.service=1\n" +
		"default_query_exec_mode=simple_protocol\nstatement_cache_capacity=7\npool_max_conns=7\npool_max_conn_idle_time=7s\n"
	write(".pg_service.conf", service)
	write(".postgresql/postgresql.crt", "process: no certificate")
	write(".postgresql/postgresql.key", "process: no key")
	write(".postgresql/root.crt", "process: no certificate")
	for name, value := range map[string]string{
		"PGHOST": "process-host.example", "PGPORT": "1", "PGDATABASE": "process-database", "PGUSER": "process-user", "PGPASSWORD": "process-password",
		"PGPASSFILE": write("passfile", "*:*:*:*:process-passfile\n"), "PGAPPNAME": "process-app", "PGCONNECT_TIMEOUT": "process-timeout", "PGSSLMODE": "process-mode",
		"PGSSLKEY": "/process/key", "PGSSLCERT": "/process/cert", "PGSSLCERTMODE": "process-mode", "PGSSLSNI": "0", "PGSSLROOTCERT": "/process/root", "PGSSLPASSWORD": "process-password",
		"PGSSLNEGOTIATION": "direct", "PGTARGETSESSIONATTRS": "process-attrs", "PGSERVICE": "process", "PGSERVICEFILE": write("services", service), "PGTZ": "process/zone", "PGOPTIONS": "-c process.option=1",
		"PGMINPROTOCOLVERSION": "process", "PGMAXPROTOCOLVERSION": "process", "PGCHANNELBINDING": "process", "PGREQUIREAUTH": "process",
	} {
		t.Setenv(name, value)
	}
	return "process"
}

// TestNothingOfTheProcessIsUsed: whoever writes a team's file connects with what is in it, and with nothing that the process has for its
// ledger or an operator for psql.
func TestNothingOfTheProcessIsUsed(t *testing.T) {
	for _, text := range []string{
		"postgres://u:own-password@db.example/x", "postgres://u:own-password@db.example:6432/x?sslmode=require", "postgres://u:own-password@db.example", "postgres://u:own-password@a.example,b.example/x",
		"postgres://db.example/x?user=u&password=own-password", "postgresql://u:own-password@/x?host=db.example&ssl=true", "postgres://u:own-password@db.example/x?options=-c%20own.option%3D1&timezone=UTC&search_path=own",
		"postgres://db.example/x?user=u&password=own-pass+word%2B&application_name=a%20b+c",
		"postgres://u:own-password@db.example/x?sslmode=verify-full", "postgres://u:own-password@db.example/x?pool_max_conns=3&default_query_exec_mode=exec&statement_timeout=5s",
	} {
		clean, err := pgxpool.ParseConfig(text) // with nothing set
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) {
			mark := processSettings(t)
			pool, err := poolConfig(text)
			if err != nil {
				t.Fatal(err)
			}
			got, want := pool.ConnConfig, clean.ConnConfig
			if !strings.HasPrefix(got.Password, "own-pass") {
				t.Errorf("password %q", got.Password)
			}
			if got.Host != want.Host || got.Port != want.Port || got.User != "u" || got.Password != want.Password || got.Database != want.Database ||
				len(got.Fallbacks) != len(want.Fallbacks) || (got.TLSConfig == nil) != (want.TLSConfig == nil) || got.ConnectTimeout != want.ConnectTimeout ||
				got.ChannelBinding != want.ChannelBinding || got.RequireAuth != want.RequireAuth || got.MinProtocolVersion != want.MinProtocolVersion || got.MaxProtocolVersion != want.MaxProtocolVersion ||
				got.SSLCertMode != want.SSLCertMode || got.SSLNegotiation != want.SSLNegotiation || (got.ValidateConnect == nil) != (want.ValidateConnect == nil) {
				t.Errorf("%+v\nwant\n%+v", got, want)
			}
			if pool.MaxConns != clean.MaxConns || pool.MaxConnIdleTime != clean.MaxConnIdleTime || got.DefaultQueryExecMode != want.DefaultQueryExecMode || got.StatementCacheCapacity != want.StatementCacheCapacity {
				t.Errorf("%d connections for %s, %s with %d statements; want %d for %s, %s with %d", pool.MaxConns, pool.MaxConnIdleTime, got.DefaultQueryExecMode, got.StatementCacheCapacity,
					clean.MaxConns, clean.MaxConnIdleTime, want.DefaultQueryExecMode, want.StatementCacheCapacity)
			}
			if c := got.TLSConfig; c != nil && (len(c.Certificates) > 0 || c.RootCAs != nil || c.ServerName != want.TLSConfig.ServerName) {
				t.Errorf("TLS with certificates of the process: %+v", c)
			}
			if len(got.RuntimeParams) != len(want.RuntimeParams) {
				t.Errorf("settings of the session: %v, want %v", got.RuntimeParams, want.RuntimeParams)
			}
			for name, value := range got.RuntimeParams {
				if value != want.RuntimeParams[name] || strings.Contains(value, mark) {
					t.Errorf("%s is %q, want %q", name, value, want.RuntimeParams[name])
				}
			}
		})
	}
}

// TestConnectsWithoutTheProcess acts, with all of it set.
func TestConnectsWithoutTheProcess(t *testing.T) {
	d := newTarget(t)
	processSettings(t)
	s := d.must(nil)
	if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Fatal(err)
	}
	if n := d.effects(sinktest.Action(1)); n != 1 {
		t.Errorf("acted %d times", n)
	}
}

// TestAURLDoesNotUseUpTheProcess: what a URL has of pgx's settings ends no process, and takes no more of it than its destination may. The
// server of each acts as it would; of these values pgx panics, or makes room for all of them.
func TestAURLDoesNotUseUpTheProcess(t *testing.T) {
	d := newTarget(t)
	for _, settings := range []string{
		"pool_health_check_period=0s", "pool_health_check_period=-1h", "pool_health_check_period=1ns", "pool_min_conns=-7&pool_min_idle_conns=-7",
		"pool_min_conns=2147483647", "pool_min_idle_conns=2147483647", "statement_cache_capacity=2000000000", "description_cache_capacity=2000000000",
		"pool_max_conns=2147483647&pool_max_conn_lifetime=-1s&pool_max_conn_lifetime_jitter=-1s&pool_max_conn_idle_time=-1s&pool_ping_timeout=-1s",
	} {
		t.Run(settings, func(t *testing.T) {
			s := d.must(func(cfg *Config) {
				u, err := url.Parse(cfg.Database.Reveal())
				if err != nil {
					t.Fatal(err)
				}
				if u.RawQuery != "" {
					u.RawQuery += "&"
				}
				u.RawQuery += settings
				secret := schemas.NewSecret(u.String())
				cfg.Database, cfg.MaxConns = &secret, 3
			})
			pool := s.pool.Config()
			c := pool.ConnConfig
			if pool.MaxConns != 3 || pool.MinConns < 0 || pool.MinConns > 3 || pool.MinIdleConns < 0 || pool.MinIdleConns > 3 || pool.HealthCheckPeriod < time.Second ||
				c.StatementCacheCapacity > 512 || c.DescriptionCacheCapacity > 512 {
				t.Errorf("%d to %d connections, %d idle, looked at every %s, with %d and %d statements", pool.MinConns, pool.MaxConns, pool.MinIdleConns, pool.HealthCheckPeriod, c.StatementCacheCapacity, c.DescriptionCacheCapacity)
			}
			if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAServerThatAnnouncesMuch: room is made for no more than a message may have.
func TestAServerThatAnnouncesMuch(t *testing.T) {
	t.Parallel()
	pool, err := poolConfig("postgres://u:p@db.example/x")
	if err != nil {
		t.Fatal(err)
	}
	bound(pool)
	announced := []byte{'D', 0x3f, 0xff, 0xff, 0xff}
	_, err = pool.ConnConfig.BuildFrontend(bytes.NewReader(announced), io.Discard).Receive()
	if tooLong, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); !ok || tooLong.MaxExpectedBodyLen != mostMessage {
		t.Errorf("a message of 1 GiB: %v", err)
	}
}

// TestURLBringsItsOwn: a URL that leaves to the process who it is, is refused, set or not.
func TestURLBringsItsOwn(t *testing.T) {
	processSettings(t)
	for text, want := range map[string]string{
		"postgres://db.example/x": "no user and password", "postgres://u@db.example/x": "no user and password", "postgres://:hush-hush@db.example/x": "no user and password",
		"postgres://u:@db.example/x": "no user and password", "postgres:///x": "no user and password", "postgres://u:hush-hush@/x": "no host",
		"postgres://u:hush-hush@db.example/x?service=process": "has service", "postgres://u:hush-hush@db.example/x?passfile=/etc/x": "has passfile",
		"postgres://u:hush-hush@db.example/x?servicefile=/etc/x":                                     "has servicefile",
		"postgres://u:hush-hush@db.example/x?sslmode=verify-full&sslcert=/dev/null&sslkey=/dev/null": "has sslcert: ",
		"postgres://u:hush-hush@db.example/x?sslkey=/dev/null":                                       "has sslkey: ", "postgres://u:hush-hush@db.example/x?sslpassword=x": "has sslpassword: ",
		"postgres://u:hush-hush@db.example/x?ssl%63ert=/dev/null":                      "has sslcert: ",
		"postgres://u:hush-hush@db.example/x?sslrootcert=/dev/null":                    "write sslrootcert=system",
		"postgres://u:hush-hush@db.example/x?sslrootcert=system&sslrootcert=/dev/null": "write sslrootcert=system",
		"postgres://u:hush-hush@db.example/x?sslmode=disable#&sslrootcert=/dev/null":   "is not a URL",
		"postgres://u:hush-hush@db.example/x?sslmode=disable;sslrootcert=/dev/null":    "is not a URL",
		"postgres://u:hush-hush@db.example/x?krbsrvname=x":                             "options=-c%20name%3Dvalue",
		"postgres://u:hush-hush@db.example/x?sslnewkey=/dev/null":                      "a query parameter that Forebay does not know",
		"postgres://db.example/x?user=u&password=a&hush=":                              "a & of a password %26",
		"user=u password=hush-hush host=db.example":                                    "is not a URL", "": "is not a URL", "mysql://u:hush-hush@h/x": "is not a URL",
	} {
		err := CheckURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		secret := schemas.NewSecret(text)
		if _, made := New(Config{Database: &secret, Statement: "SELECT 1", Params: params(t)}); schemas.KindOf(made) != schemas.Invalid {
			t.Errorf("%s is used: %v", text, made)
		}
	}
	if _, err := url.Parse("postgres://u:p@h/x"); err != nil || CheckURL("postgres://u:p@h/x") != nil || CheckURL("postgres://u:p@h/x?sslmode=verify-full&sslrootcert=system") != nil {
		t.Error("a good one is refused")
	}
}
