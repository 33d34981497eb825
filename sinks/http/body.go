package httpsink

import (
	"encoding/json"
	"errors"

	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Params declares the parameters of a destination. None has to be given.
func Params() []template.Param {
	return []template.Param{
		{Name: "body", Doc: "Sent in the place of the event's body: a text as it is, anything else as JSON. More than 256 KiB from one expression is refused; without body the event's own is sent, whatever its size.", Kind: template.Value},
		{Name: "content_type", Doc: "Content type of the body; application/json or, of a text, text/plain where it is not given.", Kind: template.Text, Check: checkContentType},
	}
}

func checkContentType(text string) error {
	if text == "" || !printable(text) {
		return errors.New("is no content type")
	}
	return nil
}

// body returns what is sent and its content type, empty if it has none: the event's own, or what the template makes.
func (s *Sink) body(a sink.Action) (body []byte, contentType string, err error) {
	if own := a.Event.DataContentType; printable(own) {
		contentType = own
	}
	if s.params == nil {
		return a.Event.Data, contentType, nil
	}
	values, err := s.params.Render(a)
	if err != nil {
		return nil, "", err
	}
	body = a.Event.Data
	switch v := values["body"].(type) {
	case nil:
	case string:
		body, contentType = []byte(v), "text/plain; charset=utf-8"
	default:
		contentType = "application/json"
		if body, err = json.Marshal(v); err != nil {
			return nil, "", &sink.AttemptError{Class: sink.ClassTemplate, Err: errors.New("params.body cannot be written as JSON"), Untouched: true}
		}
	}
	if given := values.Text("content_type"); given != "" {
		contentType = given
	}
	return body, contentType, nil
}
