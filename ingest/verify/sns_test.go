package verify

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

const snsTopic = "arn:aws:sns:us-east-1:123456789012:orders"

// aws answers in the place of AWS, whatever the host.
type aws func(r *http.Request) *http.Response

func (a aws) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// A certificate is fetched once, from AWS, and only for a topic that may send. What cannot be had is told from what is forged.
func TestSNSCertificates(t *testing.T) {
	t.Parallel()
	signing := exampleCertificate()
	block, _ := pem.Decode([]byte(signing))
	signer, err := NewSNS(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(signing)}, Around{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSNS(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(snsTopic)}, Around{})
	if err != nil {
		t.Fatal(err)
	}
	var fetches atomic.Int32
	s.fetched.client.Transport = aws(func(r *http.Request) *http.Response {
		fetches.Add(1)
		w := httptest.NewRecorder()
		switch {
		case r.URL.Host != "sns.us-east-1.amazonaws.com":
			t.Errorf("asked %s", r.URL.Host)
		case strings.HasSuffix(r.URL.Path, "/example.pem"):
			w.WriteString(string(pem.EncodeToMemory(block)))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return w.Result()
	})
	now := time.Now()
	message := func(topic string, edit ...string) *Request {
		r := &Request{Header: http.Header{}, Body: []byte(`{"Type":"Notification","MessageId":"1","TopicArn":"` + topic + `","Message":"hi","Subject":"s"}`)}
		if err := signer.Sign(r, now); err != nil {
			t.Fatal(err)
		}
		r.Body = []byte(strings.NewReplacer(edit...).Replace(string(r.Body)))
		return r
	}
	for _, test := range []struct {
		name    string
		r       *Request
		at      time.Time
		want    Reason
		fetches int32
	}{
		{"another topic", message(snsTopic + "-2"), now, Mismatch, 0},
		{"a foreign host", message(snsTopic, "sns.us-east-1.amazonaws.com", "sns.us-east-1.amazonaws.com.example.org"), now, BadCertURL, 0},
		{"a query", message(snsTopic, `.pem"`, `.pem?1"`), now, BadCertURL, 0},
		{"a port", message(snsTopic, "sns.us-east-1.amazonaws.com", "sns.us-east-1.amazonaws.com:444"), now, BadCertURL, 0},
		{"a user", message(snsTopic, "https://sns", "https://x@sns"), now, BadCertURL, 0},
		{"right", message(snsTopic), now, "", 1},
		{"again", message(snsTopic), now, "", 1},
		{"changed", message(snsTopic, `"hi"`, `"ho"`), now, Mismatch, 1},
		{"no subject", message(snsTopic, `"Subject":"s",`, ""), now, Mismatch, 1},
		{"too old", message(snsTopic), now.Add(time.Hour + time.Minute), TooOld, 1},
		{"a certificate that is not there", message(snsTopic, "example.pem", "none.pem"), now, NotReady, 2},
		{"the same, not tried again yet", message(snsTopic, "example.pem", "none.pem"), now, NotReady, 2},
	} {
		err := s.Verify(test.r, test.at)
		var got Reason
		if e, ok := errors.AsType[*Error](err); ok {
			got = e.Reason
		}
		if got != test.want || fetches.Load() != test.fetches {
			t.Errorf("%s: %v after %d fetches, want %q after %d", test.name, err, fetches.Load(), test.want, test.fetches)
		}
	}
	for i := range 20 {
		_ = s.Verify(message(snsTopic, "example.pem", fmt.Sprintf("x%d.pem", i)), now)
	}
	if n := fetches.Load(); n > 8 {
		t.Errorf("a stranger made it fetch %d times", n)
	}
	if err := s.Verify(message(snsTopic), now); err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := s.Confirm("https://example.org/?Action=ConfirmSubscription"); err == nil {
		t.Error("a stranger's URL is called")
	}
}

// SNS signs by the name of its region where that has one, and no region by another's.
func TestSNSCertificatesOfRegions(t *testing.T) {
	t.Parallel()
	signer, err := NewSNS(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(exampleCertificate())}, Around{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		partition, region, domain string
		name                      string
		want                      Reason
	}{
		{"aws", "eu-west-1", "amazonaws.com", "sns.amazonaws.com", ""},
		{"aws", "me-south-1", "amazonaws.com", "sns-signing.me-south-1.amazonaws.com", ""},
		{"aws-us-gov", "us-gov-west-1", "amazonaws.com", "sns-us-gov-west-1.amazonaws.com", ""},
		{"aws-us-gov", "us-gov-east-1", "amazonaws.com", "sns-us-gov-west-1.amazonaws.com", ""},
		{"aws-cn", "cn-north-1", "amazonaws.com.cn", "sns-cn-north-1.amazonaws.com.cn", ""},
		{"aws-cn", "cn-northwest-1", "amazonaws.com.cn", "sns-cn-northwest-1.amazonaws.com.cn", ""},
		{"aws", "eu-west-1", "amazonaws.com", "sns-signing.me-south-1.amazonaws.com", NotReady},
		{"aws", "eu-west-1", "amazonaws.com", "sns-us-gov-west-1.amazonaws.com", NotReady},
		{"aws", "eu-west-1", "amazonaws.com", "example.s3.amazonaws.com", NotReady},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{test.name}, NotAfter: time.Now().AddDate(1, 0, 0)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &signer.private.PublicKey, signer.private)
		if err != nil {
			t.Fatal(err)
		}
		topic := "arn:" + test.partition + ":sns:" + test.region + ":123456789012:orders"
		s, err := NewSNS(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(topic)}, Around{})
		if err != nil {
			t.Fatal(err)
		}
		host := "sns." + test.region + "." + test.domain
		s.fetched.client.Transport = aws(func(r *http.Request) *http.Response {
			if r.URL.Host != host {
				t.Errorf("asked %s", r.URL.Host)
			}
			w := httptest.NewRecorder()
			w.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
			return w.Result()
		})
		r := &Request{Header: http.Header{}, Body: []byte(`{"Type":"Notification","MessageId":"1","TopicArn":"` + topic + `","Message":"hi"}`)}
		if err := signer.Sign(r, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.Body = []byte(strings.ReplaceAll(string(r.Body), "sns.us-east-1.amazonaws.com", host))
		err = s.Verify(r, time.Now())
		var got Reason
		if e, ok := errors.AsType[*Error](err); ok {
			got = e.Reason
		}
		if got != test.want {
			t.Errorf("%s in %s: %v, want %q", test.name, test.region, err, test.want)
		}
	}
}

// All sources of a process have one certificate of a URL, those of before a reload and after it. Deliveries that come at once wait for one fetch.
func TestSNSCertificatesAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signing := exampleCertificate()
		block, _ := pem.Decode([]byte(signing))
		signer, err := NewIn(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(signing)}, Around{})
		if err != nil {
			t.Fatal(err)
		}
		around := Around{Certificates: NewCertificates()}
		var fetches atomic.Int32
		around.Certificates.client.Transport = aws(func(*http.Request) *http.Response {
			fetches.Add(1)
			<-time.After(time.Second)
			w := httptest.NewRecorder()
			w.WriteString(string(pem.EncodeToMemory(block)))
			return w.Result()
		})
		for range 2 {
			s, err := NewIn(Params{Scheme: SchemeSNS}, []schemas.Secret{schemas.NewSecret(snsTopic)}, around)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					r := &Request{Header: http.Header{}, Body: []byte(`{"Type":"Notification","MessageId":"1","TopicArn":"` + snsTopic + `","Message":"hi"}`)}
					if err := cmp.Or(signer.Sign(r, time.Now()), s.Verify(r, time.Now())); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if n := fetches.Load(); n != 1 {
			t.Errorf("it was fetched %d times", n)
		}
	})
}
