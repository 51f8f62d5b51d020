package detect

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Every figure says its unit, its range and why it is so, and lies in its range.
func TestParamsAreDocumented(t *testing.T) {
	for level, params := range map[string]Params{"hosts": Hosts(), "pairs": Pairs()} {
		v := reflect.ValueOf(params)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			var least, most, x float64
			switch f := v.Field(i).Interface().(type) {
			case int:
				x = float64(f)
			case time.Duration:
				x = f.Seconds()
			case float64:
				x = f
			}
			_, err := fmt.Sscan(field.Tag.Get("range"), &least, &most)
			if err != nil || field.Tag.Get("unit") == "" || field.Tag.Get("why") == "" {
				t.Errorf("%s: no unit, no range or no reason", field.Name)
			}
			if x < least || x > most {
				t.Errorf("%s: %s is %v, out of %v to %v", level, field.Name, x, least, most)
			}
		}
	}
}
