package devbus

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// sas returns a shared access signature that expires after d.
func sas(d time.Duration) string {
	return fmt.Sprintf("SharedAccessSignature sr=amqps%%3a%%2f%%2fhost%%2fq&sig=x%%3d&se=%d&skn=key", time.Now().Add(d).Unix())
}

// TestTokenExpires checks that links are detached when the token for their
// entity expires and was not renewed.
func TestTokenExpires(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.claimWith("q", sas(time.Minute))
		c.attach("sender", 1, false, "", "q")
		c.want(amqp.CodeAttach, amqp.CodeFlow)
		c.attach("receiver", 2, true, "q/$DeadLetterQueue", "")
		c.want(amqp.CodeAttach)
		time.Sleep(59 * time.Second)
		c.send(credit(9, 2)) // for a second reply
		c.transfer(8, 1, requestMessage("my-replies", "put-token", sas(time.Minute), "name", "sb://host/q"))
		c.want(amqp.CodeDisposition, amqp.CodeTransfer)
		time.Sleep(59 * time.Second)
		c.transfer(1, 2, dataMessage(1))
		c.want(amqp.CodeDisposition)
		time.Sleep(2 * time.Second)
		for handle, want := range []string{
			1: "The link 'sender' is force detached. Code: RenewToken. Details: Unauthorized access. 'Send' claim(s) are required to perform this operation. Resource: 'sb://devbus/q'.",
			2: "The link 'receiver' is force detached. Code: RenewToken. Details: Unauthorized access. 'Listen' claim(s) are required to perform this operation. Resource: 'sb://devbus/q/$deadletterqueue'.",
		} {
			if want != "" {
				c.wantDetached(uint32(handle), want)
			}
		}
		c.attach("again", 1, false, "", "q")
		c.wantError(amqp.CodeDetach, amqp.CondUnauthorized)
	})
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		reply := c.ask(10, addressCBS, requestMessage("", "put-token", sas(-time.Second), "name", "sb://host/q"))
		if !bytes.Contains(reply, []byte("ExpiredToken: The token is expired. Expiration time: '1999-12-31 23:59:59Z'.")) {
			t.Errorf("an expired token was answered with %q", reply)
		}
		c.attach("sender", 1, false, "", "q")
		c.wantError(amqp.CodeDetach, amqp.CondUnauthorized)
	})
}
