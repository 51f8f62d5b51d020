package decide

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every figure says its unit, its range and its source, and lies in its range.
func TestParamsAreDocumented(t *testing.T) {
	n := 0
	groups := reflect.ValueOf(DefaultParams())
	for i := range groups.NumField() {
		group := groups.Field(i)
		for j := range group.NumField() {
			n++
			field := group.Type().Field(j)
			name := groups.Type().Field(i).Name + "." + field.Name
			if field.Tag.Get("unit") == "" || field.Tag.Get("source") == "" {
				t.Errorf("%s: no unit, or no source", name)
			}
			var least, most, v float64
			switch x := group.Field(j).Interface().(type) {
			case bool:
				continue
			case int:
				v = float64(x)
			case float64:
				v = x
			case time.Duration:
				v = x.Seconds()
			default:
				t.Errorf("%s is a %T", name, x)
			}
			if _, err := fmt.Sscan(field.Tag.Get("range"), &least, &most); err != nil {
				t.Errorf("%s: range %q: %v", name, field.Tag.Get("range"), err)
			}
			if v < least || v > most {
				t.Errorf("%s is %v, out of %v to %v", name, v, least, most)
			}
			if source := field.Tag.Get("source"); strings.Contains(source, "TODO") || source == "?" {
				t.Errorf("%s: source %q", name, source)
			}
		}
	}
	t.Logf("%d figures", n)
}
