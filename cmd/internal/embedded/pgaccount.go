package embedded

import (
	"context"
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

// stateRoot is the directory for the databases of a root whose own directory the server's user cannot reach. Tests replace it.
var stateRoot = "/var/lib/forebay"

// account is the user that the server runs as; nil is the user of this process. Neither initdb nor postgres runs as root.
type account struct {
	name     string
	uid, gid uint32
}

// attributes returns the attributes of a child process that runs as the account.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// own makes the account the owner of a path.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// enters returns an error if the account cannot have dir as its working directory, for which it must pass every parent. It tries by
// starting a program there, since mode bits do not show everything (ACLs, mounts).
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

// serverAccount returns the account for the server: nil if this process is not root; else the owner of an existing cluster, or postgres, or
// nobody. A user id without a name would not do, since initdb looks its name up.
func serverAccount(cluster string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(cluster); err == nil {
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

// chooseHome returns the server's account and its home. The home is dir/server, or a directory under stateRoot if the account cannot reach
// that: then the file dir/location has its path and, since a copy of dir is not the one whose database it is, dir's inode.
func chooseHome(ctx context.Context, dir string, logger *slog.Logger) (*account, string, error) {
	location := filepath.Join(dir, "location")
	home := filepath.Join(dir, "server")
	inode, err := inodeOf(dir)
	if err != nil {
		return nil, "", err
	}
	locate := func(home string) error { return writeFileAtomically(location, []byte(home+"\n"+inode+"\n"), 0o644) }
	text, err := os.ReadFile(location)
	if err == nil {
		var of string
		home, of, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
		switch of {
		case inode:
		case "": // somebody has removed it, as the message below says
			err = locate(home)
		default:
			err = fmt.Errorf("%s leads to the database of the directory that this one was copied from: remove %s to begin again or, if that directory is gone, the second line of %[1]s to take its database over",
				location, dir)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	os.Remove(home) // take has just made it, so it is empty
	elsewhere, err := a.elsewhere(ctx, dir, logger)
	if err != nil {
		return nil, "", err
	}
	logger.Warn("the database lies outside the data directory: PostgreSQL does not run as root, and its user cannot reach it",
		"user", a.name, "directory", dir, "database", elsewhere)
	return a, elsewhere, locate(elsewhere)
}

// inodeOf returns what a directory keeps when it is renamed, and its copy does not have.
func inodeOf(dir string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return fmt.Sprint(st.Ino), nil
}

// take makes the directory home, makes the account its owner, and checks that the account can enter it.
func (a *account) take(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := a.own(home); err != nil {
		return err
	}
	return a.enters(home)
}

// elsewhere makes a home for dir under stateRoot. Its name has a hash of dir. So the home of an earlier dir of the same path is found. It is
// not taken, as the broker's log in dir would not fit its ledger, and stays: that dir may be deleted, or have another name now. A server that was
// left running there is stopped: if dir is deleted, nobody else would.
func (a *account) elsewhere(ctx context.Context, dir string, logger *slog.Logger) (string, error) {
	sum := sha256.Sum256([]byte(dir))
	prefix := hex.EncodeToString(sum[:8]) + "-"
	if err := os.MkdirAll(stateRoot, 0o755); err != nil {
		return "", err
	}
	earlier, err := filepath.Glob(filepath.Join(stateRoot, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, home := range earlier {
		err := stopUnheld(ctx, home, logger)
		switch _, inUse := errors.AsType[*HeldError](err); {
		case inUse:
		case err != nil:
			logger.Warn("the PostgreSQL of an earlier data directory of this name could not be stopped", "database", home, "error", err)
		default:
			logger.Warn("an earlier data directory of this name has its database still: remove it if that directory was deleted, and not renamed", "database", home)
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

// stopUnheld stops the server of a home that no process has. Its next start goes on with the data.
func stopUnheld(ctx context.Context, home string, logger *slog.Logger) error {
	data := filepath.Join(home, "data")
	if running, err := processesIn(data); err != nil || len(running) == 0 {
		return err
	}
	lock, err := lockDir(home)
	if err != nil {
		return err
	}
	return errors.Join(stopLeftovers(ctx, data, logger), lock.release())
}
