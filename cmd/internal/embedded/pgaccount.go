package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stateRoot is where root's databases go when the server's user cannot reach the directory that was asked for.
// A variable for the tests.
var stateRoot = "/var/lib/forebay"

// account is the user that the server runs as; nil means our own. Neither initdb nor postgres runs as root.
type account struct {
	name     string
	uid, gid uint32
}

// attributes runs a child as the account.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// own gives a path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// enters reports whether the account can stand in the directory: every parent must let it through. Asked of the kernel
// by starting a program there, which also sees what mode bits do not tell (ACLs, mounts).
func (a *account) enters(dir string) error {
	if a == nil {
		const readWriteSearch = 7
		return syscall.Access(dir, readWriteSearch)
	}
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir = dir
	cmd.SysProcAttr = a.attributes()
	return cmd.Run()
}

// serverAccount chooses the user: the owner of an existing cluster, else postgres, else nobody. initdb insists on a
// name in the user database, so a bare number will not do.
func serverAccount(owned string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(owned); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return &account{name: strconv.Itoa(int(st.Uid)), uid: st.Uid, gid: st.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil || uid == 0 {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as: create one, or start forebay as another user")
}

// chooseHome chooses user and place: the server's home is dir/server, or a directory under stateRoot when the user cannot
// reach that; dir/location remembers the second case.
func chooseHome(dir string, logger *slog.Logger) (*account, string, error) {
	location := filepath.Join(dir, "location")
	home := filepath.Join(dir, "server")
	if text, err := os.ReadFile(location); err == nil {
		home = strings.TrimSpace(string(text))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	a, err := serverAccount(filepath.Join(home, "data"))
	if err != nil {
		return nil, "", err
	}
	if err := a.take(home); err == nil {
		return a, home, nil
	} else if a == nil || exists(location) || exists(filepath.Join(home, "data")) {
		return nil, "", fmt.Errorf("%s cannot be used by the user that PostgreSQL runs as: %w", home, err)
	}
	os.Remove(home) // empty: just made
	elsewhere, err := a.elsewhere(dir, logger)
	if err != nil {
		return nil, "", err
	}
	logger.Warn("the database lies outside the data directory: PostgreSQL does not run as root, and its user cannot reach it",
		"user", a.name, "directory", dir, "database", elsewhere)
	return a, elsewhere, writeFileAtomically(location, []byte(elsewhere+"\n"), 0o644)
}

// take makes the directory, gives it to the account and checks that the account can work there.
func (a *account) take(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := a.own(home); err != nil {
		return err
	}
	return a.enters(home)
}

// elsewhere makes a home under stateRoot. Its name holds the directory it belongs to, so that the homes of a directory
// that was deleted meanwhile are recognised and removed, never taken up again with a log that knows nothing of them.
func (a *account) elsewhere(dir string, logger *slog.Logger) (string, error) {
	sum := sha256.Sum256([]byte(dir))
	prefix := hex.EncodeToString(sum[:8]) + "-"
	if err := os.MkdirAll(stateRoot, 0o755); err != nil {
		return "", err
	}
	orphans, err := filepath.Glob(filepath.Join(stateRoot, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, orphan := range orphans {
		logger.Warn("the database of an earlier, deleted data directory is removed", "database", orphan)
		if err := errors.Join(endForGood(filepath.Join(orphan, "data")), os.RemoveAll(orphan)); err != nil {
			return "", err
		}
	}
	home, err := os.MkdirTemp(stateRoot, prefix)
	if err != nil {
		return "", err
	}
	if err := a.take(home); err != nil {
		return "", fmt.Errorf("user %s cannot use %s either: %w", a.name, home, err)
	}
	return home, nil
}
