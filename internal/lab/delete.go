package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/libcni"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// deleteTimeout bounds a CNI DEL where ADD was given as much as usual: a plugin that hangs
// must not keep a lab up, and one was seen to take over 5 s on a machine that was busy with other work. Where ADD
// was given more, as on a guest's kernel, so is DEL.
const deleteTimeout = 15 * time.Second

func (d deletion) limit() time.Duration { return max(deleteTimeout, d.Timeout/4) }

// deletesAtOnce is how many CNI DELs run side by side: plugins of one host wait for one
// another's locks, and what waits spends its own time.
const deletesAtOnce = 4

// runDeletes calls CNI DEL for recorded attachments as the lab goes down. Errors are
// returned together; one does not keep the others from running.
func runDeletes(ctx context.Context, dir string, st State) error {
	var due []deletion
	for _, d := range st.Delete {
		if d.Host == "" || netns.Exists(d.Host) { // "" is the machine's own
			due = append(due, d)
		}
	}
	err := deleteAll(due, func(d deletion) error { return runDelete(ctx, dir, st.Spec.Name, d) })
	if err != nil {
		return fmt.Errorf("%w (the plugin may have left state of its own)", err)
	}
	return nil
}

// deleteAll does what is due, a few at once. Where none of the first few ends in its time,
// none of the others will: they are left.
func deleteAll(due []deletion, do func(deletion) error) error {
	errs := make([]error, len(due))
	var next, late, done atomic.Int64
	var wg sync.WaitGroup
	for range min(deletesAtOnce, len(due)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(due)); i = next.Add(1) - 1 {
				if late.Load() >= deletesAtOnce && done.Load() == 0 {
					errs[i] = errUntried
					continue
				}
				if errs[i] = do(due[i]); errors.Is(errs[i], errLate) {
					late.Add(1)
				} else {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	var told []error
	untried := 0
	for _, err := range errs {
		if errors.Is(err, errUntried) {
			untried++
		} else {
			told = append(told, err)
		}
	}
	if untried > 0 {
		told = append(told, fmt.Errorf("CNI DEL of %d more pods was not tried", untried))
	}
	return errors.Join(told...)
}

var (
	errUntried = errors.New("not tried")
	errLate    = errors.New("CNI DEL took longer")
)

func runDelete(ctx context.Context, dir, lab string, d deletion) error {
	list, err := libcni.ConfListFromBytes(d.Conflist)
	if err != nil {
		return fmt.Errorf("read CNI configuration list: %w", err)
	}
	rt := runtimeConf(lab, d.Pod, d.Netns, d.IfName)
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit(), fmt.Errorf("%w than %v", errLate, d.limit()))
	defer cancel()
	if err := cniClient(dir, d.Host, d.CNIPath).DelNetworkList(ctx, list, rt); err != nil {
		return fmt.Errorf("CNI DEL of pod %s: %w", d.Pod, err)
	}
	return nil
}
