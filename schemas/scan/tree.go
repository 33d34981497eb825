package scan

// Tree reads a whole JSON text. It is as strict with every value as [Set.Scan] is with those that it reads: no key may come twice in any
// object, and every string and key must be valid Unicode.
//
// The result is nil, a bool, a string, a []any, a map[string]any, or what number makes of a number's exact text, which number must not
// keep. The text may have at most limit values, keys not counted: a tree takes much more memory than its text. The error is an *[Error].
func Tree(body []byte, limit int, number func(text []byte) any) (any, error) {
	g := grower{reader: reader{b: body, i: afterMark(body), deepest: MaxDepth}, left: limit, make: number}
	g.space()
	v, err := g.value(0)
	if err != nil {
		return nil, err
	}
	g.space()
	if g.i != len(body) {
		return nil, g.fail(Syntax)
	}
	return v, nil
}

// grower reads whole values into memory.
type grower struct {
	reader
	left int                   // how many more values the text may have
	make func(text []byte) any // what a number becomes
	// loose keys may be no valid Unicode, see [EachLoose].
	loose bool
}

// value reads the value at g.i, which is in depth arrays and objects.
func (g *grower) value(depth int) (any, error) {
	if g.i >= len(g.b) {
		return nil, g.fail(Syntax)
	}
	g.left--
	if g.left < 0 {
		return nil, g.fail(TooMany)
	}
	start := g.i
	switch c := g.b[g.i]; {
	case c == '"':
		return g.text()
	case c == '{':
		return g.members(depth + 1)
	case c == '[':
		return g.elements(depth + 1)
	case c == '-' || '0' <= c && c <= '9':
		if err := g.number(); err != nil {
			return nil, err
		}
		return g.make(g.b[start:g.i]), nil
	case c == 't':
		return true, g.word("true")
	case c == 'f':
		return false, g.word("false")
	case c == 'n':
		return nil, g.word("null")
	}
	return nil, g.fail(Syntax)
}

// text reads the string at g.i, which must be valid Unicode.
func (g *grower) text() (string, error) {
	start := g.i
	escaped, err := g.str()
	if err != nil {
		return "", err
	}
	if err := g.checkString(start, escaped); err != nil {
		return "", err
	}
	return Value{Kind: String, escaped: escaped, raw: g.b[start:g.i]}.Text(), nil
}

// members reads the object at g.i; depth includes it.
func (g *grower) members(depth int) (map[string]any, error) {
	object := map[string]any{}
	if empty, err := g.open('}', depth); empty || err != nil {
		return object, err
	}
	for {
		start := g.i
		key, err := g.key()
		if err != nil {
			return nil, err
		}
		if _, twice := object[key]; twice {
			g.i = start
			return nil, g.fail(DuplicateKey)
		}
		if object[key], err = g.value(depth); err != nil {
			return nil, err
		}
		if done, err := g.more('}'); done || err != nil {
			return object, err
		}
	}
}

// key reads a member's key and the colon behind it.
func (g *grower) key() (string, error) {
	key, err := g.rawKey()
	return string(key), err
}

// rawKey is key, but a key without escapes shares memory with the text.
func (g *grower) rawKey() ([]byte, error) {
	if g.i >= len(g.b) || g.b[g.i] != '"' {
		return nil, g.fail(Syntax)
	}
	start := g.i
	escaped, err := g.str()
	if err != nil {
		return nil, err
	}
	end := g.i
	key := g.b[start+1 : end-1]
	switch err = g.checkString(start, escaped); {
	case err != nil && !g.loose:
		return nil, err
	case err != nil:
		g.i = end // checkString left it at the beginning
		key = append([]byte{0xff}, g.b[start:end]...)
	case escaped:
		text, _ := unescape(key) // checked
		key = []byte(text)
	}
	return key, g.colon()
}

// elements reads the array at g.i; depth includes it.
func (g *grower) elements(depth int) ([]any, error) {
	array := []any{}
	if empty, err := g.open(']', depth); empty || err != nil {
		return array, err
	}
	for {
		v, err := g.value(depth)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
		if done, err := g.more(']'); done || err != nil {
			return array, err
		}
	}
}
