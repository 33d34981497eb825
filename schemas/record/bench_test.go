package record

import (
	"bytes"
	"testing"
)

func BenchmarkEncode(b *testing.B) {
	e := event()
	e.Data = bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		Encode("events.acme.github", e)
	}
}

// BenchmarkEncoder is what the intake does.
func BenchmarkEncoder(b *testing.B) {
	e := event()
	e.Data = bytes.Repeat([]byte("x"), 1024)
	var w Encoder
	b.ReportAllocs()
	for b.Loop() {
		w.Encode("events.acme.github", e)
	}
}

func BenchmarkDecode(b *testing.B) {
	e := event()
	e.Data = bytes.Repeat([]byte("x"), 1024)
	r := Encode("events.acme.github", e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	r := Encode("events.acme.github", event())
	b.ReportAllocs()
	for b.Loop() {
		Pack(r)
	}
}
