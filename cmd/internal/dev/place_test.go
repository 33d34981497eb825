package dev

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "played"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "played", started), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(path string) string { return filepath.Join(dir, path) }
	for _, tt := range []struct{ config, data, wantConfig, wantData string }{
		{"", "", "", ".forebay"},
		{"", "x", "", "x"},
		{"mine.yaml", "", "mine.yaml", ".forebay-mine"},
		{"./forebay.yaml", "", "./forebay.yaml", ".forebay-forebay"},
		{in("mine.yml"), "", in("mine.yml"), in(".forebay-mine")},
		{"mine.yaml", ".forebay", "mine.yaml", ".forebay"}, // as it was told
		{".forebay/forebay.yaml", "", "", ".forebay"},
		{".forebay/mine.yaml", "", ".forebay/mine.yaml", ".forebay/.forebay-mine"},
		{in("played/forebay.yaml"), "", "", in("played")},
		{in("played/forebay.yaml"), in("played/"), "", in("played")},
		{in("played/forebay.yaml"), "x", in("played/forebay.yaml"), "x"},
		{in("forebay.yaml"), "", in("forebay.yaml"), in(".forebay-forebay")},
	} {
		o := Options{Config: tt.config, Data: tt.data}
		if o.setPaths(); o.Config != tt.wantConfig || o.Data != tt.wantData {
			t.Errorf("-c %q --data %q: file %q, state %q", tt.config, tt.data, o.Config, o.Data)
		}
	}
}

// A data directory that cannot be written: which, why, and what to do. Root may write everywhere; for it there is a file in the way.
func TestDataThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Data: filepath.Join(dir, "file", "x")}
	if got := o.unusable(makeData(o.Data)).Error(); got != "the data directory "+o.Data+" cannot be used: mkdir "+filepath.Dir(o.Data)+": not a directory; name another one with --data DIR" {
		t.Error(got)
	}
	for _, data := range []string{"/proc/x", filepath.Join(dir, strings.Repeat("x", 300))} {
		o := Options{Data: data}
		if got := o.unusable(makeData(data)).Error(); !strings.HasPrefix(got, "the data directory "+data+" cannot be used: mkdir ") || !strings.HasSuffix(got, "; name another one with --data DIR") {
			t.Error(got)
		}
	}
	denied := "give it to this user (chown -R " + strconv.Itoa(os.Geteuid()) + "), or name another one with --data DIR"
	if os.Geteuid() == 0 { // to whom else could root give it
		denied = "name another one with --data DIR"
	}
	for errno, want := range map[syscall.Errno]string{syscall.EACCES: "permission denied; " + denied, syscall.EROFS: "read-only file system; name another one with --data DIR"} {
		o := Options{Data: "/data"}
		if got := o.unusable(&fs.PathError{Op: "open", Path: "/data/try-1", Err: errno}).Error(); got != "the data directory /data cannot be used: open /data/try-1: "+want {
			t.Error(got)
		}
	}
	if err := errors.New("something else"); o.unusable(err) != err {
		t.Error("an error that has nothing to do with the data directory is blamed on it")
	}
	if os.Geteuid() == 0 {
		return
	}
	o.Data = filepath.Join(dir, "closed")
	if err := os.Mkdir(o.Data, 0o500); err != nil {
		t.Fatal(err)
	}
	if got := o.unusable(makeData(o.Data)); got == nil {
		t.Error("a directory without the right to write is taken")
	}
}
