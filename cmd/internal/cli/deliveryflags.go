package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/samples"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// deliveryFlags say which delivery is meant.
type deliveryFlags struct {
	Body     string   `name:"file" xor:"body" placeholder:"FILE" help:"Its body; - is stdin."`
	Sample   string   `xor:"body" placeholder:"NAME" help:"A sample, for example github/issues.labeled; an unknown name lists those of its provider."`
	Delivery string   `xor:"body" placeholder:"FILE" help:"A file of a whole delivery, as sign -o json and the console's page of an event write it; - is stdin."`
	Header   []string `sep:"none" placeholder:"K=V" help:"Header that it has, too; may be repeated."`

	received *time.Time // as the file of --delivery says
}

// maxSent is the largest body that can be sent, in bytes.
const maxSent = 128 << 20

// request returns the delivery: the sample or the file, and the headers of --header. Its URL is that of the file of --delivery.
func (c *deliveryFlags) request(e *env) (*verify.Request, error) {
	r := &verify.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case c.Sample != "":
		s, err := samples.Lookup(c.Sample)
		if err != nil {
			return nil, &schemas.Error{Kind: schemas.NotFound, Err: err}
		}
		r.Body = s.Body
		for k, v := range s.Headers {
			r.Header.Set(k, v)
		}
	case c.Delivery != "":
		in, err := open(e, c.Delivery)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		f, err := delivery.Read(io.LimitReader(in, 2*maxSent))
		if err != nil {
			return nil, schemas.Errorf(schemas.Invalid, "read "+c.Delivery, "%w", err)
		}
		r.Method, r.URL, r.Header, r.Body, c.received = cmp.Or(f.Method, r.Method), f.URL, f.Header(), f.Content(), f.Received
	case c.Body == "":
		return nil, usageError("name a body: --file FILE, --delivery FILE or --sample PROVIDER/NAME (of %s)", strings.Join(samples.Providers(), ", "))
	default:
		in, err := open(e, c.Body)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if r.Body, err = io.ReadAll(io.LimitReader(in, maxSent+1)); err != nil {
			return nil, err
		}
		if len(r.Body) > maxSent {
			return nil, fmt.Errorf("%s is larger than %d bytes", c.Body, maxSent)
		}
	}
	for _, h := range c.Header {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return nil, usageError("--header %q is not NAME=VALUE", h)
		}
		r.Header.Set(k, v)
	}
	return r, nil
}

// open opens a file; - is stdin.
func open(e *env, path string) (io.ReadCloser, error) {
	switch {
	case path != "-":
		return os.Open(path)
	case e.Stdin == nil:
		return nil, usageError("there is no stdin to read")
	}
	return io.NopCloser(e.Stdin), nil
}

// readHeaders adds the headers of a file to h: lines of "Name: value", as tools print and keep them. A request or status line before them is
// passed over.
func readHeaders(e *env, path string, h http.Header) error {
	in, err := open(e, path)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewReader(io.LimitReader(in, 1<<20))
	if first, _ := lines.Peek(4096); !strings.Contains(strings.SplitN(string(first), "\n", 2)[0], ": ") {
		if _, err := lines.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
			return err
		} else if err != nil {
			return schemas.Errorf(schemas.Invalid, "", "%s has no line \"Name: value\"", path)
		}
	}
	read, err := textproto.NewReader(lines).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return schemas.Errorf(schemas.Invalid, "", "%s is not lines of \"Name: value\": %w", path, err)
	}
	maps.Copy(h, http.Header(read))
	return nil
}

// namedSource is a source of a file, as it verifies and reads deliveries.
type namedSource struct {
	*provider.Source
	id        names.Name
	publicURL string // that the provider calls; empty: the file does not say
	file      *config.Config
}

// intake is the URL of the intake that takes its deliveries; an empty base is listen.intake of the file.
func (s *namedSource) intake(base string) string {
	if base == "" {
		base = "http://" + s.file.Listen.Intake
	}
	return strings.TrimSuffix(base, "/") + "/v1/in/" + s.id.Team + "/" + s.id.Name
}

// address signs a delivery as of a time, with what signs as the source's provider does, for the intake at base.
func (s *namedSource) address(r *verify.Request, at time.Time, signer *provider.Source, base string) error {
	r.Method, r.URL = http.MethodPost, cmp.Or(s.publicURL, s.intake(base)) // some schemes sign the public URL
	if err := signer.Sign(r, at); err != nil {
		return fmt.Errorf("sign for %s: %w", names.Source.Print(s.id), err)
	}
	r.URL = s.intake(base) // which the request goes to
	return nil
}

// source loads the file, and returns the source that is named.
func (f fileFlags) source(e *env, text string) (*namedSource, error) {
	if _, err := names.Source.Parse(text); err != nil {
		return nil, usageError("%w", err)
	}
	cfg, err := config.Load(f.options(e, config.RoleSend, config.RoleCatalog))
	if err != nil {
		return nil, err
	}
	return sourceIn(cfg, text)
}

func sourceIn(cfg *config.Config, text string) (*namedSource, error) {
	var known []names.Name
	for team, t := range cfg.Teams {
		for name := range t.Sources {
			known = append(known, names.Name{Team: team, Name: name})
		}
	}
	n, err := names.Source.Find(text, "", known)
	if err != nil {
		return nil, err
	}
	source, err := provider.Compile(cfg.Source(n.Team, n.Name))
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", names.Source.Print(n), err)
	}
	return &namedSource{source, n, cfg.Teams[n.Team].Sources[n.Name].PublicURL, cfg}, nil
}
