// Package config reads the configuration file: one YAML file and, where it names one, a directory of team files.
//
// It is strict. Unknown keys, keys whose part is not built yet, duplicate keys, wrong types and unresolved references
// are problems with a file and a line, and all of them are reported at once. What every key means, its default and
// its allowed values are declared once, in shape.go, and those of a type of destination in the sink's own spec.go;
// decoding, `config show`, `config schema` and the documentation all read that declaration.
//
//	parse (yaml nodes) ▸ resolve references ▸ decode by shape ▸ merge teams ▸ defaults ▸ check
//
// References (`${env:X}`, `${file:P}`) are resolved only where one of the process's roles uses the value: an intake
// needs neither the Postgres URL nor the secrets of destinations.
package config
