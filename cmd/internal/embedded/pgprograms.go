package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// programs is one installation of PostgreSQL's server programs.
type programs struct {
	bin     string // directory of initdb and postgres
	version string // as "postgres --version" says it: 15.12
	origin  string // "installed" or "downloaded"
}

func (p programs) path(name string) string { return filepath.Join(p.bin, name) }

func (p programs) major() string { return strings.SplitN(p.version, ".", 2)[0] }

// environ returns the environment of the server programs: without PG* variables and the locale of the user.
func (p programs) environ() []string {
	return []string{"PATH=" + p.bin + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
}

func (p programs) String() string {
	return fmt.Sprintf("PostgreSQL %s, %s, %s", p.version, p.origin, p.bin)
}

// oldest is the first major version that the ledger is written for.
const oldest = 14

// findPrograms returns server programs of a major version, that of an existing cluster; "" is any, the newest first. It prefers installed
// ones and downloads others. as is the account that has to run them.
func findPrograms(ctx context.Context, cfg PostgresConfig, major string, as *account) (programs, error) {
	var found []programs
	if !cfg.Download {
		found = installed(ctx)
	}
	if i := slices.IndexFunc(found, func(p programs) bool { return major == "" || p.major() == major }); i >= 0 {
		return found[i], nil
	}
	if major != "" && major != downloadMajor {
		return programs{}, fmt.Errorf("the database in %s was made by PostgreSQL %s, and of that version nothing is installed: install it (Debian: postgresql-%s), or remove the directory to begin again",
			cfg.Dir, major, major)
	}
	p, err := downloaded(ctx, cfg, as)
	if err != nil {
		return programs{}, fmt.Errorf("no PostgreSQL is installed, and its programs could not be fetched: %w; install it (Debian: apt-get install postgresql), or name a server in postgres.url", err)
	}
	return p, nil
}

// installed lists the usable installations, newest first.
func installed(ctx context.Context) []programs {
	var found []programs
	for _, bin := range binDirs(ctx) {
		if p, err := inspect(ctx, bin, "installed"); err == nil && p.number() >= oldest {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b programs) int { return b.number() - a.number() })
	return found
}

// binDirs returns directories that may have the server programs, sorted: that of a postgres in PATH, those of distributions that keep the
// programs out of PATH, and the one that pg_config names.
func binDirs(ctx context.Context) []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql@*/bin",
	} {
		matches, _ := filepath.Glob(pattern) // the patterns are well-formed
		dirs = append(dirs, matches...)
	}
	// This alone would not do: Debian's pg_config of libpq-dev names the client's version, which may not be installed as a server.
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// inspect checks that a directory has initdb and postgres, and returns them with their version.
func inspect(ctx context.Context, bin, origin string) (programs, error) {
	p := programs{bin: bin, origin: origin}
	if !exists(p.path("initdb")) {
		return p, fmt.Errorf("no initdb in %s", bin)
	}
	out, err := exec.CommandContext(ctx, p.path("postgres"), "--version").Output()
	if err != nil {
		return p, fmt.Errorf("%s --version: %w", p.path("postgres"), err)
	}
	// postgres (PostgreSQL) 15.12 (Debian 15.12-0+deb12u2)
	fields := strings.Fields(string(out))
	if len(fields) < 3 {
		return p, fmt.Errorf("%s --version says %q", p.path("postgres"), out)
	}
	p.version = fields[2]
	return p, nil
}

// number returns the major version as a number; 0 for a version without one, such as that of a development build.
func (p programs) number() int {
	n, err := strconv.Atoi(p.major())
	if err != nil {
		return 0
	}
	return n
}

// cacheDirs returns where downloaded programs may be kept, best first.
func cacheDirs(cfg PostgresConfig) ([]string, error) {
	if cfg.Cache != "" {
		return []string{cfg.Cache}, nil
	}
	var dirs []string
	if dir := os.Getenv("FOREBAY_CACHE"); dir != "" {
		dirs = append(dirs, dir)
	} else if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(dir, "forebay"))
	}
	if os.Geteuid() == 0 {
		dirs = append(dirs, "/var/cache/forebay") // root's own cache is closed to the server's user
	}
	if len(dirs) == 0 {
		return nil, errors.New("no cache directory: set FOREBAY_CACHE")
	}
	return dirs, nil
}
