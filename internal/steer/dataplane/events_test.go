package dataplane

import (
	"reflect"
	"testing"
)

// TestEventsAddUp: no count is left out of a sum.
func TestEventsAddUp(t *testing.T) {
	var one, sum Events
	each := reflect.ValueOf(&one).Elem()
	for i := range each.NumField() {
		each.Field(i).SetUint(uint64(i + 1))
	}
	sum.Add(one)
	sum.Add(one)
	for i := range each.NumField() {
		if got, want := reflect.ValueOf(sum).Field(i).Uint(), uint64(2*(i+1)); got != want {
			t.Errorf("%s: %d, want %d", each.Type().Field(i).Name, got, want)
		}
	}
}
