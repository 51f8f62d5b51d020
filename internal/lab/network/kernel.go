package network

// Kernel reports whether needs of the kind are the kernel's to meet, so that one
// that this machine's kernel does not meet another kernel may.
func (k Kind) Kernel() bool { return k == Link || k == Family || k == Encap || k == Socket }

// OnlyKernel reports whether all that is missing is the kernel's to bring.
func OnlyKernel(missing []Missing) bool {
	for _, m := range missing {
		if !m.Kind.Kernel() {
			return false
		}
	}
	return true
}

// KernelNeeds are the needs that the kernel is to meet.
func KernelNeeds(needs []Need) []Need {
	var out []Need
	for _, n := range needs {
		if n.Kind.Kernel() {
			out = append(out, n)
		}
	}
	return out
}
