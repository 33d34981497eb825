package kafkasink

import "github.com/forebay-io/forebay/sinks/template"

// Params declares the parameters of a record.
func Params() []template.Param {
	return []template.Param{
		{Name: "key", Doc: "Key of the record: order is kept among records of one key. Empty or null: the entity.", Kind: template.Text, Default: "{{event.entity}}"},
	}
}
