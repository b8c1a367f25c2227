// Tests the broker with the official JavaScript SDK. Because the SDK has other
// authors, the broker and its tests in Go cannot agree on a mistake unnoticed.
// Usage: node oracle.js <connection string>

const assert = require("node:assert/strict");
const { ServiceBusClient, ServiceBusAdministrationClient } = require("@azure/service-bus");

const [connectionString] = process.argv.slice(2);

const admin = new ServiceBusAdministrationClient(connectionString, { retryOptions: { maxRetries: 0 } });
// Without this policy, the client always uses HTTPS.
admin.pipeline.addPolicy({
  name: "plainHTTP",
  sendRequest(request, next) {
    const url = new URL(request.url);
    url.protocol = "http:";
    request.url = url.toString();
    request.allowInsecureConnection = true;
    return next(request);
  },
});
const client = new ServiceBusClient(connectionString, {
  retryOptions: { maxRetries: 0, timeoutInMs: 30000 },
});

const wait = { maxWaitTimeInMs: 30000 };

async function receive(receiver, n) {
  const got = [];
  while (got.length < n) {
    const some = await receiver.receiveMessages(n - got.length, wait);
    assert.notEqual(some.length, 0, `got ${got.length} of ${n} messages`);
    got.push(...some);
  }
  return got;
}

