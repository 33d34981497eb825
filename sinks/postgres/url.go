package postgressink

import (
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

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
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errForm
	}
	q := u.Query()
	for _, key := range []string{"service", "servicefile", "passfile"} {
		if q.Has(key) {
			return nil, errors.New("has " + key + ", a file of the machine's: write user and password into the URL, postgres://user:password@host:5432/database")
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

// own are the settings that pgx takes from the process's environment and home directory where a URL does not have them, with what they
// are instead: libpq's defaults.
var own = map[string]string{
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
	q := u.Query()
	for key, value := range own {
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
	if service := os.Getenv("PGSERVICE"); service != "" { // which cannot be unset by a URL: it is shown an empty one
		file, err := emptyService(service)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(filepath.Dir(file))
		q.Set("service", service)
		q.Set("servicefile", file)
	}
	written := u.Query()
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // as libpq, pgx takes a + for itself
	pool, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, errForm
	}
	maps.DeleteFunc(pool.ConnConfig.RuntimeParams, func(key, _ string) bool { return !written.Has(key) })
	return pool, nil
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
