package check

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// apply compares the target with the advice, changes it if it may, and stores
// the outcome if that is news. An error of the target is an outcome and not an
// error of the check: the next check tries again.
func (c *Check) apply(ctx context.Context, k kept, advised int) error {
	if c.opt.Target == nil {
		return nil
	}
	o := c.compare(ctx, k.record.At, advised)
	c.judge(o)
	if was := k.record.Outcome; was != nil && o.equals(*was) {
		return nil
	}
	log := c.opt.Log.InfoContext
	if o.Error != "" {
		log = c.opt.Log.WarnContext
	}
	log(ctx, "target of scaling compared", "target", c.opt.TargetName, "outcome", o.State, "instances", o.Instances, "error", o.Error)
	return c.keepOutcome(ctx, k, o)
}

// compare compares the advice with the target, and applies it if it may.
func (c *Check) compare(ctx context.Context, at time.Time, advised int) Outcome {
	o := Outcome{At: at, Instances: advised}
	minimum, maximum, err := c.opt.Target.Replicas(ctx)
	if err != nil {
		return o.failed(fmt.Errorf("read the target: %w", err))
	}
	o.Minimum, o.Instances = &minimum, min(advised, maximum)
	switch {
	case minimum == o.Instances:
		o.State = Unchanged
	case !c.opt.Apply:
		o.State = DryRun
	default:
		if err := c.opt.Target.SetMinimum(ctx, o.Instances); err != nil {
			return o.failed(fmt.Errorf("change the target: %w", err))
		}
		o.State = Applied
	}
	return o
}

// equals reports whether two checks had the same outcome.
func (o Outcome) equals(other Outcome) bool {
	o.At = other.At
	return reflect.DeepEqual(o, other)
}

// judge records whether the target denied this process a right that it needs.
func (c *Check) judge(o Outcome) {
	if o.State == Denied {
		c.denied.Occurred(c.opt.TargetName, strings.TrimSuffix(o.Error, "."), problemLasts)
	} else {
		c.denied.Solved(c.opt.TargetName)
	}
}

func (o Outcome) failed(err error) Outcome {
	o.Error = err.Error()
	switch {
	case errors.Is(err, ErrDenied):
		o.State = Denied
	case errors.Is(err, ErrBusy):
		o.State = Busy
	default:
		o.State = Failed
	}
	return o
}
