// Uses a kvgate by ioredis and node-redis, as kvgate_node_test.py asks:
//
//   clients.js ioredis|redis|ioredis-cluster|redis-cluster HOST PORT
//
// It prints `ready` when all commands were done. Then it waits for a line of standard input, which says that the gate
// has been killed and started again, goes on with the same connection object, and prints `done`.
"use strict";

const assert = require("node:assert/strict");
const readline = require("node:readline");

const [library, host, port] = process.argv.slice(2);
const BINARY = Buffer.from(Array.from({ length: 256 }, (_, i) => i));

/** The commands that both have, under one name each. */
function oneIoredis() {
  const Redis = require("ioredis");
  const client = new Redis({ host, port: Number(port), retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on("error", () => {}); // it connects again by itself
  return client;
}

function ofIoredis(client = oneIoredis()) {
  return {
    connect: async () => {},
    call: (...words) => client.call(...words),
    get: (key) => client.get(key),
    getBytes: (key) => client.getBuffer(key),
    set: (key, value) => client.set(key, value),
    setFor: (key, value, seconds) => client.set(key, value, "EX", seconds),
    mset: (values) => client.mset(values),
    mget: (...keys) => client.mget(...keys),
    pipeline: async (count) => {
      const pipeline = client.pipeline();
      for (let i = 0; i < count; ++i) pipeline.set(`p${i}`, i).get(`p${i}`);
      return (await pipeline.exec()).map(([error, reply]) => {
        assert.equal(error, null);
        return reply;
      });
    },
    quit: () => client.quit(),
  };
}

function oneNodeRedis() {
  const { createClient } = require("redis");
  const client = createClient({ socket: { host, port: Number(port), reconnectStrategy: () => 50 } });
  client.on("error", () => {});
  return client;
}

function ofNodeRedis(client = oneNodeRedis()) {
  const { commandOptions } = require("redis");
  return {
    connect: () => client.connect(),
    call: (...words) => client.sendCommand(words.map(String)),
    get: (key) => client.get(key),
    getBytes: (key) => client.get(commandOptions({ returnBuffers: true }), key),
    set: (key, value) => client.set(key, value),
    setFor: (key, value, seconds) => client.set(key, value, { EX: seconds }),
    mset: (values) => client.mSet(values),
    mget: (...keys) => client.mGet(keys),
    pipeline: async (count) => {
      // Commands of one turn of the event loop go out together.
      const replies = [];
      for (let i = 0; i < count; ++i) replies.push(client.set(`p${i}`, String(i)), client.get(`p${i}`));
      return Promise.all(replies);
    },
    quit: () => client.quit(),
  };
}

/** The clients of a Redis Cluster, of which HOST and PORT are one node. */
function ofIoredisCluster() {
  const { Cluster } = require("ioredis");
  const client = new Cluster([{ host, port: Number(port) }], { clusterRetryStrategy: () => 50, retryDelayOnFailover: 50 });
  client.on("error", () => {});
  return {
    ...ofIoredis(client),
    // One pipeline of it has keys of one node alone.
    pipeline: async (count) => {
      const replies = [];
      for (let i = 0; i < count; ++i) replies.push(client.set(`p${i}`, i), client.get(`p${i}`));
      return Promise.all(replies);
    },
  };
}

function ofNodeRedisCluster() {
  const { createCluster } = require("redis");
  const client = createCluster({
    rootNodes: [{ socket: { host, port: Number(port) } }],
    defaults: { socket: { reconnectStrategy: () => 50 } },
  });
  client.on("error", () => {});
  return {
    ...ofNodeRedis(client),
    call: (...words) => client.sendCommand(String(words[1]), false, words.map(String)),
    messages: async (count) => {
      for (let i = 0; i < count; ++i) {
        const message = new Promise((resolve) => client.sSubscribe(`c${i}`, resolve).then(() => client.sPublish(`c${i}`, `m${i}`)));
        assert.equal(await message, `m${i}`);
        await client.sUnsubscribe(`c${i}`);
      }
    },
  };
}

const CLIENTS = {
  ioredis: ofIoredis,
  redis: ofNodeRedis,
  "ioredis-cluster": ofIoredisCluster,
  "redis-cluster": ofNodeRedisCluster,
};

async function useStrings(client) {
  assert.equal(await client.set("key", "value"), "OK");
  assert.equal(await client.get("key"), "value");
  assert.equal(await client.get("none"), null);
  assert.equal(await client.set("binary", BINARY), "OK");
  assert.deepEqual(await client.getBytes("binary"), BINARY);
  assert.equal(await client.setFor("for a while", "x", 1000), "OK");
  assert.ok([999, 1000].includes(await client.call("TTL", "for a while")));
  assert.equal(await client.call("APPEND", "key", "s"), 6);
  assert.equal(await client.call("GETRANGE", "key", 0, 1), "va");
  assert.equal(await client.call("INCRBY", "number", 41), 41);
  assert.equal(await client.call("INCR", "number"), 42);
  assert.equal(await client.mset({ a: "1", b: "2" }), "OK");
  assert.deepEqual(await client.mget("a", "none", "b"), ["1", null, "2"]);
  assert.equal(await client.call("DEL", "a", "b", "none"), 2);
  assert.equal(await client.call("EXISTS", "a"), 0);
  await assert.rejects(client.call("LPUSH", "list", "x"), /unknown command/);
  await assert.rejects(client.call("INCR", "key"), /not an integer/);
}

async function usePipeline(client) {
  const count = 500;
  const replies = await client.pipeline(count);
  for (let i = 0; i < count; ++i) {
    assert.equal(replies[2 * i], "OK");
    assert.equal(replies[2 * i + 1], String(i));
  }
}

/** Asks until it is answered. A command in flight may fail with the connection. */
async function getAgain(client, key) {
  for (;;) {
    try {
      return await client.get(key);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function main() {
  const client = CLIENTS[library]();
  await client.connect();
  await useStrings(client);
  await usePipeline(client);
  if (client.messages) await client.messages(10);
  console.log("ready");
  await new Promise((resolve) => readline.createInterface({ input: process.stdin }).once("line", resolve));
  assert.equal(await getAgain(client, "key"), "values");
  assert.equal(await client.set("key", "after"), "OK");
  await client.quit();
  console.log("done");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
