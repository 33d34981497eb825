package doctor

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// soon is how long before its end something is a warning.
const soon = 14 * 24 * time.Hour

// longLived is for how long a token must have been made to be worth a word before its end.
const longLived = 30 * 24 * time.Hour

// expiry looks at what has an end: certificates, here and of the brokers, tokens of the operator API, and secrets that say their end.
func (d *doctor) expiry(ctx context.Context) (found []Finding) {
	if d.whole == nil {
		return d.notRead()
	}
	looked := 0
	for _, c := range d.certificates() {
		looked++
		found = append(found, d.certificate(c)...)
	}
	shown, err := d.brokerCertificates(ctx)
	looked, found = looked+len(shown), append(found, err...)
	for _, address := range slices.Sorted(maps.Keys(shown)) {
		found = append(found, ends("broker "+address, "its certificate", shown[address].NotAfter, "have it renewed at the broker")...)
	}
	for _, h := range d.whole.Held() {
		for _, v := range h.Values {
			if end, ok := jwtEnd(v); ok && !h.Shown {
				looked++
				found = append(found, ends(h.Path, "the token", end, "put a new one where "+h.Path+" has its own from")...)
			}
		}
	}
	n, tokens := d.tokens(ctx)
	looked, found = looked+n, append(found, tokens...)
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Severity != OK }) {
		found = append(found, ok("", "%d certificates and tokens with an end; none ends within %s", looked, config.Duration(soon)))
	}
	return found
}

// ends says how something stands that ends.
func ends(subject, what string, end time.Time, fix string) []Finding {
	at := end.UTC().Format(time.RFC3339)
	switch left := time.Until(end); {
	case left <= 0:
		return []Finding{problem(subject, what+" has ended at "+at, fix)}
	case left < soon:
		return []Finding{warning(subject, fmt.Sprintf("%s ends at %s, in %s", what, at, config.Duration(left.Truncate(time.Minute))), fix)}
	}
	return nil
}

// certificateFile is a file of certificates, and the key of the file that names it.
type certificateFile struct{ path, of string }

// certificates lists the files of certificates that the configuration names.
func (d *doctor) certificates() (list []certificateFile) {
	add := func(path, of string) {
		c := certificateFile{path, of}
		if path != "" && !strings.Contains(path, "${") && !slices.ContainsFunc(list, func(o certificateFile) bool { return o.path == path }) {
			list = append(list, c)
		}
	}
	for _, role := range d.roles() {
		if t := d.whole.KafkaTLS(role); t != nil {
			add(t.CAFile, "kafka.tls.ca_file")
			add(t.CertFile, "kafka.tls.cert_file")
		}
	}
	if t := d.whole.OperatorTLS(); t != nil {
		add(t.CertFile, "operator.tls.cert_file")
	}
	if r := d.whole.RegistryFound(); r != nil && r.TLS != nil {
		add(r.TLS.CAFile, "registry.tls.ca_file")
		add(r.TLS.CertFile, "registry.tls.cert_file")
	}
	return list
}

// certificate says which certificate of a file ends first, if one ends soon.
func (d *doctor) certificate(c certificateFile) []Finding {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return []Finding{problem(c.of, err.Error(), "")}
	}
	var first *x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		made, err := x509.ParseCertificate(block.Bytes)
		if block.Type == "CERTIFICATE" && err == nil && (first == nil || made.NotAfter.Before(first.NotAfter)) {
			first = made
		}
	}
	if first == nil {
		return []Finding{problem(c.of, c.path+" has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", "")}
	}
	return ends(c.of, fmt.Sprintf("%s (%s)", c.path, first.Subject), first.NotAfter, "have the certificate of "+c.of+" renewed; the file is read anew for each connection")
}

// brokerCertificates returns what the brokers show, by address; nothing where the roles do not speak TLS to them. A broker that is not
// reached is the check brokers'.
func (d *doctor) brokerCertificates(ctx context.Context) (shown map[string]*x509.Certificate, found []Finding) {
	t := d.whole.KafkaTLS(d.roles()[0])
	shown = map[string]*x509.Certificate{}
	if t == nil {
		return shown, nil
	}
	for _, address := range d.whole.Kafka.Brokers {
		c, err := brokers.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}.Certificate(ctx, address)
		if err != nil {
			found = append(found, unknown("broker "+address, "its certificate is not known: "+brokers.Explain(err).Error(), ""))
			continue
		}
		shown[address] = c
	}
	return shown, found
}

// jwtEnd returns the end that a JSON Web Token says it has.
func jwtEnd(secret schemas.Secret) (time.Time, bool) {
	parts := strings.Split(strings.TrimPrefix(secret.Reveal(), "Bearer "), ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "eyJ") {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Exp == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Exp, 0), true
}

// tokens looks at those of the operator API: of the running process, or of the ledger where nothing is started.
func (d *doctor) tokens(ctx context.Context) (n int, found []Finding) {
	if !d.whole.Operator.HasTokens() || !d.has(config.RoleStream) {
		return 0, nil
	}
	list, err := d.listTokens(ctx)
	if err != nil {
		return 0, []Finding{unknown("tokens", "the tokens of the operator API are not known: "+err.Error(), "forebay tokens list -c "+d.Path)}
	}
	for _, t := range list {
		if t.RevokedAt != nil || time.Now().After(t.ExpiresAt) { // what has ended lets nobody in, as it should
			continue
		}
		if n++; t.ExpiresAt.Sub(t.CreatedAt) < longLived {
			continue
		}
		found = append(found, ends("token "+t.Name, "it", t.ExpiresAt, fmt.Sprintf("forebay tokens create NEW-NAME --role %s --reason TEXT -c %s, for whoever uses it", t.Role, d.Path))...)
	}
	return n, found
}

func (d *doctor) listTokens(ctx context.Context) ([]api.TokenItem, error) {
	all := d.examine()
	i := slices.IndexFunc(all, func(x examined) bool { return x.Path == d.whole.Ledger().Path })
	switch {
	case i < 0:
		return nil, errors.New("there is no ledger to ask")
	case all[i].err != nil:
		return nil, all[i].err
	case all[i].is.Migration != nil:
		return nil, all[i].is.Migration
	}
	l, err := ledger.Open(ctx, all[i].cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Tokens(ctx)
}
