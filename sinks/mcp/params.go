package mcpsink

import (
	"errors"
	"regexp"

	"github.com/forebay-io/forebay/sinks/template"
)

var toolForm = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// Params declares the parameters of a call.
func Params() []template.Param {
	return []template.Param{
		{Name: "tool", Doc: "Name of the tool.", Kind: template.Text, Required: true, Check: func(name string) error {
			if !toolForm.MatchString(name) {
				return errors.New("is not the name of a tool")
			}
			return nil
		}},
		{Name: "arguments", Doc: "Arguments of the tool, an object. Where they hold words of an event, write untrusted: ok.", Kind: template.Object, Instructs: true},
	}
}
