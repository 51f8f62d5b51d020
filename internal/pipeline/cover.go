package pipeline

// Covers reports whether each packet that n wants is one that m wants.
func (m Match) Covers(n Match) bool {
	j := 0
	for _, t := range m {
		for j < len(n) && n[j].Base < t.Base {
			j++
		}
		if j == len(n) || n[j].Base != t.Base {
			return false
		}
		if o := n[j]; !t.Mask.Without(o.Mask).IsZero() || !t.Value.Xor(o.Value).And(t.Mask).IsZero() {
			return false
		}
	}
	return true
}

// Meets reports whether some packet is wanted by both.
func (m Match) Meets(n Match) bool {
	for i, j := 0, 0; i < len(m) && j < len(n); {
		switch {
		case m[i].Base < n[j].Base:
			i++
		case m[i].Base > n[j].Base:
			j++
		default:
			if !m[i].Value.Xor(n[j].Value).And(m[i].Mask).And(n[j].Mask).IsZero() {
				return false
			}
			i, j = i+1, j+1
		}
	}
	return true
}

// With is a match that wants a base's bits too; they must not contradict it.
func (m Match) With(b Base, value, mask Value) Match {
	out := append(make(Match, 0, len(m)+1), m...)
	out.set(b, value, mask)
	return out
}

// And is a match that wants what both want; they must not contradict each other.
func (m Match) And(n Match) Match {
	out := make(Match, 0, len(m)+len(n))
	for len(m) > 0 || len(n) > 0 {
		switch {
		case len(n) == 0 || len(m) > 0 && m[0].Base < n[0].Base:
			out, m = append(out, m[0]), m[1:]
		case len(m) == 0 || n[0].Base < m[0].Base:
			out, n = append(out, n[0]), n[1:]
		default:
			out = append(out, Term{m[0].Base, m[0].Value.Or(n[0].Value), m[0].Mask.Or(n[0].Mask)})
			m, n = m[1:], n[1:]
		}
	}
	return out
}

// Without is a match that wants nothing of some bits.
func (m Match) Without(b Base, mask Value) Match {
	for i, t := range m {
		if t.Base < b {
			continue
		}
		if t.Base > b || t.Mask.And(mask).IsZero() {
			break
		}
		out := append(make(Match, 0, len(m)), m[:i]...)
		if t.Mask = t.Mask.Without(mask); !t.Mask.IsZero() {
			t.Value = t.Value.And(t.Mask)
			out = append(out, t)
		}
		return append(out, m[i+1:]...)
	}
	return m[:len(m):len(m)]
}

// Less is the pieces of m that n does not want, no two of which meet. They are as many as
// bits that n wants and m leaves open.
func (m Match) Less(n Match) (out []Match) {
	if !m.Meets(n) {
		return []Match{m}
	}
	rest := m
	for _, t := range n {
		open := t.Mask.Without(m.Get(t.Base).Mask)
		for i := range 128 {
			if !open.Bit(i) {
				continue
			}
			bit := num(1).Left(i)
			out = append(out, rest.With(t.Base, t.Value.Xor(bit), bit))
			rest = rest.With(t.Base, t.Value, bit)
		}
	}
	return out
}

// Translated are what nat may write of a packet.
func Translated() []Base { return []Base{NWSrc, NWDst, IPv6Src, IPv6Dst, TPSrc, TPDst} }
