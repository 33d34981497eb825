package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"regexp"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// AgentKeyPrefix begins every key of an agent, so that those who look for leaked secrets recognize one.
const AgentKeyPrefix = "fbk_"

// AgentKey is a key of an agent in the header Authorization, behind Bearer. Its hash is looked up by what cmd passes in; secrets are
// keys that the file has itself in the place of those, as NAME:KEY. Safe for concurrent use. The zero value refuses everything.
type AgentKey struct {
	find    func(hash [sha256.Size]byte) (Caller, error)
	secrets []numbered[agentSecret]
}

type agentSecret struct {
	name string
	key  schemas.Secret
	sum  [sha256.Size]byte
}

var agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)

// IsAgentName reports whether an agent may have a name.
func IsAgentName(name string) bool { return agentName.MatchString(name) }

// NewAgentKey builds the scheme.
func NewAgentKey(params Params, secrets []schemas.Secret, around Around) (*AgentKey, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	a := &AgentKey{}
	if len(secrets) == 0 {
		a.find = around.Agent
	}
	for i, secret := range secrets {
		name, key, _ := strings.Cut(secret.Reveal(), ":")
		if !IsAgentName(name) || len(key) < leastAgentKey {
			return nil, refuse(BadKey, "secret %d is not NAME:KEY, with a name of at most 40 of a-z, 0-9, dot, _ and -, and a key of %d characters at least", i+1, leastAgentKey)
		}
		a.secrets = append(a.secrets, numbered[agentSecret]{i + 1, agentSecret{name, schemas.NewSecret(key), sha256.Sum256([]byte(key))}})
	}
	return a, nil
}

// leastAgentKey is the least length of a key that the file has.
const leastAgentKey = 16

// Verify implements [Verifier].
func (a *AgentKey) Verify(r *Request, _ time.Time) error {
	value, bad := single(r.Header, "Authorization")
	if bad != nil {
		return bad
	}
	if len(value) > 2*maxClaim || len(value) < len(bearer) || value[:len(bearer)] != bearer {
		return refuse(Malformed, "Authorization does not begin with %q, or is longer than a key", bearer)
	}
	sum := sha256.Sum256([]byte(value[len(bearer):]))
	for _, s := range a.secrets {
		if subtle.ConstantTimeCompare(sum[:], s.key.sum[:]) == 1 {
			r.Secret, r.Caller = s.secret, Caller{Name: s.key.name}
			return nil
		}
	}
	switch {
	case len(a.secrets) > 0:
		return refuse(Mismatch, "the key")
	case a.find == nil:
		return refuse(NotReady, "the keys of agents are not read here")
	}
	agent, err := a.find(sum) // among 256-bit hashes of random keys: what the time of a look tells leads to no key
	if err != nil {
		return err
	}
	r.Secret, r.Caller = 0, agent
	return nil
}

// Proof implements [Scheme]: the key is a secret.
func (a *AgentKey) Proof() Proof { return Proof{} }

// Sign implements [Signer]: it sends the first key of the file along.
func (a *AgentKey) Sign(r *Request, _ time.Time) error {
	if len(a.secrets) == 0 {
		return refuse(BadKey, "only the agent has its key, of which a hash is kept: post with -H 'Authorization: Bearer KEY', or give the source a secret NAME:KEY to try it with")
	}
	r.Header.Set("Authorization", bearer+a.secrets[0].key.key.Reveal())
	r.Caller = Caller{Name: a.secrets[0].key.name}
	return nil
}
