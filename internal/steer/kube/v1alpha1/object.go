// Package v1alpha1 holds the objects of the API group pathwise.dev, as an API server keeps
// them: which networks flows may be moved to, what pods need, and what each node's agent
// has seen.
//
// It holds no rule of how they are read or written. Fields and values that no agent acts on
// are not there: the API server refuses what would do nothing.
//
// +groupName=pathwise.dev
// +kubebuilder:object:generate=true
package v1alpha1

//go:generate sh ../../../../scripts/kube-generate.sh

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version of the group.
func Version() schema.GroupVersion {
	return schema.GroupVersion{Group: "pathwise.dev", Version: "v1alpha1"}
}

// Register makes a scheme know the objects.
func Register(s *runtime.Scheme) error {
	s.AddKnownTypes(Version(), &PathNetwork{}, &PathNetworkList{}, &PathNode{}, &PathNodeList{},
		&PathPolicy{}, &PathPolicyList{})
	metav1.AddToGroupVersion(s, Version())
	return nil
}

// PathNetwork allows agents to move flows to a network. It is the administrator's: nothing is
// moved to a network without one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pnet
// +kubebuilder:printcolumn:name="Attachment",type=string,JSONPath=`.spec.attachment`
// +kubebuilder:printcolumn:name="Steer",type=string,JSONPath=`.spec.steer`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Encapsulate",type=string,JSONPath=`.spec.encapsulate`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PathNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PathNetworkSpec `json:"spec"`
}

// PathNetworkSpec is what an administrator says of a network.
type PathNetworkSpec struct {
	// attachment is the NetworkAttachmentDefinition whose network this is, as NAMESPACE/NAME.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="attachment cannot be changed"
	Attachment string `json:"attachment"`
	// steer says whether agents may move flows there. Denied probes it, and moves nothing.
	//
	// +kubebuilder:default=Denied
	Steer Steer `json:"steer,omitempty"`
	// policy says how agents know that the network refuses what the default network refuses.
	// SameEnforcer: the administrator states that one enforcer applies the same policy to both.
	// Derived: flows of pods that no policy of the default network selects may be moved there; of
	// others they may not, nor where a kind of policy cannot be read.
	// Never: it is not known, so that nothing is moved there.
	//
	// +kubebuilder:default=Never
	Policy Policy `json:"policy,omitempty"`
	// encapsulate puts steered packets into UDP: Always where the network tracks connections or
	// changes the DSCP, so that translated packets would not cross it.
	//
	// +kubebuilder:default=Never
	Encapsulate Encapsulate `json:"encapsulate,omitempty"`
}

// Steer says whether flows may be moved to a network.
//
// +kubebuilder:validation:Enum=Allowed;Denied
type Steer string

// Whether flows may be moved to a network.
const (
	SteerAllowed Steer = "Allowed"
	SteerDenied  Steer = "Denied"
)

// Policy says how it is known that two networks refuse the same.
//
// +kubebuilder:validation:Enum=SameEnforcer;Derived;Never
type Policy string

// How it is known that two networks refuse the same.
const (
	PolicySameEnforcer Policy = "SameEnforcer"
	PolicyDerived      Policy = "Derived"
	PolicyNever        Policy = "Never"
)

// Encapsulate says whether steered packets go in UDP.
//
// +kubebuilder:validation:Enum=Always;Never
type Encapsulate string

// Whether steered packets go in UDP.
const (
	EncapsulateAlways Encapsulate = "Always"
	EncapsulateNever  Encapsulate = "Never"
)

// PathNetworkList is a list of them.
//
// +kubebuilder:object:root=true
type PathNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PathNetwork `json:"items"`
}

// PathNode is what the agent of the node of that name has found there. Nobody else writes it,
// and other nodes' agents believe it, not the pods' annotations.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pnode
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.refused`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PathNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PathNodeSpec `json:"spec"`
	// +optional
	Status PathNodeStatus `json:"status"`
}

// PathNodeSpec is what other nodes' agents go by.
type PathNodeSpec struct {
	// version of the agent.
	//
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// pods are those on several networks, as they were found in their namespaces.
	//
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=uid
	Pods []Pod `json:"pods,omitempty"`
}

// Pod is a pod as the agent has found it.
type Pod struct {
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:MinLength=1
	UID string `json:"uid"`
	// name is NAMESPACE/NAME.
	//
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`
	// sandbox is the inode of the pod's network namespace: another one is another sandbox.
	Sandbox int64 `json:"sandbox,omitempty"`
	// agent: the pod is the agent's own, from which it probes.
	Agent bool `json:"agent,omitempty"`
	// attachments: the default network's first.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=network
	Attachments []Attachment `json:"attachments"`
	// policies are the names of the PathPolicies that select the pod; the first one holds.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	Policies []string `json:"policies,omitempty"`
	// need, pin and dryRun are what the agent goes by for flows that the pod has opened.
	//
	// +kubebuilder:validation:MaxLength=16
	Need string `json:"need,omitempty"`
	// +kubebuilder:validation:MaxLength=317
	Pin    string `json:"pin,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`
}

// Attachment is one interface of a pod.
type Attachment struct {
	// network is "default", or the attachment's definition as NAMESPACE/NAME.
	//
	// +kubebuilder:validation:MaxLength=317
	Network string `json:"network"`
	// +kubebuilder:validation:MaxLength=15
	Device string `json:"device"`
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=atomic
	Addresses []string `json:"addresses"`
	// +kubebuilder:validation:MaxLength=60
	MAC string `json:"mac,omitempty"`
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu"`
	// barred says what forbids to move the pod's flows there, as its node's agent has judged;
	// nothing does where it is empty.
	//
	// +kubebuilder:validation:MaxLength=1024
	Barred string `json:"barred,omitempty"`
}

// PathNodeStatus is for people.
type PathNodeStatus struct {
	// pods counts those on several networks.
	Pods int32 `json:"pods"`
	// refused counts the pods that are left alone, as what is said of them is not so.
	Refused int32 `json:"refused"`
	// refusals say why, of the first sixteen by name.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Refusal says why a pod is left alone.
type Refusal struct {
	// +kubebuilder:validation:MaxLength=317
	Pod string `json:"pod"`
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// PathNodeList is a list of them.
//
// +kubebuilder:object:root=true
type PathNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PathNode `json:"items"`
}
