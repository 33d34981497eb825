package sink

import "testing"

func TestParseCost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Cost{"0": 0, "0.25": 250_000, "12": 12_000_000, "0.000001": 1, "007.5": 7_500_000, "1000000000": MaxCost,
		"0.30000000000000004": 300_001, "0.0000001": 1, "0.2500000000": 250_000, "999999999.9999999": MaxCost,
		"1.8e-05": 18, "5E-05": 50, "3e-7": 1, "1e3": 1_000_000_000, "1e+09": MaxCost, "1e-300": 1, "0e0": 0} {
		if got, err := ParseCost(text); err != nil || got != want {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1e", "e3", "-1e3", "1e10", "1e999", "1e-3e", "0x1ep3", "1e١", "1_0e1", ".e1", "NaN", "Infinity", "1,5", ".5", "5.", "0.000000x", "0.0000000e", "1000000001", "1000000000.1", "1000000000.0000001", "99999999999", "1_0", " 1", "0x10", "1.-5", "٣"} {
		if got, err := ParseCost(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// FuzzParseCost: what is taken is within its bounds, and reads the same when it is written again.
func FuzzParseCost(f *testing.F) {
	for _, s := range []string{"1.5", "0", "1000000000", "-1", "1e9", "1.8e-05"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCost(s)
		if err != nil {
			return
		}
		if again, err := ParseCost(c.String()); err != nil || again != c || c < 0 || c > MaxCost {
			t.Errorf("%q: %d, written as %s, read as %d %v", s, c, c, again, err)
		}
	})
}
