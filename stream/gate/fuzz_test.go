package gate

import "testing"

// FuzzHistory decodes bytes into a history (see decodeHistory) and asks of it what check asks. The corpus in testdata
// has one short history per subject.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > headSize+opSize*400 { // the model is slow on long ones
			data = data[:headSize+opSize*400]
		}
		check(t, decodeHistory(data))
	})
}
