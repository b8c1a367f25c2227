package parts

import (
	"fmt"

	"kennel/internal/config"
	"kennel/internal/program"
	"kennel/work"
	"kennel/work/processors"
)

// newProcessors returns the processors of batches, by the names that callers
// use.
func newProcessors(cfg config.Config) (map[string]work.Processor, error) {
	webhook, err := processors.NewWebhook(cfg.WebhookAllow, nil)
	if err != nil {
		return nil, fmt.Errorf("invalid setting: KENNEL_WEBHOOK_ALLOW: %w", err)
	}
	return map[string]work.Processor{
		"billing": processors.Billing{},
		"webhook": webhook,
	}, nil
}

// processorsOf returns the processors of a program: those that its author
// declared, and with all parts those of the Kennel app.
func processorsOf(cfg config.Config, d *program.Declared) (map[string]work.Processor, error) {
	all := make(map[string]work.Processor)
	if d.Everything {
		var err error
		if all, err = newProcessors(cfg); err != nil {
			return nil, err
		}
	}
	return all, nil
}
