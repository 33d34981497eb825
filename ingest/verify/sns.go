package verify

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// SNS is the signature in the messages of Amazon SNS, made with a key whose certificate is at a URL of AWS. The secrets are no secrets: the
// ARNs of the topics that may send, or certificates in PEM, which are taken for the topics' own, so that nothing is fetched. Safe for concurrent use.
// The zero value refuses everything.
//
// A certificate is fetched over https from hosts named sns.REGION.amazonaws.com alone, and only for a topic that may send; it must be of
// SNS in that region and valid when the message was sent. What could not be fetched is not tried
// again for a minute, and no more than one a second is fetched: then a delivery is NotReady, and SNS repeats it. Sources: docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html, aws/aws-js-sns-message-validator index.js.
type SNS struct {
	tolerance time.Duration
	topics    map[string]int
	pinned    []numbered[*x509.Certificate]
	fetched   *Certificates
	fetches   *rate.Limiter   // strangers can name many that are none
	private   *rsa.PrivateKey // of ExampleSecret, to sign with
}

var (
	snsHost = regexp.MustCompile(`^sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)
	snsARN  = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$`)
)

// The fields of a message. Subject, SubscribeURL and Token are in some kinds only.
var snsNames = []string{"Type", "MessageId", "TopicArn", "Message", "Timestamp", "Subject", "SubscribeURL", "Token", "SignatureVersion", "Signature", "SigningCertURL"}

var snsFields, _ = scan.Compile(func() (pointers []string) {
	for _, name := range snsNames {
		pointers = append(pointers, "/"+name)
	}
	return pointers
}()...)

// NewSNS builds the scheme. It keeps what it fetches in around.Certificates; where that is nil, for itself.
func NewSNS(params Params, secrets []schemas.Secret, around Around) (*SNS, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, refuse(BadKey, "secrets is empty: list the ARNs of the topics that may send")
	}
	s := &SNS{tolerance: params.Tolerance, topics: map[string]int{}, fetched: around.Certificates, fetches: rate.NewLimiter(1, 5)}
	if s.fetched == nil {
		s.fetched = NewCertificates()
	}
	if s.tolerance == 0 {
		s.tolerance = time.Hour
	}
	for i, secret := range secrets {
		text := secret.Reveal()
		if snsARN.MatchString(text) {
			s.topics[text] = i + 1
			continue
		}
		rest := []byte(text)
		for block, left := pem.Decode(rest); block != nil; block, left = pem.Decode(left) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if key, bad := x509.ParsePKCS1PrivateKey(block.Bytes); bad == nil {
				s.private, rest = key, nil
				continue
			}
			if err != nil {
				return nil, refuse(BadKey, "secret %d is no certificate", i+1)
			}
			s.pinned, rest = append(s.pinned, numbered[*x509.Certificate]{i + 1, cert}), nil
		}
		if rest != nil {
			return nil, refuse(BadKey, "secret %d is not the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:orders, nor a certificate in PEM", i+1)
		}
	}
	return s, nil
}

// Verify implements [Verifier].
func (s *SNS) Verify(r *Request, now time.Time) error {
	if len(s.topics)+len(s.pinned) == 0 {
		return refuse(BadKey, "no topic")
	}
	m, err := readSNS(r.Body)
	if err != nil {
		return err
	}
	if !OfAWS(m["SigningCertURL"], ".pem") {
		return refuse(BadCertURL, "SigningCertURL is not of AWS")
	}
	stamp, err := readStamp("rfc3339", m["Timestamp"])
	if err != nil {
		return err
	}
	signature, ok := decodeBase64(m["Signature"])
	algorithm, sum := snsSum(m)
	if !ok || algorithm == 0 {
		return refuse(Malformed, "Signature is not base64, or SignatureVersion neither 1 nor 2")
	}
	matches := func(cert *x509.Certificate) bool {
		key, ok := cert.PublicKey.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(key, algorithm, sum, signature) == nil
	}
	mismatch := error(refuse(Mismatch, "Signature"))
	for _, p := range s.pinned {
		if matches(p.key) {
			r.Secret, mismatch = p.secret, nil
		}
	}
	if number := s.topics[m["TopicArn"]]; number > 0 && mismatch != nil {
		cert, err := s.fetched.at(m["SigningCertURL"], now, s.fetches)
		if err == nil && stamp.After(cert.NotBefore) && stamp.Before(cert.NotAfter) && matches(cert) {
			r.Secret, mismatch = number, nil
		} else if err != nil {
			return refuse(NotReady, "the certificate cannot be had: %v", err)
		}
	}
	return fresh(r, stamp, s.tolerance, now, mismatch)
}

// readSNS returns the fields of a message that it has. Lambda writes some names otherwise, and such messages are not signed over HTTP.
func readSNS(body []byte) (map[string]string, *Error) {
	values, err := snsFields.Scan(body, nil)
	if err != nil {
		return nil, refuse(Malformed, "the body is no message: %v", err)
	}
	m := map[string]string{}
	for i, v := range values {
		if v.Kind == scan.String {
			m[snsNames[i]] = v.Text()
		}
	}
	return m, nil
}

// snsSum returns the hash of what is signed of a message; zero for an unknown version.
func snsSum(m map[string]string) (crypto.Hash, []byte) {
	names := []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	if m["Type"] != "Notification" {
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	}
	var b strings.Builder
	for _, name := range names {
		if text, ok := m[name]; ok {
			b.WriteString(name + "\n" + text + "\n")
		}
	}
	switch m["SignatureVersion"] {
	case "1":
		sum := sha1.Sum([]byte(b.String()))
		return crypto.SHA1, sum[:]
	case "2":
		sum := sha256.Sum256([]byte(b.String()))
		return crypto.SHA256, sum[:]
	}
	return 0, nil
}

// OfAWS reports whether a URL is one of SNS, over https, whose path has this end. One with an end has nothing behind it: a certificate has one URL.
func OfAWS(text, end string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.User == nil && snsHost.MatchString(u.Host) && strings.HasSuffix(u.Path, end) &&
		(end == "" || !strings.ContainsAny(text, "?#"))
}

// Confirm tells SNS that a subscription is wanted, at the URL that a verified message gives. A URL that is not of AWS is never called.
func (s *SNS) Confirm(at string) error {
	if !OfAWS(at, "") {
		return errors.New("SubscribeURL is not of AWS")
	}
	_, err := s.fetched.get(context.Background(), at)
	return err
}

// Proof implements [Scheme]: all of it is in the body.
func (s *SNS) Proof() Proof { return Proof{} }

// Sign implements [Signer], for a secret with a private key beside its certificate: it puts a new time and signature into the body.
func (s *SNS) Sign(r *Request, now time.Time) error {
	if s.private == nil {
		return refuse(BadKey, "only AWS can sign for a topic")
	}
	m, bad := readSNS(r.Body)
	if bad != nil {
		return bad
	}
	m["Timestamp"], m["SignatureVersion"], m["SigningCertURL"] = now.UTC().Format("2006-01-02T15:04:05.000Z"), "2", "https://sns.us-east-1.amazonaws.com/example.pem"
	algorithm, sum := snsSum(m)
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.private, algorithm, sum)
	if err != nil {
		return err
	}
	m["Signature"] = base64.StdEncoding.EncodeToString(signature)
	r.Body, err = json.Marshal(m)
	return err
}
