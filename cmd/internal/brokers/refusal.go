package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/forebay-io/forebay/schemas/record"
)

// refusal is a connection that a broker did not take, in plain words.
type refusal struct {
	text string
	err  error
}

func (r *refusal) Error() string { return r.text + " (" + r.err.Error() + ")" }
func (r *refusal) Unwrap() error { return r.err }

// Is has a refused login be one error, whether the client has read the brokers' answer or the mechanism.
func (r *refusal) Is(target error) bool {
	return r.text == wrongLogin && target == kerr.SaslAuthenticationFailed
}

// explained is an error whose own text says too little.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// refusals are answers of brokers that mean a setting is missing or wrong, and what to do.
var refusals = []struct {
	is   error
	then string
}{
	{kerr.SaslAuthenticationFailed, wrongLogin},
	{kerr.UnsupportedSaslMechanism, "the brokers do not offer kafka.sasl.mechanism at this address: write one of sasl.enabled.mechanisms of their listener"},
	{kerr.IllegalSaslState, "the brokers ask for no SASL at this address: leave kafka.sasl out, or take the address of their listener with SASL"},
	{kerr.TopicAuthorizationFailed, noRight + " to this topic"},
	{kerr.GroupAuthorizationFailed, noRight + " to this group"},
	{kerr.ClusterAuthorizationFailed, noRight + " to do this in the cluster"},
	{kerr.TransactionalIDAuthorizationFailed, noRight + " to this transaction"},
}

const wrongLogin = "the cluster does not take this user with this password or token: compare kafka.sasl, and kafka.roles of this role, with the user in the cluster; a SCRAM password must be set there for this mechanism, and a token must not have expired"

const (
	exports = "`forebay acls export` prints what each role needs: "
	noRight = exports + "this process's user has no right"
)

// Login has a mechanism say in plain words that a broker refuses the user where the client cannot read its answer: those about tokens are
// challenges that it does not expect. Unless connections are encrypted, PLAIN and OAUTHBEARER log in to brokers on this machine alone: the
// file has only the addresses to begin with, and those may name brokers elsewhere.
func Login(m sasl.Mechanism, encrypted bool) sasl.Mechanism { return login{m, encrypted} }

type login struct {
	sasl.Mechanism
	encrypted bool
}

func (l login) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	if shows := l.Name() == "PLAIN" || l.Name() == "OAUTHBEARER"; shows && !l.encrypted && !onThisMachine(host) {
		const tell = "%s without TLS would show the secret to whoever listens on the way to %s, which the brokers name as their address: write kafka.tls: {enabled: true} (or that of kafka.roles), or use SCRAM-SHA-512"
		return nil, nil, fmt.Errorf(tell, l.Name(), host)
	}
	s, first, err := l.Mechanism.Authenticate(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	return session{s}, first, nil
}

// onThisMachine reports whether the host of an address, with or without a port, is localhost or a loopback address.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

type session struct{ sasl.Session }

func (s session) Challenge(answer []byte) (bool, []byte, error) {
	done, next, err := s.Session.Challenge(answer)
	if err != nil {
		err = &refusal{wrongLogin, err}
	}
	return done, next, err
}

// Explain adds to an error of a Kafka client what it means and what to do, if a broker has refused the client. Other errors, and what is
// explained already, it returns as they are.
func Explain(err error) error {
	if _, ok := errors.AsType[*explained](err); err == nil || ok {
		return err
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		if strings.Contains(err.Error(), r.text) {
			return err
		}
		return &explained{r.Error(), err} // the client has a guess of its own in its place
	}
	if r, ok := errors.AsType[*record.Right](err); ok {
		if strings.Contains(err.Error(), r.Lack()) {
			return err
		}
		return &explained{err.Error() + ": " + exports + r.Lack(), err}
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return &explained{err.Error() + ": " + r.then, err}
		}
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" { // a TLS alert
		return &explained{err.Error() + ": the broker does not take the certificate of kafka.tls.cert_file, or there is none: it must not have expired, and one of the broker's ssl.truststore must have signed it", err}
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		return &explained{"the broker closed the connection after the first request, as those do that want SASL: write kafka.sasl, or take the address of their listener without SASL (" + err.Error() + ")", err}
	}
	return err
}
