package main

import (
	"kennel/internal/config"
	"kennel/work"
)

// processorNames are the names of the processors, for messages.
var processorNames = []string{"billing", "webhook"}

// newProcessors returns the processors of batches, by the names that callers
// use.
func newProcessors(cfg config.Config) (map[string]work.Processor, error) {
	webhook, err := work.NewWebhook(cfg.WebhookAllow, nil)
	if err != nil {
		return nil, err
	}
	return map[string]work.Processor{"billing": work.Billing{}, "webhook": webhook}, nil
}
