package verify

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Fetch gets the document at a URL; beyond public networks only from those that are given.
type Fetch func(ctx context.Context, url string, networks []netip.Prefix) ([]byte, error)

// Times of a key set.
const (
	keysEvery  = 30 * time.Second // least time between two fetches, whatever strangers name
	keysFresh  = 10 * time.Minute // after this the keys are fetched anew, deliveries or not, and are taken meanwhile
	keysUsable = time.Hour        // after this they are not taken any more
	keyAbsent  = 2 * time.Minute  // how long a key that was fetched for, and was not there, causes no other fetch
	keysWithin = 5 * time.Second  // longest fetch
	mostKeys   = 256
)

// KeySets are the public keys of issuers, by the URLs of their JWK sets. Keys are fetched behind deliveries, never within one: a delivery
// whose key is not known finds [NotReady] until it was looked for. Safe for concurrent use.
type KeySets struct {
	fetch Fetch
	ctx   context.Context //nolint:containedctx // of fetches, which belong to no delivery
	stop  context.CancelFunc

	mu      sync.Mutex
	sets    map[string]*keySet
	running sync.WaitGroup
}

// NewKeySets returns key sets that are fetched so. Close ends fetches.
func NewKeySets(fetch Fetch) *KeySets {
	k := &KeySets{fetch: fetch, sets: map[string]*keySet{}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Close ends what is being fetched.
func (k *KeySets) Close() {
	k.mu.Lock()
	k.stop()
	k.mu.Unlock()
	k.running.Wait()
}

// of returns the set at a URL, the same one as long as there are these KeySets, and has its keys fetched if it has none.
func (k *KeySets) of(url string, networks []netip.Prefix) *keySet {
	k.mu.Lock()
	name := fmt.Sprint(url, networks)
	s := k.sets[name]
	if s == nil {
		s = &keySet{all: k, name: name, url: url, networks: networks, absent: map[string]time.Time{}}
		k.sets[name] = s
	}
	s.asked = true
	k.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.look(time.Now(), "")
	}
	return s
}

// Sweep forgets the sets of which no scheme was built since the last Sweep: those that only sources had which are gone.
func (k *KeySets) Sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.sets, func(_ string, s *keySet) bool { return !s.asked })
	for _, s := range k.sets {
		s.asked = false
	}
}

func (k *KeySets) has(s *keySet) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets[s.name] == s
}

// begin runs a fetch in the background, unless these sets are closed.
func (k *KeySets) begin(f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return false
	}
	k.running.Go(f)
	return true
}

// keySet has the keys of one issuer.
type keySet struct {
	all      *KeySets
	name     string // among them
	asked    bool   // since the last Sweep; guarded by all.mu
	url      string
	networks []netip.Prefix

	mu      sync.Mutex
	keys    map[string][]jose.JSONWebKey // by id; nil: never fetched
	fetched time.Time                    // when the fetch of keys began
	tried   time.Time                    // when the last one did
	busy    bool
	again   *time.Timer          // nil: none was fetched for yet
	failure error                // of the last one
	absent  map[string]time.Time // ids that were looked for and are not there, and when
}

// find returns the keys with an id. With look, it has them fetched where they are old or not there.
func (s *keySet) find(id string, look bool) ([]jose.JSONWebKey, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	usable := s.keys != nil && now.Sub(s.fetched) < keysUsable
	if found := s.keys[id]; usable && len(found) > 0 {
		if look && now.Sub(s.fetched) >= keysFresh {
			s.look(now, "")
		}
		return found, nil
	}
	if usable && now.Sub(s.absent[id]) < keyAbsent {
		return nil, refuse(Mismatch, "the issuer has no such key")
	}
	if look {
		s.look(now, id)
	}
	if s.failure != nil {
		return nil, refuse(NotReady, "the key is not among those known, and newer ones cannot be had: %v", s.failure)
	}
	return nil, refuse(NotReady, "the key is not among those known, and newer ones are fetched every %s at most", keysEvery)
}

// look begins to fetch the keys, unless that was tried a moment ago. The caller holds s.mu.
func (s *keySet) look(now time.Time, id string) {
	if s.busy || !s.tried.IsZero() && now.Sub(s.tried) < keysEvery {
		return
	}
	if s.busy = s.all.begin(func() { s.refresh(now, id) }); s.busy {
		s.tried = now
	}
}

// refresh fetches the keys, for one with an id if that is not empty.
func (s *keySet) refresh(began time.Time, id string) {
	ctx, cancel := context.WithTimeout(s.all.ctx, keysWithin)
	defer cancel()
	text, err := s.all.fetch(ctx, s.url, s.networks)
	var keys map[string][]jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again == nil {
		s.again = time.AfterFunc(keysFresh, s.renew)
	}
	s.again.Reset(keysFresh)
	if s.busy, s.failure = false, err; err != nil {
		return
	}
	s.keys, s.fetched = keys, began
	for other, when := range s.absent {
		if began.Sub(when) >= keyAbsent || len(keys[other]) > 0 {
			delete(s.absent, other)
		}
	}
	if id != "" && len(keys[id]) == 0 {
		s.absent[id] = began
	}
}

// renew has the keys fetched without a delivery: behind a quiet hour the first one would else find none, and not every sender repeats it. It ends
// with what has these sets, and with the last source that has this one.
func (s *keySet) renew() {
	if s.all.has(s) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.look(time.Now(), "")
	}
}

// parseKeys reads a JWK set, or one JWK. Keys that cannot be used for any algorithm here are left out: a set may have others. A set without
// any is an error, so that a provider's error page takes no known keys away.
func parseKeys(text []byte) (map[string][]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("what is there is no JWK set")
	}
	if set.Keys == nil {
		set.Keys = []json.RawMessage{text}
	}
	keys := map[string][]jose.JSONWebKey{}
	for _, raw := range set.Keys[:min(len(set.Keys), mostKeys)] {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err != nil || key.Use == "enc" || !key.Valid() || len(algorithmsOf(key)) == 0 {
			continue
		}
		keys[key.KeyID] = append(keys[key.KeyID], key)
	}
	if len(keys) == 0 {
		return nil, errors.New("what is there has no key for RS256, PS256, ES256 or EdDSA")
	}
	return keys, nil
}

// leastRSA is the least size of an RSA key in bits.
const leastRSA = 2048

// algorithmsOf returns the algorithms that a public key, or the public part of a private one, verifies: the one that it names, if it names one.
func algorithmsOf(key jose.JSONWebKey) (algorithms []jose.SignatureAlgorithm) {
	of := map[string][]jose.SignatureAlgorithm{"RSA": {jose.RS256, jose.PS256}, "P-256": {jose.ES256}, "Ed25519": {jose.EdDSA}}[kindOf(key)]
	for _, a := range of {
		if key.Algorithm == "" || key.Algorithm == string(a) {
			algorithms = append(algorithms, a)
		}
	}
	return algorithms
}

// kindOf returns what sort of a key it is; empty: one that is not taken, such as a shared secret.
func kindOf(key jose.JSONWebKey) string {
	switch public := publicOf(key).(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() >= leastRSA {
			return "RSA"
		}
	default:
		return curveOf(public)
	}
	return ""
}
