package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PathPolicy says what the flows need that pods of its namespace open, and where they may go. It
// only narrows what PathNetworks allow. Of several that select a pod the oldest holds; of those
// that are equally old, the first by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=ppol
// +kubebuilder:printcolumn:name="Need",type=string,JSONPath=`.spec.need`
// +kubebuilder:printcolumn:name="Pin",type=string,JSONPath=`.spec.pin`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Overridden",type=integer,JSONPath=`.status.overridden`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PathPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PathPolicySpec `json:"spec"`
	// +optional
	Status PathPolicyStatus `json:"status"`
}

// PathPolicySpec is what is said of the pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.networks) || has(self.need) || has(self.pin) || has(self.dryRun)",message="it says nothing: expected networks, need, pin or dryRun"
// +kubebuilder:validation:XValidation:rule="!has(self.pin) || self.pin == 'default' || !has(self.networks) || self.pin in self.networks",message="pin is none of networks"
// +kubebuilder:validation:XValidation:rule="!has(self.pin) || !has(self.dryRun) || !self.dryRun",message="pin and dryRun exclude each other: a dry run moves nothing"
type PathPolicySpec struct {
	// podSelector selects pods of the namespace; the empty one selects all.
	//
	// +optional
	PodSelector PodSelector `json:"podSelector"`
	// networks are those that flows from and to the pods may be moved to, as NAMESPACE/NAME of
	// their definitions, or default, which they may always be on. Without it, PathNetworks alone
	// say where.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Networks []NetworkName `json:"networks,omitempty"`
	// need is what flows need that the pods have opened. The annotation pathwise.dev/need of a
	// pod comes before it.
	Need Need `json:"need,omitempty"`
	// pin is the network that flows are kept on which the pods have opened, as an element of
	// networks; only failure moves them. A pair that has no path there is not pinned.
	Pin NetworkName `json:"pin,omitempty"`
	// dryRun: agents decide about flows that the pods have opened, and tell that, but keep them
	// on the default network.
	DryRun bool `json:"dryRun,omitempty"`
}

// NetworkName is default, or NAMESPACE/NAME of a NetworkAttachmentDefinition.
//
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^(default|[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?)$`
type NetworkName string

// Need is what flows ask of their path.
//
// +kubebuilder:validation:Enum=throughput;latency;robust;auto
type Need string

// PodSelector selects pods by their labels: those that fulfil all.
type PodSelector struct {
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	MatchExpressions []Expression `json:"matchExpressions,omitempty"`
}

// Expression is one condition on a label.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values, Exists and DoesNotExist take none"
type Expression struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// PathPolicyStatus is for people. One of the agents writes it, from what all have written of
// their nodes' pods.
type PathPolicyStatus struct {
	// pods counts those on several networks for which the policy holds.
	Pods int32 `json:"pods"`
	// overridden counts those that it selects, and for which an older one holds.
	Overridden int32 `json:"overridden"`
	// conditions: Accepted says whether agents do what it says, and Applied whether it holds for
	// any pod.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a PathPolicy, and their reasons.
const (
	ConditionAccepted, ConditionApplied           = "Accepted", "Applied"
	ReasonAccepted, ReasonNotAllowed              = "Accepted", "NetworkNotAllowed"
	ReasonApplied, ReasonNoPods, ReasonOverridden = "Applied", "NoPods", "Overridden"
)

// PathPolicyList is a list of them.
//
// +kubebuilder:object:root=true
type PathPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PathPolicy `json:"items"`
}
