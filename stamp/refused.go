package stamp

// Refused counts what a reflector did not take, by the reason: packets, and of those that it answered the TLVs.
func (c ReflectorCounters) Refused() map[string]uint64 {
	return map[string]uint64{"short": c.Short, "oversized": c.Oversized, "forged": c.Forged, "elsewhere": c.Elsewhere,
		"bad_time": c.BadTime, "replayed": c.Replayed, "stale": c.Stale, "loop": c.Loop, "bad_tlv": c.BadTLV,
		"forged_tlv": c.ForgedTLV, "unbound": c.Unbound}
}

// Refused counts what a sender did not take, by the reason: answers, and of those that it took the TLVs.
func (c SenderCounters) Refused() map[string]uint64 {
	return map[string]uint64{"malformed": c.Malformed, "forged": c.Forged, "unbound": c.Unbound, "unmatched": c.Unmatched,
		"mismatch": c.Mismatch, "duplicate": c.Duplicate, "bad_tlv": c.BadTLV, "forged_tlv": c.ForgedTLV}
}
