package config

import "net/url"

// Telemetry says where spans go.
type Telemetry struct {
	Endpoint string   `yaml:"endpoint"`
	Sample   Fraction `yaml:"sample"`
}

// SampleOf returns the part of deliveries that is traced.
func (t *Telemetry) SampleOf() float64 {
	if t == nil {
		return 1
	}
	return float64(t.Sample)
}

// telemetry checks where spans go.
func (ck *checker) telemetry() {
	t := ck.c.Telemetry
	if t == nil {
		return
	}
	if u, err := url.Parse(t.Endpoint); t.Endpoint != "" && !ck.unresolved("telemetry.endpoint") &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		ck.problem("telemetry.endpoint", "is not a URL such as http://127.0.0.1:4318; what the collector wants to be shown goes into the variable OTEL_EXPORTER_OTLP_HEADERS")
	}
}
