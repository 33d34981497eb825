package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/expiry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// soon is how long before its end something is a warning.
const soon = 14 * 24 * time.Hour

// expiry looks at what has an end: certificates, here and of the brokers, tokens of the operator API, and secrets that say their end.
func (d *doctor) expiry(ctx context.Context) (found []Finding) {
	if d.parsed == nil {
		return d.notRead()
	}
	looked := 0
	for _, c := range expiry.Certificates(d.parsed, d.roles()) {
		looked++
		if cert, err := c.Ends(); err != nil {
			found = append(found, problem(c.Key, err.Error(), ""))
		} else {
			found = append(found, ends(c.Key, fmt.Sprintf("%s (%s)", c.Path, cert.Subject), cert.NotAfter,
				"have the certificate of "+c.Key+" renewed; the file is read again for each connection")...)
		}
	}
	shown, err := d.brokerCertificates(ctx)
	looked, found = looked+len(shown), append(found, err...)
	for _, address := range slices.Sorted(maps.Keys(shown)) {
		found = append(found, ends("broker "+address, "its certificate", shown[address].NotAfter, "have it renewed at the broker")...)
	}
	for _, t := range expiry.Tokens(d.parsed) {
		if looked++; !t.Brief || time.Now().After(t.End) {
			found = append(found, ends(t.Key, "the token", t.End, "put a new one where "+t.Key+" has its own from")...)
		}
	}
	n, tokens := d.tokens(ctx)
	looked, found = looked+n, append(found, tokens...)
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Severity != OK }) {
		found = append(found, ok("", "%d certificates and tokens with an end; none of those that were made for %s or longer ends within %s", looked, config.Duration(expiry.LongLived), config.Duration(soon)))
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

// brokerCertificates returns what the brokers show, by address; nothing where the roles do not speak TLS to them. A broker that is not
// reached is the check brokers'.
func (d *doctor) brokerCertificates(ctx context.Context) (shown map[string]*x509.Certificate, found []Finding) {
	t := d.parsed.KafkaTLS(d.roles()[0])
	shown = map[string]*x509.Certificate{}
	if t == nil {
		return shown, nil
	}
	for _, address := range d.parsed.Kafka.Brokers {
		c, err := brokers.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}.Certificate(ctx, address)
		if err != nil {
			found = append(found, unknown("broker "+address, "its certificate is not known: "+brokers.Explain(err).Error(), ""))
			continue
		}
		shown[address] = c
	}
	return shown, found
}

// tokens looks at those of the operator API: of the running process, or of the ledger where nothing is started.
func (d *doctor) tokens(ctx context.Context) (n int, found []Finding) {
	if !d.parsed.Operator.HasTokens() || !d.has(config.RoleStream) {
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
		if n++; t.ExpiresAt.Sub(t.CreatedAt) < expiry.LongLived {
			continue
		}
		found = append(found, ends("token "+t.Name, "it", t.ExpiresAt, fmt.Sprintf("forebay tokens create NEW-NAME --role %s --reason TEXT -c %s, for whoever uses it", t.Role, d.Path))...)
	}
	return n, found
}

// listTokens lists the API tokens in the ledger of the process itself. It returns an error if that ledger cannot be read, or needs a migration.
func (d *doctor) listTokens(ctx context.Context) ([]api.TokenItem, error) {
	all := d.examine()
	i := slices.IndexFunc(all, func(x examined) bool { return x.Path == d.parsed.Ledger().Path })
	switch {
	case i < 0:
		return nil, errors.New("there is no ledger to ask")
	case all[i].err != nil:
		return nil, all[i].err
	case all[i].found.Migration != nil:
		return nil, all[i].found.Migration
	}
	l, err := ledger.Open(ctx, all[i].cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Tokens(ctx)
}
