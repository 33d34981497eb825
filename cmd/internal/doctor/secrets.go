package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// secrets looks at where secrets are: whether references lead anywhere, and who else can read the files.
func (d *doctor) secrets(context.Context) (found []Finding) {
	if d.whole == nil {
		return d.notRead()
	}
	held := d.whole.Held()
	files := map[string]string{} // what a file holds, by its path
	followed, literals := 0, 0
	for _, h := range held {
		if followed += len(h.Values); h.Literal {
			literals, followed = literals+1, followed-1
			files[h.File] = h.Path
		}
		for _, f := range h.Files {
			if len(h.Values) > 0 && !h.Shown {
				files[f] = h.Path
			}
		}
	}
	for _, f := range d.keyFiles() {
		files[f.path] = f.of
	}
	for _, path := range sorted(files) {
		found = append(found, mode(path, files[path])...)
	}
	if literals > 0 {
		at := held[slices.IndexFunc(held, func(h config.Held) bool { return h.Literal })]
		found = append(found, warning(at.Path, fmt.Sprintf("secrets that stand in the configuration itself, where whoever reads or keeps it has them: %d", literals),
			at.Path+`: "${env:NAME}" or "${file:PATH}"`))
	}
	if len(found) == 0 {
		found = append(found, ok("", "%d references lead to values; nobody else can read the %d files with secrets", followed, len(files)))
	}
	return found
}

// mode says who else can read or write a file with a secret.
func mode(path, of string) []Finding {
	info, err := os.Stat(path)
	if err != nil {
		return []Finding{problem(path, "of "+of+": "+err.Error(), "")}
	}
	switch m := info.Mode().Perm(); {
	case m&0o022 != 0:
		return []Finding{problem(path, fmt.Sprintf("has the secret of %s, and others may write it (mode %04o)", of, m), "chmod go-wx,o-r "+path)}
	case m&0o004 != 0:
		return []Finding{problem(path, fmt.Sprintf("has the secret of %s, and everybody on this machine may read it (mode %04o)", of, m), "chmod o-rwx "+path)}
	}
	return nil
}

// keyFile is a file with a private key.
type keyFile struct{ path, of string }

// keyFiles lists the private keys of the file, where it is read for the roles that use them.
func (d *doctor) keyFiles() (list []keyFile) {
	for _, role := range d.roles() {
		if t := d.whole.KafkaTLS(role); t != nil && t.KeyFile != "" {
			list = append(list, keyFile{t.KeyFile, "kafka.tls.key_file"})
		}
	}
	if t := d.whole.OperatorTLS(); t != nil && t.KeyFile != "" {
		list = append(list, keyFile{t.KeyFile, "operator.tls.key_file"})
	}
	if r := d.whole.RegistryFound(); r != nil && r.TLS != nil && r.TLS.KeyFile != "" {
		list = append(list, keyFile{r.TLS.KeyFile, "registry.tls.key_file"})
	}
	return slices.DeleteFunc(list, func(f keyFile) bool { return strings.Contains(f.path, "${") })
}
