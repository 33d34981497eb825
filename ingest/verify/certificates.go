package verify

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Certificates are those of [SNS], fetched once for all sources. Safe for concurrent use.
type Certificates struct {
	client   *http.Client
	fetching singleflight.Group

	mu      sync.Mutex
	fetched map[string]*x509.Certificate
	failed  map[string]time.Time // when
}

// Bounds of what is fetched and kept. There is a certificate a region, and a new one a year.
const (
	snsCertificates = 64
	snsBytes        = 64 << 10
	snsTimeout      = 2 * time.Second
	snsRetry        = time.Minute
)

// NewCertificates returns none yet.
func NewCertificates() *Certificates {
	return &Certificates{fetched: map[string]*x509.Certificate{}, failed: map[string]time.Time{}, client: &http.Client{
		Timeout: snsTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect") }}}
}

// at returns the certificate at a URL of AWS, as it was fetched before, or anew where the source may fetch one. Who asks meanwhile waits for it.
func (c *Certificates) at(url string, now time.Time, may *rate.Limiter) (*x509.Certificate, error) {
	c.mu.Lock()
	cert := c.fetched[url]
	c.mu.Unlock()
	if cert != nil {
		return cert, nil
	}
	fetched, err, _ := c.fetching.Do(url, func() (any, error) { return c.anew(url, now, may) })
	return fetched.(*x509.Certificate), err
}

// anew fetches a certificate, unless it has come meanwhile, and keeps it.
func (c *Certificates) anew(url string, now time.Time, may *rate.Limiter) (*x509.Certificate, error) {
	c.mu.Lock()
	cert, failed := c.fetched[url], c.failed[url]
	c.mu.Unlock()
	switch {
	case cert != nil:
		return cert, nil
	case now.Sub(failed) < snsRetry:
		return nil, errors.New("it could not be fetched a moment ago")
	case !may.Allow():
		return nil, errors.New("too many others were asked for")
	}
	cert, err := c.fetch(url)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) >= snsCertificates {
		clear(c.failed)
	}
	if err != nil {
		c.failed[url] = now
		return nil, err
	}
	if len(c.fetched) >= snsCertificates {
		clear(c.fetched)
	}
	c.fetched[url] = cert
	return cert, nil
}

// fetch gets a certificate. It must be SNS's; where others come with it, they must lead to an authority that this machine trusts. SNS sends
// its own alone: then it is to be trusted because it came over TLS from AWS.
func (c *Certificates) fetch(url string) (*x509.Certificate, error) {
	text, err := c.get(context.Background(), url)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 {
		return nil, errors.New("no certificate is there")
	}
	if !slices.ContainsFunc(snsSigners(url), func(name string) bool { return chain[0].VerifyHostname(name) == nil }) {
		return nil, fmt.Errorf("it is of %q, and not of SNS in the region of its URL", chain[0].DNSNames)
	}
	if len(chain) > 1 {
		between := x509.NewCertPool()
		for _, cert := range chain[1:] {
			between.AddCert(cert)
		}
		if _, err := chain[0].Verify(x509.VerifyOptions{Intermediates: between}); err != nil {
			return nil, err
		}
	}
	return chain[0], nil
}

// snsSigners returns the names that SNS signs by in the region of a certificate's URL. Regions that an account opts into, China and GovCloud have
// names of their own. Source: aws/aws-sdk-java-v2 services-custom/sns-message-manager SnsHostProvider.java.
func snsSigners(at string) []string {
	host := strings.TrimPrefix(at, "https://sns.")
	host, _, _ = strings.Cut(host, "/")
	region, domain, _ := strings.Cut(host, ".")
	if strings.HasPrefix(region, "us-gov-") {
		region = "us-gov-west-1" // signs for both
	}
	return []string{"sns.amazonaws.com", "sns-signing." + host, "sns-" + region + "." + domain}
}

func (c *Certificates) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, snsBytes))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("AWS answers %d", resp.StatusCode)
	}
	return text, err
}
