package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/expiry"
	"github.com/forebay-io/forebay/stream/sink"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// config says what is wrong with the file, as `forebay config check` does.
func (d *doctor) config(unread error) (found []Finding) {
	problems, listed := errors.AsType[config.Problems](unread)
	var notes []config.Problem
	if unread == nil { // the role of commands runs nothing
		problems = app.Check(d.file, slices.DeleteFunc(slices.Clone(d.Roles), func(r config.Role) bool { return r == config.RoleTopics }))
		notes = d.file.Notes()
	} else if !listed {
		return []Finding{problem(d.Path, unread.Error(), "")}
	}
	for _, p := range problems {
		found = append(found, problem(place(p), strings.TrimPrefix(p.Path+": "+p.Message, ": "), ""))
	}
	for _, n := range notes {
		found = append(found, warning(place(n), strings.TrimPrefix(n.Path+": "+n.Message, ": "), ""))
	}
	return found
}

// place is FILE:LINE of a problem.
func place(p config.Problem) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// secrets looks at where secrets are: how many stand in the configuration itself, and who else can read the files.
func (d *doctor) secrets(context.Context) (found []Finding) {
	files := map[string]string{} // which setting has its secret in a file, by the file's path
	literals, first := 0, ""
	for _, s := range d.file.SecretSettings() {
		if s.Literal {
			files[s.File] = s.Key
			if literals++; literals == 1 {
				first = s.Key
			}
			continue
		}
		for _, f := range s.Files {
			if len(s.Values) > 0 && !s.Public {
				files[f] = s.Key
			}
		}
	}
	for _, role := range d.roles() {
		if t := d.file.KafkaTLS(role); t != nil {
			files[t.KeyFile] = "kafka.tls.key_file"
		}
	}
	if t := d.file.OperatorTLS(); t != nil {
		files[t.KeyFile] = "operator.tls.key_file"
	}
	if r := d.file.RegistryFound(); r != nil && r.TLS != nil {
		files[r.TLS.KeyFile] = "registry.tls.key_file"
	}
	for _, path := range sorted(files) {
		if path == "" || strings.Contains(path, "${") {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			found = append(found, problem(path, "of "+files[path]+": "+err.Error(), ""))
			continue
		}
		switch m := info.Mode().Perm(); {
		case m&0o022 != 0:
			found = append(found, problem(path, fmt.Sprintf("has the secret of %s, and others may write it (mode %04o)", files[path], m), "chmod go-wx,o-r "+path))
		case m&0o004 != 0:
			found = append(found, problem(path, fmt.Sprintf("has the secret of %s, and everybody on this machine may read it (mode %04o)", files[path], m), "chmod o-rwx "+path))
		}
	}
	if literals > 0 {
		found = append(found, warning(first, fmt.Sprintf("secrets that stand in the configuration itself, where whoever reads or keeps it has them: %d", literals), first+`: "${env:NAME}" or "${file:PATH}"`))
	}
	return found
}

// soon is how long before its end something is a warning.
const soon = 14 * 24 * time.Hour

// expiry looks at what has an end: certificates, here and of the brokers, and secrets that say their end. Those of the operator API's tokens
// are in `forebay tokens list`.
func (d *doctor) expiry(ctx context.Context) (found []Finding) {
	ends := func(subject string, end time.Time, fix string) {
		at := end.UTC().Format(time.RFC3339)
		switch left := time.Until(end); {
		case left <= 0:
			found = append(found, problem(subject, "has ended at "+at, fix))
		case left < soon:
			found = append(found, warning(subject, fmt.Sprintf("ends at %s, in %s", at, config.Duration(left.Truncate(time.Minute))), fix))
		}
	}
	for _, c := range expiry.Certificates(d.file, d.roles()) {
		if cert, err := c.Ends(); err != nil {
			found = append(found, problem(c.Key, err.Error(), ""))
		} else {
			ends(c.Key, cert.NotAfter, "have the certificate of "+c.Key+" ("+c.Path+") renewed; the file is read again for each connection")
		}
	}
	if t := d.file.KafkaTLS(d.roles()[0]); t != nil {
		for _, address := range d.file.Kafka.Brokers {
			c, err := brokers.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}.Certificate(ctx, address)
			if err != nil {
				found = append(found, unknown("broker "+address, brokers.Explain(err).Error()))
				continue
			}
			ends("broker "+address, c.NotAfter, "have its certificate renewed at the broker")
		}
	}
	for _, t := range expiry.Tokens(d.file) {
		if !t.Brief || time.Now().After(t.End) {
			ends(t.Key, t.End, "put a new token where "+t.Key+" has its own from")
		}
	}
	return found
}

// credentials are where clouds tell their machines' credentials.
var credentials = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("fd00:ec2::254")}

// networks says which addresses that are worth a second look the file lets be reached.
func (d *doctor) networks(context.Context) (found []Finding) {
	look := func(path string, allowed []netip.Prefix) {
		for _, p := range allowed {
			switch {
			case slices.ContainsFunc(credentials, p.Contains):
				found = append(found, problem(path, p.String()+" has an address at which clouds tell their machines' credentials", ""))
			case !d.file.Operator.HasTokens() && (p.Contains(netip.IPv6Loopback()) || p.Contains(netip.AddrFrom4([4]byte{127, 0, 0, 1}))):
				found = append(found, warning(path, p.String()+" has loopback: whoever writes this URL can ask the operator listener, which asks nobody for a token", "operator: {auth: tokens}, or another network"))
			}
		}
	}
	for _, dest := range d.file.AllDestinations() {
		look(dest.Path()+".allow_networks", dest.AllowNetworks)
	}
	for _, team := range sorted(d.file.Teams) {
		for _, name := range sorted(d.file.Teams[team].Sources) {
			s, path := d.file.Teams[team].Sources[name], "teams."+team+".sources."+name
			if s.Backfill != nil {
				look(path+".backfill.allow_networks", s.Backfill.AllowNetworks)
			}
			if s.Thin != nil {
				look(path+".thin.allow_networks", s.Thin.AllowNetworks)
			}
		}
	}
	look("teams_dir.references.networks", d.file.TeamsDir.References.Networks)
	return found
}

// reachAtOnce is how many destinations are asked at once.
const reachAtOnce = 8

// destinations has each destination's sink say whether that can be reached.
func (d *doctor) destinations(ctx context.Context) (found []Finding) {
	list := d.file.AllDestinations()
	errs := make([]error, len(list))
	var all errgroup.Group
	all.SetLimit(reachAtOnce)
	for i, dest := range list {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, d.Within/4)
			defer cancel()
			errs[i] = app.Reach(ctx, d.file, dest)
			return nil
		})
	}
	_ = all.Wait()
	for i, dest := range list {
		if errs[i] != nil {
			why := errs[i].Error()
			if more := sink.ForLog(errs[i]); more != "" { // who runs this reads the process's log as well
				why = more
			}
			found = append(found, problem(dest.Path(), why, "fix "+dest.Path()+", or what it leads to; forebay destinations get "+dest.FullName()+d.Asking))
		}
	}
	return found
}
