package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestWebhookSetting: a base address that the webhook does not accept stops the
// start, with the name of the setting and without its value.
func TestWebhookSetting(t *testing.T) {
	port := fmt.Sprint("FUNCTIONS_CUSTOMHANDLER_PORT=", freePort(t))
	for _, list := range []string{"ftp://hooks.example.com", "https://hooks.example.com,,", "https://ann:secret@hooks.example.com", "https://hooks.example.com/?a=b", "private+hooks.example.com"} {
		for _, args := range [][]string{nil, {"worker", "--listen", "127.0.0.1:0"}} {
			var output bytes.Buffer
			code := execute(args, []string{"AzureWebJobsStorage=UseDevelopmentStorage=true", port, "KENNEL_WEBHOOK_ALLOW=" + list}, &output, &output)
			if text := output.String(); code != 1 || !strings.Contains(text, "invalid setting: KENNEL_WEBHOOK_ALLOW: entry ") || strings.Contains(text, "hooks.example") {
				t.Errorf("%q of %q: code %d, %s", args, list, code, text)
			}
		}
	}
}