const steps = {
  async "administer queues"() {
    const made = await admin.createQueue("jobs", { lockDuration: "PT30S", maxDeliveryCount: 3, userMetadata: "<text>" });
    assert.equal(made.lockDuration, "PT30S");
    assert.equal(made.maxDeliveryCount, 3);
    assert.equal(made.userMetadata, "<text>");
    assert.equal(made.requiresSession, false);
    await assert.rejects(admin.createQueue("jobs"), { statusCode: 409 });
    assert.equal(await admin.queueExists("jobs"), true);
    assert.equal(await admin.queueExists("missing"), false);
    const updated = await admin.updateQueue({ ...made, maxDeliveryCount: 5 });
    assert.equal(updated.maxDeliveryCount, 5);
    await assert.rejects(admin.createQueue("brief", { lockDuration: "PT1S" }), { statusCode: 400 });
    await admin.createQueue("grouped", { requiresSession: true });
    const names = [];
    for await (const q of admin.listQueues()) names.push(q.name);
    assert.deepEqual(names, ["grouped", "jobs"]);
    assert.equal((await admin.getNamespaceProperties()).messagingSku, "Standard");
  },

  async "administer topics and subscriptions"() {
    await admin.createTopic("news");
    const sub = await admin.createSubscription("news", "reader", { autoDeleteOnIdle: "PT5M" });
    assert.equal(sub.autoDeleteOnIdle, "PT5M");
    assert.equal(await admin.subscriptionExists("news", "reader"), true);
    assert.equal(await admin.subscriptionExists("news", "missing"), false);
    assert.equal((await admin.getTopicRuntimeProperties("news")).subscriptionCount, 1);
    await assert.rejects(admin.createSubscription("news", "picky", { defaultRuleOptions: { name: "r", filter: { sqlExpression: "a = 1" } } }), { statusCode: 501 });
  },

  async "send, receive, abandon, complete"() {
    const sender = client.createSender("jobs");
    const receiver = client.createReceiver("jobs");
    await sender.sendMessages({ body: { a: 1 }, messageId: "m1", subject: "s", applicationProperties: { n: 5, s: "x", b: true, d: new Date(0) } });
    let [m] = await receive(receiver, 1);
    assert.deepEqual(m.body, { a: 1 });
    assert.equal(m.messageId, "m1");
    assert.equal(m.subject, "s");
    assert.equal(m.deliveryCount, 0);
    assert.equal(m.sequenceNumber.toString(), "1");
    assert.equal(m.state, "active");
    assert.deepEqual(m.applicationProperties, { n: 5, s: "x", b: true, d: 0 }); // the SDK converts dates to numbers
    assert.ok(m.lockedUntilUtc > new Date());
    assert.ok((await receiver.renewMessageLock(m)) >= m.lockedUntilUtc);
    await receiver.abandonMessage(m, { tried: "once" });
    [m] = await receive(receiver, 1);
    assert.equal(m.deliveryCount, 1);
    assert.equal(m.applicationProperties.tried, "once");
    await receiver.completeMessage(m);
    await assert.rejects(receiver.completeMessage(m));
    await sender.sendMessages({ body: "anonymous" });
    [m] = await receive(receiver, 1);
    assert.ok(m.messageId, "the service gives every message an id");
    await receiver.completeMessage(m);
    await Promise.all([sender.close(), receiver.close()]);
  },

  async "batches and peeking"() {
    const sender = client.createSender("jobs");
    const receiver = client.createReceiver("jobs", { receiveMode: "receiveAndDelete" });
    const batch = await sender.createMessageBatch();
    for (let i = 0; i < 50; i++) assert.ok(batch.tryAddMessage({ body: `b${i}` }));
    await sender.sendMessages(batch);
    assert.deepEqual((await receiver.peekMessages(3)).map((m) => m.body), ["b0", "b1", "b2"]);
    assert.equal((await admin.getQueueRuntimeProperties("jobs")).activeMessageCount, 50);
    assert.deepEqual((await receive(receiver, 50)).map((m) => m.body), [...Array(50).keys()].map((i) => `b${i}`));
    assert.equal((await receiver.receiveMessages(1, { maxWaitTimeInMs: 300 })).length, 0);
    const large = Buffer.alloc(200 * 1024, 7);
    await sender.sendMessages({ body: large });
    assert.ok((await receive(receiver, 1))[0].body.equals(large));
    await Promise.all([sender.close(), receiver.close()]);
  },

  async "schedule, cancel, defer, dead-letter"() {
    const sender = client.createSender("jobs");
    const receiver = client.createReceiver("jobs");
    const at = new Date(Date.now() + 700);
    const numbers = await sender.scheduleMessages([{ body: "cancelled" }, { body: "scheduled" }], at);
    await sender.cancelScheduledMessages(numbers[0]);
    let [m] = await receive(receiver, 1);
    assert.equal(m.body, "scheduled");
    assert.ok(new Date() >= at);
    await receiver.deferMessage(m);
    [m] = await receiver.receiveDeferredMessages(m.sequenceNumber);
    assert.equal(m.body, "scheduled");
    await receiver.deadLetterMessage(m, { deadLetterReason: "why", deadLetterErrorDescription: "because", by: "me" });
    const dead = client.createReceiver("jobs", { subQueueType: "deadLetter" });
    [m] = await receive(dead, 1);
    assert.equal(m.deadLetterReason, "why");
    assert.equal(m.deadLetterErrorDescription, "because");
    assert.equal(m.applicationProperties.by, "me");
    await dead.completeMessage(m);
    await Promise.all([sender.close(), receiver.close(), dead.close()]);
  },

  async "sessions"() {
    const sender = client.createSender("grouped");
    for (const [sessionId, body] of [["a", "a1"], ["b", "b1"], ["a", "a2"]]) await sender.sendMessages({ sessionId, body });
    const a = await client.acceptSession("grouped", "a");
    assert.equal(a.sessionId, "a");
    assert.ok(a.sessionLockedUntilUtc > new Date());
    await assert.rejects(client.acceptSession("grouped", "a"), { code: "SessionCannotBeLocked" });
    assert.deepEqual((await a.peekMessages(10)).map((m) => m.body), ["a1", "a2"]);
    await a.setSessionState({ step: 2 });
    assert.deepEqual(await a.getSessionState(), { step: 2 });
    assert.ok((await a.renewSessionLock()) >= a.sessionLockedUntilUtc);
    for (const want of ["a1", "a2"]) {
      const [m] = await receive(a, 1);
      assert.equal(m.body, want);
      assert.equal(m.sessionId, "a");
      await a.completeMessage(m);
    }
    const next = await client.acceptNextSession("grouped");
    assert.equal(next.sessionId, "b");
    const [m] = await receive(next, 1);
    await next.completeMessage(m);
    await Promise.all([sender.close(), a.close(), next.close()]);
  },

  async "publish and subscribe"() {
    const sender = client.createSender("news");
    const receiver = client.createReceiver("news", "reader");
    const received = new Promise((resolve, reject) => {
      receiver.subscribe({
        processMessage: async (m) => resolve(m.body),
        processError: async (e) => reject(e.error),
      });
    });
    await sender.sendMessages({ body: "extra" });
    assert.equal(await received, "extra");
    await Promise.all([sender.close(), receiver.close()]);
  },

  async "entities that do not exist"() {
    const sender = client.createSender("missing");
    await assert.rejects(sender.sendMessages({ body: "x" }), { code: "MessagingEntityNotFound" });
    await admin.deleteQueue("jobs");
    await assert.rejects(admin.getQueue("jobs"), { code: "MessageEntityNotFoundError" });
    await admin.deleteTopic("news");
  },
};

(async () => {
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step();
      console.log(`ok ${name}`);
    } catch (e) {
      console.log(`FAILED ${name}: ${e.stack}`);
      process.exit(1);
    }
  }
  await client.close();
})();
