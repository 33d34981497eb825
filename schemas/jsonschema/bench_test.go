package jsonschema

import (
	"os"
	"testing"
)

// BenchmarkCheck is a delivery of 28 KB.
func BenchmarkCheck(b *testing.B) {
	body, err := os.ReadFile("../../ingest/vectors/payloads/github/pull_request.opened.json")
	if err != nil {
		b.Fatal(err)
	}
	s, _ := Of("com.github.pull_request.opened")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if v, why := s.Check(body); v != Fits {
			b.Fatal(why)
		}
	}
}

// BenchmarkParse is a schema of 4 KB.
func BenchmarkParse(b *testing.B) {
	s, _ := Of("com.github.issues")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(s.Text()); err != nil {
			b.Fatal(err)
		}
	}
}
