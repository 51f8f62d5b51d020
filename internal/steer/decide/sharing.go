package decide

import "math"

// sharers are families of schedules in which a pair's flows may share networks: 8, 16 or 64 of
// them, each on one network.
func sharers() []Family {
	hashed := func(name string, networks int, phases func(*course, Load)) func(uint64) Schedule {
		return drawn(name, func(c *course, _ Load) {
			c.Hashed, c.Networks = true, c.Networks[:networks]
			phases(c, Load{Connections: []int{8, 16, 64}[c.IntN(3)]})
		})
	}
	return []Family{
		{"share-two", "flows that share networks: two with equal limits", hashed("share-two", 2, alike)},
		{"share-three", "three with equal limits", hashed("share-three", 3, alike)},
		{"share-uneven", "one with twice the limit of the other", hashed("share-uneven", 2, unalike)},
		{"share-fail", "two with equal limits that fail by turns", hashed("share-fail", 2, failingShared)},
		{"share-swing", "limits that swing", hashed("share-swing", 3, swinging)},
		{"share-asked", "two with equal limits, of flows that ask now for more than one gives and now for less",
			hashed("share-asked", 2, asking)},
		{"share-beneath", "two above one bottleneck: sharing wins nothing", hashed("share-beneath", 2, bottled)},
		{"share-cpu", "two that the CPU limits: sharing costs something", hashed("share-cpu", 2, costing)},
	}
}

// limit has all networks have the same capacity, to a few percent.
func (c *course) limit(ratios ...float64) {
	base := c.Networks[0].Capacity
	for i := range c.Networks {
		c.Networks[i].Capacity, c.Networks[i].Many = base*ratios[i]*c.between(0.98, 1.02), 1
	}
}

func alike(c *course, load Load) {
	c.limit(1, 1, 1)
	c.add(c.between(60, 120), load)
}

func unalike(c *course, load Load) {
	ratios := []float64{1, 2}
	if c.IntN(2) == 0 {
		ratios = []float64{2, 1}
	}
	c.limit(ratios...)
	c.add(c.between(60, 120), load)
}

func failingShared(c *course, load Load) {
	c.limit(1, 1)
	for c.length() < 80 {
		c.add(c.between(8, 20), load)
		c.add(c.between(1, 8), load, c.hole(c.Networks[c.IntN(2)].Name))
	}
	c.add(c.between(8, 20), load)
}

func asking(c *course, load Load) {
	c.limit(1, 1)
	for c.length() < 80 {
		load.Offered = c.Networks[0].Capacity * math.Pow(10, c.between(-0.6, 0.4))
		c.add(c.between(8, 20), load)
	}
}

func bottled(c *course, load Load) {
	c.limit(1, 1)
	c.Beneath = c.Networks[0].Capacity * c.between(0.5, 1)
	c.add(c.between(60, 120), load)
}

func costing(c *course, load Load) {
	bottled(c, load)
	c.Costs = c.between(0.02, 0.15)
}
