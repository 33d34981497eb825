package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/sinks/guard"
)

// around returns where a source finds the keys of issuers and agents, and certificates. They stay over a reload.
func (in *intake) around(team, source string) verify.Around {
	return verify.Around{KeySets: in.issuers, Certificates: in.certs, Agent: func(hash [sha256.Size]byte) (verify.Caller, error) {
		return in.agents.Find(team, source, hash)
	}}
}

// mostKeySet is the largest key set that is read, in bytes.
const mostKeySet = 1 << 20

// fetchKeys gets an issuer's key set, from addresses that destinations may have as well.
func fetchKeys(ctx context.Context, at string, networks []netip.Prefix) ([]byte, error) {
	client, err := guard.New(guard.Config{AllowNetworks: networks, Timeout: 5 * time.Second, MaxResponse: mostKeySet, MaxIdle: 1})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	req.Header.Set("User-Agent", "Forebay/"+cmp.Or(buildVersion(), "dev"))
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answers %d", resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}
