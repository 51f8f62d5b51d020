package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// attachment is what is read of a NetworkAttachmentDefinition, as Multus has it (v1 of k8s.cni.cncf.io), or of a
// list of them.
type attachment struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Config any `yaml:"config"` // a text; other kinds may have something else there
	} `yaml:"spec"`
	Items []attachment `yaml:"items"`
}

const attachmentKind = "NetworkAttachmentDefinition"

// configuration is the CNI configuration of a manifest that holds one NetworkAttachmentDefinition, with the name that
// Multus gives it where it has none. false: the text is no manifest.
func configuration(text []byte) ([]byte, bool, error) {
	if !bytes.Contains(text, []byte(attachmentKind)) {
		return nil, false, nil
	}
	var found []attachment
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one attachment
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, true, fmt.Errorf("read manifest: %w", err)
		}
		for _, a := range append(one.Items, one) {
			if a.Kind == attachmentKind {
				found = append(found, a)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, false, nil
	case 1:
		raw, err := found[0].named()
		return raw, true, err
	}
	var names []string
	for _, a := range found {
		names = append(names, a.Metadata.Name)
	}
	return nil, true, fmt.Errorf("expected one %s in the file, there are %d: %s", attachmentKind, len(found),
		strings.Join(names, ", "))
}

// named is the configuration with a name.
func (a attachment) named() ([]byte, error) {
	text, isText := a.Spec.Config.(string)
	if a.Spec.Config != nil && !isText {
		return nil, fmt.Errorf("%s %s: key spec.config: expected a text", attachmentKind, a.Metadata.Name)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%s %s has no spec.config: give the file in its node's /etc/cni/net.d that it names",
			attachmentKind, a.Metadata.Name)
	}
	conf, err := decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("key spec.config: %w", err)
	}
	if conf["name"] == nil || conf["name"] == "" {
		conf["name"] = a.Metadata.Name
	}
	return json.MarshalIndent(conf, "", "  ")
}
