package api

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/forebay-io/forebay/sinks/guard"
)

// maxValue bounds a value that is read whole out of an answer, in bytes, unless [Config.MaxValue] says otherwise: an issue with the longest text
// that GitHub takes, or a message with the most blocks that Slack does.
const maxValue = 512 << 10

// MaxLook is what reading an answer value by value takes in memory at most: the decoder's buffer, which doubles until a value fits, and
// the texts of the value.
const MaxLook = 3 * maxValue

// List reads an answer as it comes, so that no page is ever in memory as a whole.
type List struct {
	dec  *json.Decoder
	body *window
	most int // bytes of a value
}

func newList(body *window, most int) *List {
	return &List{dec: json.NewDecoder(body), body: body, most: most}
}

// Decode reads the next value.
func (l *List) Decode(into any) error {
	l.body.left = l.most
	return l.dec.Decode(into)
}

var errShape = errors.New("the answer has another shape")

// Each calls visit for each element of the next value, an array; visit reads it.
func (l *List) Each(visit func() error) error { return l.eachIn('[', visit) }

// Object calls visit for each key of the next value, an object; visit reads its value.
func (l *List) Object(visit func(key string) error) error {
	return l.eachIn('{', func() error {
		key, err := l.dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		return visit(name)
	})
}

// eachIn calls visit for each element of the next value, which begins with begin or is null. Each value may take as many bytes of its own as one may have.
func (l *List) eachIn(begin json.Delim, visit func() error) error {
	l.body.left = l.most
	switch t, err := l.dec.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil // null
	case t != begin:
		return errShape
	}
	for l.dec.More() {
		l.body.left = l.most
		if err := visit(); err != nil {
			return err
		}
	}
	_, err := l.dec.Token()
	return err
}

// Skip reads over the next value.
func (l *List) Skip() error {
	for depth := 0; ; {
		l.body.left = l.most
		t, err := l.dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// window is an answer's body of which one value at a time is read, and whose beginning is kept.
type window struct {
	from io.Reader
	left int // bytes of the value
	head []byte
	keep int // bytes of head
}

func (w *window) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, guard.ErrTooLarge
	}
	n, err := w.from.Read(p[:min(len(p), w.left)])
	w.left -= n
	w.head = append(w.head, p[:min(n, w.keep-len(w.head))]...)
	return n, err
}
