package config

import _ "embed"

//go:embed example.yaml
var example []byte

// Example returns the commented file that `config init` writes. It passes `config check` once its variables exist.
func Example() []byte { return example }
