// Package probe makes sense of measurements of the paths between hosts: a Track
// folds STAMP's replies and losses into what is known of a path, a Keyring tells
// which keys are accepted while they turn over, and an Echoer asks peers that run no
// agent.
//
// STAMP itself is package stamp. This package moves no traffic, and decides neither
// when to probe nor where traffic should go. Which paths fail is package detect's.
package probe
