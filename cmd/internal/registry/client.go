package registry

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// asks is how long one question to the registry may take.
const asks = 10 * time.Second

// Client asks a registry. Close it.
type Client struct {
	url       string
	client    *sr.Client
	transport *http.Transport
}

// New makes a client of the registry that a file names. Certificates are read now: a client is made for each round of questions.
func New(c config.Registry) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if t := c.TLS; t != nil && t.Enabled {
		conf, err := brokers.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}.Config("registry.tls", "")
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = conf
	}
	opts := []sr.ClientOpt{sr.URLs(c.URL), sr.UserAgent("forebay"), sr.HTTPClient(&http.Client{Transport: transport, Timeout: asks})}
	if c.User != "" {
		opts = append(opts, sr.BasicAuth(c.User, c.Password.Reveal()))
	}
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return &Client{url: c.URL, client: client, transport: transport}, nil
}

// Close closes its connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ID is under what a registry has a schema.
type ID struct {
	Number  int    // of the registry, or of its context
	GUID    string // everywhere the same; empty: the registry gives none
	Version int    // of the subject
}

// Header returns the value of the record header [record.SchemaIDHeader], as Confluent's deserializers read it: a byte 1 and the GUID or, of a
// registry that gives none, a byte 0 and the number.
func (id ID) Header() []byte {
	guid, err := hex.DecodeString(strings.ReplaceAll(id.GUID, "-", ""))
	if err == nil && len(guid) == 16 {
		return append([]byte{1}, guid...)
	}
	return binary.BigEndian.AppendUint32([]byte{0}, uint32(id.Number))
}

func registrySchema(s *jsonschema.Schema) sr.Schema {
	return sr.Schema{Schema: string(s.Text()), Type: sr.TypeJSON}
}

// Codes of a registry's errors. See https://docs.confluent.io/platform/current/schema-registry/develop/api.html
const (
	noSubject    = 40401
	noVersion    = 40402
	noSchema     = 40403
	invalid      = 42201
	incompatible = http.StatusConflict
)

// Lookup returns under what a registry has a schema in a subject; found is false if it does not have it there. The error is of kind
// Unavailable, Unauthenticated or Permanent.
func (c *Client) Lookup(ctx context.Context, w Wanted) (id ID, found bool, err error) {
	have, err := c.client.LookupSchema(ctx, w.Subject, registrySchema(w.Schema))
	switch code(err) {
	case noSubject, noSchema:
		return ID{}, false, nil
	}
	if err != nil {
		return ID{}, false, c.say("look for "+w.Subject, err)
	}
	return ID{have.ID, have.GUID, have.Version}, true, nil
}

// code returns the code of a registry's error; 0 if it is none.
func code(err error) int {
	if answer, ok := errors.AsType[*sr.ResponseError](err); ok {
		return answer.ErrorCode
	}
	return 0
}

// say puts an error in the words of an operator.
func (c *Client) say(op string, err error) error {
	answer, ok := errors.AsType[*sr.ResponseError](err)
	switch {
	case !ok:
		return schemas.Errorf(schemas.Unavailable, op, "the registry at %s does not answer: %w", c.url, err)
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return schemas.Errorf(schemas.Unauthenticated, op, "the registry at %s refuses this user (%d): check registry.user and registry.password, and what that user may do there: %w", c.url, answer.StatusCode, said{answer})
	case answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests:
		return schemas.Errorf(schemas.Unavailable, op, "the registry at %s answers %d: %w", c.url, answer.StatusCode, said{answer})
	case answer.ErrorCode == 0:
		return schemas.Errorf(schemas.Permanent, op, "what answers at %s is no schema registry (%d): registry.url is its address without a path of a subject", c.url, answer.StatusCode)
	}
	return schemas.Errorf(schemas.Permanent, op, "the registry at %s refuses it (%d): %w", c.url, answer.ErrorCode, said{answer})
}

// said is what a registry answers, bounded.
type said struct{ *sr.ResponseError }

func (s said) Error() string { return bounded(s.ResponseError.Error()) }

// OfAll reports whether an error of the registry is none of one schema alone, so that any other question would end in it, too: nothing answers,
// what stands before it says that it is away, it does not know this user, or it has had too many questions.
func OfAll(err error) bool {
	if answer, ok := errors.AsType[said](err); ok {
		return answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode > http.StatusNotImplemented
	}
	return schemas.KindOf(err) != schemas.Permanent
}

func bounded(text string) string {
	const most = 500
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
