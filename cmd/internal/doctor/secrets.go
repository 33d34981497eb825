package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// secrets looks at where secrets are: how many stand in the configuration itself, and who else can read the files. A reference that leads
// nowhere is not found here: with one the configuration cannot be read.
func (d *doctor) secrets(context.Context) (found []Finding) {
	if d.parsed == nil {
		return d.notRead()
	}
	settings := d.parsed.SecretSettings()
	files := map[string]string{} // which setting has its secret in a file, by the file's path
	followed, literals := 0, 0
	for _, s := range settings {
		if s.Literal {
			literals++
			files[s.File] = s.Key
			continue
		}
		followed += len(s.Values)
		for _, f := range s.Files {
			if len(s.Values) > 0 && !s.Public {
				files[f] = s.Key
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
		first := settings[slices.IndexFunc(settings, func(s config.Setting) bool { return s.Literal })]
		found = append(found, warning(first.Key, fmt.Sprintf("secrets that stand in the configuration itself, where whoever reads or keeps it has them: %d", literals),
			first.Key+`: "${env:NAME}" or "${file:PATH}"`))
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
		if t := d.parsed.KafkaTLS(role); t != nil && t.KeyFile != "" {
			list = append(list, keyFile{t.KeyFile, "kafka.tls.key_file"})
		}
	}
	if t := d.parsed.OperatorTLS(); t != nil && t.KeyFile != "" {
		list = append(list, keyFile{t.KeyFile, "operator.tls.key_file"})
	}
	if r := d.parsed.RegistryFound(); r != nil && r.TLS != nil && r.TLS.KeyFile != "" {
		list = append(list, keyFile{r.TLS.KeyFile, "registry.tls.key_file"})
	}
	return slices.DeleteFunc(list, func(f keyFile) bool { return strings.Contains(f.path, "${") })
}
