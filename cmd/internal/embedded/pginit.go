package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// initOnce makes the database cluster, unless it is there. It runs initdb in another directory and renames that: an interrupted initdb
// leaves nothing that looks like a cluster.
func (p *Postgres) initOnce(ctx context.Context) error {
	if exists(p.data()) {
		return nil
	}
	newData := p.data() + ".new"
	if exists(newData) {
		p.cfg.Logger.Warn("an interrupted initdb is done again", "dir", newData)
	}
	if err := os.RemoveAll(newData); err != nil {
		return err
	}
	passwordFile := filepath.Join(p.home, "initdb.password")
	defer os.Remove(passwordFile)
	if err := os.WriteFile(passwordFile, []byte(p.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := p.account.own(passwordFile); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.programs.path("initdb"), "--pgdata", newData, "--username", "forebay",
		"--pwfile", passwordFile, "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale")
	cmd.Dir = p.home
	cmd.Env = p.programs.environ()
	cmd.SysProcAttr = p.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, err, strings.TrimSpace(string(out)))
	}
	return os.Rename(newData, p.data())
}

// keepPassword returns the password of the role, which the file "password" in dir has. If there is none, it makes a random one and writes
// it into the file. hasCluster says that there is a database cluster already: then a missing password is an error, as the new one would
// not open it.
func keepPassword(dir string, hasCluster bool) (string, error) {
	path := filepath.Join(dir, "password")
	text, err := os.ReadFile(path)
	switch {
	case err == nil && len(strings.TrimSpace(string(text))) > 0:
		return strings.TrimSpace(string(text)), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case hasCluster:
		return "", fmt.Errorf("%s is gone or empty, but the database it opens is still there: put it back, or remove %s to begin again", path, dir)
	}
	password := rand.Text() + rand.Text()
	return password, writeFileAtomically(path, []byte(password+"\n"), 0o600)
}

// ready waits until the server answers queries, for StartWithin at most, and creates the database forebay, unless it is there. If another
// PostgreSQL has the port, that is an error.
func (p *Postgres) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.StartWithin,
		fmt.Errorf("embedded postgres did not answer within %s", p.cfg.StartWithin))
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		err := p.createDatabase(ctx)
		if err == nil {
			return nil
		}
		if failed := new(pgconn.PgError); errors.As(err, &failed) && failed.Code != "57P03" { // cannot_connect_now
			return fmt.Errorf("embedded postgres: %w", err)
		}
		select {
		case <-p.done:
			return fmt.Errorf("embedded postgres ended at once; the end of %s:\n%s", p.serverLog(), p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%w; last error: %w; the end of %s:\n%s", context.Cause(ctx), err, p.serverLog(), p.logTail())
		case <-retry.C:
		}
	}
}

// createDatabase tries once to create the database forebay, unless it is there. It returns an error if the server at the port has other
// data than this one's.
func (p *Postgres) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var dir string
	var have bool
	const question = `SELECT current_setting('data_directory'), EXISTS (SELECT FROM pg_database WHERE datname = 'forebay')`
	if err := conn.QueryRow(ctx, question).Scan(&dir, &have); err != nil {
		return err
	}
	if dir != p.data() {
		return fmt.Errorf("port %d belongs to another PostgreSQL, with its data in %s", p.port, dir)
	}
	if have {
		return nil
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE forebay`)
	return err
}

// dataMajor returns the major version of the cluster in a data directory; "" if there is none.
func dataMajor(data string) string {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
