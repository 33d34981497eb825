package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// playFlags make the sender a provider at its worst.
type playFlags struct {
	Repeat    int           `default:"1" help:"Send the delivery so many times, as a provider that retries does: signed anew, unless the time is in its body; with {n} in an --edit each is another."`
	Edit      []string      `sep:"none" placeholder:"POINTER=VALUE" help:"Set a value of the JSON body before it is signed, such as /issue/number=7; {n} is 1 in the first delivery of --repeat, 2 in the next. May be repeated."`
	Duplicate bool          `help:"Send each a second time, too."`
	Shuffle   bool          `help:"Send them in any order."`
	Rate      float64       `help:"Send at most so many a second. Default: as fast as they are answered."`
	Forge     bool          `help:"Sign with a secret that the source does not have: each must be refused with 401, else the command fails."`
	Stale     time.Duration `help:"Sign as of so long ago, for sources that sign a time; beyond their tolerance each must be refused with 401, else the command fails."`
}

func (c *playFlags) check() error {
	switch {
	case c.Repeat < 1 || c.Repeat > 10_000:
		return usageError("--repeat must be between 1 and 10000")
	case c.Rate < 0:
		return usageError("--rate must not be negative")
	case c.Stale < 0:
		return usageError("--stale must not be negative")
	}
	return nil
}

// numbered is a delivery with its number in --repeat, from 1.
type numbered struct {
	n int
	*verify.Request
	sign func() error // to be called just before it is sent, each time: many take longer than a source's tolerance
}

// play returns the deliveries in the order in which they are sent, made of r, to be signed by sign.
func (c *playFlags) play(r *verify.Request, sign func(*verify.Request, time.Time) error) ([]numbered, error) {
	differ := slices.ContainsFunc(c.Edit, func(e string) bool { return strings.Contains(e, "{n}") })
	var all []numbered
	for n := 1; n <= c.Repeat; n++ {
		if n > 1 && !differ { // a retry
			all = append(all, numbered{n, all[0].Request, all[0].sign})
			continue
		}
		one := *r
		one.Header = r.Header.Clone()
		for _, e := range c.Edit {
			var err error
			if one.Body, err = edit(one.Body, strings.ReplaceAll(e, "{n}", strconv.Itoa(n))); err != nil {
				return nil, err
			}
		}
		all = append(all, numbered{n, &one, signsAnew(&one, func(r *verify.Request) error { return sign(r, time.Now().Add(-c.Stale)) })})
	}
	if c.Duplicate {
		twice := make([]numbered, 0, 2*len(all))
		for _, d := range all {
			twice = append(twice, d, d)
		}
		all = twice
	}
	if c.Shuffle {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all, nil
}

// signsAnew returns what signs r, and a retry of it anew, as providers do that sign a time in a header. Where the time is in the body, a retry is
// the same to the byte, as Linear's is: else it would be another delivery.
func signsAnew(r *verify.Request, sign func(*verify.Request) error) func() error {
	first := true
	return func() error {
		again := *r
		again.Header = r.Header.Clone()
		if err := sign(&again); err != nil {
			return err
		}
		if first || bytes.Equal(again.Body, r.Body) {
			*r, first = again, false
		}
		return nil
	}
}

// forger returns what signs as the source does, with a secret that it does not have.
func forger(cfg provider.Config) (*provider.Source, error) {
	info, _ := provider.Lookup(cfg.Preset)
	cfg.Secrets = []schemas.Secret{schemas.NewSecret(newSecret(info.Scheme))}
	return provider.Compile(cfg)
}

// edit sets the value at a JSON Pointer; "-" as the last token of a list adds one. The value is JSON, or else a text.
func edit(body []byte, text string) ([]byte, error) {
	pointer, value, ok := strings.Cut(text, "=")
	if !ok || !strings.HasPrefix(pointer, "/") {
		return nil, usageError("--edit %q is not POINTER=VALUE, such as /issue/number=7", text)
	}
	tree, err := decodeNumbers(body)
	if err != nil {
		return nil, usageError("--edit: the body is not JSON: %v", err)
	}
	set, err := decodeNumbers([]byte(value))
	if err != nil {
		set = value
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	if tree, err = setAt(tree, tokens, set); err != nil {
		return nil, usageError("--edit %s: %v", pointer, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(tree)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func decodeNumbers(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&v); err == nil && dec.More() {
		err = errors.New("there is something behind it")
	}
	return v, err
}

func setAt(tree any, tokens []string, value any) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	var err error
	switch t := tree.(type) {
	case nil: // what is missing becomes an object
		return setAt(map[string]any{}, tokens, value)
	case map[string]any:
		t[tokens[0]], err = setAt(t[tokens[0]], tokens[1:], value)
		return t, err
	case []any:
		i, bad := strconv.Atoi(tokens[0])
		switch {
		case tokens[0] == "-":
			t, i = append(t, nil), len(t)
		case bad != nil || i < 0 || i >= len(t):
			return nil, fmt.Errorf("the list has no element %q", tokens[0])
		}
		t[i], err = setAt(t[i], tokens[1:], value)
		return t, err
	}
	return nil, fmt.Errorf("%q is below a value that is neither an object nor a list", tokens[0])
}
