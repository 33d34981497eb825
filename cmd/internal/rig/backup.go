package rig

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backups are those of a server that archives its WAL.
type Backups struct {
	*PostgresServer
	base string // the base backup
}

// ArchivedPostgres is [Postgres] with all of its WAL in an archive beside its data.
func ArchivedPostgres(t T) *Backups {
	t.Helper()
	return &Backups{PostgresServer: postgresWith(t, map[string]string{
		"archive_mode": "on", "archive_command": "mkdir -p ../archive && cp %p ../archive/%f",
	})}
}

// BackUp takes a base backup, by the calls that pgBackRest and its like make: a downloaded PostgreSQL has no pg_basebackup.
func (b *Backups) BackUp() {
	b.t.Helper()
	ctx, conn := b.connect()
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SELECT pg_backup_start('test', true)`); err != nil {
		b.t.Fatal(err)
	}
	b.base = filepath.Join(OpenDir(b.t), "base")
	// Files that go meanwhile are no fault: the WAL says so, too.
	b.shell(`cp -a "$1" "$2" 2>/dev/null; rm -rf "$2"/pg_wal/* "$2"/postmaster.pid && test -s "$2"/global/pg_control`, b.server.DataDir(), b.base)
	var label string
	if err := conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop()`).Scan(&label); err != nil {
		b.t.Fatal(err)
	}
	b.shell(`printf %s "$2" >"$1"/backup_label && chown --reference="$1" "$1"/backup_label`, b.base, label)
}

// Mark names this moment, for RestoreTo, and waits until the WAL up to it is archived.
func (b *Backups) Mark(name string) {
	b.t.Helper()
	ctx, conn := b.connect()
	defer conn.Close(ctx)
	var segment string
	if err := conn.QueryRow(ctx, `SELECT pg_walfile_name(pg_create_restore_point($1))`, name).Scan(&segment); err != nil {
		b.t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_switch_wal()`); err != nil {
		b.t.Fatal(err)
	}
	archived := false
	if !Until(time.Minute, func() bool {
		err := conn.QueryRow(ctx, `SELECT coalesce(max(last_archived_wal) >= $1, false) FROM pg_stat_archiver`, segment).Scan(&archived)
		return err == nil && archived
	}) {
		b.t.Fatalf("the WAL up to %s is not archived", name)
	}
}

// RestoreTo loses the server with its data, and brings it back by the base backup and the archived WAL up to a mark.
func (b *Backups) RestoreTo(mark string) {
	b.t.Helper()
	data := b.server.DataDir()
	b.Kill()
	b.shell(`rm -rf "$1"/* && cp -a "$2"/. "$1" && touch "$1"/recovery.signal && chown --reference="$1" "$1"/recovery.signal`, data, b.base)
	b.settings = maps.Clone(b.settings)
	maps.Copy(b.settings, map[string]string{"restore_command": "cp ../archive/%f %p", "recovery_target_name": mark, "recovery_target_action": "promote"})
	b.Restart()
	ctx, conn := b.connect()
	defer conn.Close(ctx)
	recovering := true
	if !Until(time.Minute, func() bool {
		err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&recovering)
		return err == nil && !recovering
	}) {
		b.t.Fatalf("PostgreSQL does not come to %s", mark)
	}
}

func (b *Backups) connect() (context.Context, *pgx.Conn) {
	b.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	return ctx, conn
}

func (b *Backups) shell(script string, args ...string) {
	b.t.Helper()
	if out, err := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}
