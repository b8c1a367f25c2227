package main

import (
	"fmt"

	"kennel/internal/config"
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
