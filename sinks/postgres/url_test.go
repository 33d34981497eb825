package postgressink

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	write(".pg_service.conf", "[process]\nuser=process-service\npassword=process-service\noptions=-c process.service=1\n")
	write(".postgresql/postgresql.crt", "process: no certificate")
	write(".postgresql/postgresql.key", "process: no key")
	write(".postgresql/root.crt", "process: no certificate")
	for name, value := range map[string]string{
		"PGHOST": "process-host.example", "PGPORT": "1", "PGDATABASE": "process-database", "PGUSER": "process-user", "PGPASSWORD": "process-password",
		"PGPASSFILE": write("passfile", "*:*:*:*:process-passfile\n"), "PGAPPNAME": "process-app", "PGCONNECT_TIMEOUT": "process-timeout", "PGSSLMODE": "process-mode",
		"PGSSLKEY": "/process/key", "PGSSLCERT": "/process/cert", "PGSSLCERTMODE": "process-mode", "PGSSLSNI": "0", "PGSSLROOTCERT": "/process/root", "PGSSLPASSWORD": "process-password",
		"PGSSLNEGOTIATION": "direct", "PGTARGETSESSIONATTRS": "process-attrs", "PGSERVICE": "process", "PGTZ": "process/zone", "PGOPTIONS": "-c process.option=1",
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
			if got.Host != want.Host || got.Port != want.Port || got.User != "u" || got.Password != "own-password" || got.Database != want.Database ||
				len(got.Fallbacks) != len(want.Fallbacks) || (got.TLSConfig == nil) != (want.TLSConfig == nil) || got.ConnectTimeout != want.ConnectTimeout ||
				got.ChannelBinding != want.ChannelBinding || got.RequireAuth != want.RequireAuth || got.MinProtocolVersion != want.MinProtocolVersion || got.MaxProtocolVersion != want.MaxProtocolVersion ||
				got.SSLCertMode != want.SSLCertMode || got.SSLNegotiation != want.SSLNegotiation || (got.ValidateConnect == nil) != (want.ValidateConnect == nil) {
				t.Errorf("%+v\nwant\n%+v", got, want)
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

// TestURLBringsItsOwn: a URL that leaves to the process who it is, is refused, set or not.
func TestURLBringsItsOwn(t *testing.T) {
	processSettings(t)
	for text, want := range map[string]string{
		"postgres://db.example/x": "no user and password", "postgres://u@db.example/x": "no user and password", "postgres://:hush-hush@db.example/x": "no user and password",
		"postgres://u:@db.example/x": "no user and password", "postgres:///x": "no user and password", "postgres://u:hush-hush@/x": "no host",
		"postgres://u:hush-hush@db.example/x?service=process": "has service", "postgres://u:hush-hush@db.example/x?passfile=/etc/x": "has passfile",
		"postgres://u:hush-hush@db.example/x?servicefile=/etc/x": "has servicefile", "user=u password=hush-hush host=db.example": "is not a URL", "": "is not a URL", "mysql://u:hush-hush@h/x": "is not a URL",
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
	if _, err := url.Parse("postgres://u:p@h/x"); err != nil || CheckURL("postgres://u:p@h/x") != nil {
		t.Error("a good one is refused")
	}
}
