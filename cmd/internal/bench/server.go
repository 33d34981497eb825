package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// pgServer is the Postgres that a scenario runs on, with the ledger's schema.
type pgServer struct {
	url   string
	meter meter
	close func()
}

// openPostgres takes the server that o names, or starts one, brings the ledger's schema there and reports the settings.
func (o Options) openPostgres(ctx context.Context, r *Report) (*pgServer, error) {
	s := &pgServer{url: o.Postgres, close: func() {}}
	if s.url == "" {
		if err := s.start(ctx, o.data, cmp.Or(o.buffers, "512MB")); err != nil {
			return nil, err
		}
	}
	if err := s.prepare(ctx, r); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *pgServer) start(ctx context.Context, data, buffers string) error {
	pg, err := rig.StartPostgres(ctx, data, nil, map[string]string{"shared_buffers": buffers, "max_wal_size": "8GB", "max_connections": "120"})
	if err != nil {
		return err
	}
	s.url = pg.URL().Reveal()
	s.close = func() { _ = pg.Discard(context.WithoutCancel(ctx)) }
	return nil
}

func (s *pgServer) prepare(ctx context.Context, r *Report) error {
	if _, err := ledger.Migrate(ctx, ledger.Config{URL: schemas.NewSecret(s.url)}); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, name := range []string{"server_version", "synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "max_wal_size"} {
		var v string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&v); err != nil {
			return err
		}
		r.Settings["postgres."+name] = v
	}
	s.meter.url = s.url
	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err == nil {
		s.meter.pid = postmaster(dir)
	} // else it does not tell everybody
	return nil
}

// postmaster reads the server's pid, 0 where it cannot be read: then the server's processor time is not reported.
func postmaster(dir string) int {
	text, err := os.ReadFile(dir + "/postmaster.pid")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// columns lists a table's columns in their order, as expressions of a SELECT from it: each is the column's name, or
// the expression that instead has for it. So rows can be copied without knowing all columns.
func columns(ctx context.Context, conn *pgx.Conn, table string, instead map[string]string) (string, error) {
	rows, err := conn.Query(ctx, `SELECT attname FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	if err != nil {
		return "", err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	found := 0
	for i, name := range names {
		if e, ok := instead[name]; ok {
			names[i], found = e, found+1
			continue
		}
		names[i] = pgx.Identifier{name}.Sanitize()
	}
	if found != len(instead) {
		return "", fmt.Errorf("%s has no longer all of the columns that the bench fills", table)
	}
	return strings.Join(names, ", "), nil
}

// memoryRoom is what the servers of a scenario that keep their data in memory may need, with room to spare.
const memoryRoom = 2 << 30

// memoryDir is a directory in memory with that much room; empty where there is none.
func memoryDir() string {
	const dir, tmpfs = "/dev/shm", 0x01021994 // statfs(2)
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Type != tmpfs || int64(s.Bavail)*s.Bsize < memoryRoom {
		return ""
	}
	return dir
}
