package embedded

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/xi2/xz"
)

// If nothing is installed, zonky's builds of PostgreSQL are downloaded from Maven Central: 15 MB on Linux and 30 on macOS, about 50 MB
// unpacked.
const (
	downloadVersion = "17.7.0"
	downloadMajor   = "17"
	downloadFrom    = "https://repo1.maven.org/maven2/io/zonky/test/postgres"
	maxDownload     = 64 << 20
	patience        = 30 * time.Second // in which something must come
)

// build is one of zonky's builds of PostgreSQL.
type build struct {
	platform string // as Maven Central spells it
	sha256   string // of the jar, in hex
}

// builds has them by GOOS/GOARCH.
var builds = map[string]build{
	"linux/amd64":  {"linux-amd64", "ceb1c01cf5e71d6f906b8614982f6ed61e96b3740dd30758fa6262f97e752b69"},
	"linux/arm64":  {"linux-arm64v8", "85622d56a394c424db4b15185bad31f51848809cb0810fe87059ec38be23caad"},
	"darwin/amd64": {"darwin-amd64", "9540ede93642d7301c0a9b19a21df5c3c696db5d59396fc54898be48114baac8"},
	"darwin/arm64": {"darwin-arm64v8", "f3478bea63e3ed5328bbfbb1d894883a9686f8ca34445daf067995daa60d0cc1"},
}

// downloaded returns the programs in the cache, into which it downloads them the first time.
func downloaded(ctx context.Context, cfg PostgresConfig, as *account) (_ programs, err error) {
	cache, err := usableCache(cfg, as)
	if err != nil {
		return programs{}, err
	}
	dir := filepath.Join(cache, "postgres-"+downloadVersion)
	if p, err := inspect(ctx, filepath.Join(dir, "bin"), "downloaded"); err == nil {
		return p, nil
	}
	lock, err := lockDir(filepath.Join(cache, "download"))
	if err != nil {
		return programs{}, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if p, err := inspect(ctx, filepath.Join(dir, "bin"), "downloaded"); err == nil { // another process has just fetched them
		return p, nil
	}
	cfg.Logger.Warn("no PostgreSQL is installed: its programs are fetched once", "version", downloadVersion, "size", "15 to 30 MB", "into", dir)
	if err := fetch(ctx, filepath.Join(cache, "download"), dir); err != nil {
		return programs{}, err
	}
	return inspect(ctx, filepath.Join(dir, "bin"), "downloaded")
}

// usableCache returns the first cache directory that exists or can be made, and that the account can enter.
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

// fetch downloads the programs, unpacks them below work and renames the result to dir: dir is whole, or does not exist.
func fetch(ctx context.Context, work, dir string) error {
	b, ok := builds[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return fmt.Errorf("there is no build of PostgreSQL %s for %s/%s", downloadVersion, runtime.GOOS, runtime.GOARCH)
	}
	url := fmt.Sprintf("%s/embedded-postgres-binaries-%s/%s/embedded-postgres-binaries-%[2]s-%[3]s.jar", downloadFrom, b.platform, downloadVersion)
	jar, err := download(ctx, url, b.sha256, patience)
	if err != nil {
		return err
	}
	fresh := filepath.Join(work, "programs")
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(fresh, 0o755)); err != nil {
		return err
	}
	if err := unpack(jar, fresh); err != nil {
		return fmt.Errorf("unpack %s: %w", url, err)
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir))
}

// download returns the file at url. It is an error if its SHA-256 in hex is not sum, or if nothing of it comes for so long.
func download(ctx context.Context, url, sum string, patience time.Duration) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(patience, func() { cancel(fmt.Errorf("nothing came for %s", patience)) })
	defer limit.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err // names the address
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(&told{resp.Body, func() { limit.Reset(patience) }}, maxDownload))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	if got := sha256.Sum256(body); hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("GET %s: %d bytes with the SHA-256 sum %x came, not %s: what was sent is not what was published", url, len(body), got, sum)
	}
	return body, nil
}

// told is a reader that says of each read that something came.
type told struct {
	io.Reader
	came func()
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.came()
	}
	return n, err
}

// unpack unpacks the .txz that is in a jar into dir. It writes nothing outside of dir.
func unpack(jar []byte, dir string) error {
	archive, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		if path.Ext(f.Name) != ".txz" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		return untar(r, dir)
	}
	return errors.New("it holds no .txz")
}

// untar unpacks an archive into dir.
func untar(compressed io.Reader, dir string) error {
	plain, err := xz.NewReader(compressed, 0)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackEntry(root, h, r)
		}
		if err != nil {
			return err
		}
	}
}

// unpackEntry makes one directory, link or file of an archive.
func unpackEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	default:
		return fmt.Errorf("%s: entries of type %q are not expected", h.Name, h.Typeflag)
	}
}
