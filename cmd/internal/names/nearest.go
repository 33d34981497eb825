package names

import "strings"

// Nearest returns which of the names word was probably meant to be; "" if none is within two slips, or one slip in three letters.
func Nearest(word string, names []string) string {
	best, bestDistance := "", 1+max(2, len(word)/3)
	for _, name := range names {
		if d := distance(strings.ToLower(word), name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// DidYouMean is what a message adds where word was probably meant to be one of the names; empty if it was not.
func DidYouMean(word string, names []string) string {
	if near := Nearest(word, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance returns the edit distance of two words: how many insertions, deletions, substitutions and swaps of neighbours make b of a.
// It does not compute that of long words.
func distance(a, b string) int {
	if len(a) > 80 || len(b) > 80 {
		return 80
	}
	rows := make([][]int, len(a)+1) // rows[i][j] is the distance of a[:i] and b[:j]
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
