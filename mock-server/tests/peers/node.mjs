// Node's built-in fetch (undici) against the mock server. Arguments: URL, the text of 40 tokens.
import assert from "node:assert/strict";

const [url, expected] = process.argv.slice(-2);

function post(path, body, options = {}) {
  return fetch(url + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...options,
  });
}

function chat(fields) {
  return { model: "mock", messages: [{ role: "user", content: "one two three" }], max_tokens: 40, ...fields };
}

async function events(response) {
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type"), /^text\/event-stream/);
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) text += piece;
  const lines = text.split("\n\n");
  assert.equal(lines.pop(), "");
  assert.equal(lines.pop(), "data: [DONE]");
  return lines.map((line) => JSON.parse(line.slice("data: ".length)));
}

async function whole() {
  const answer = await (await post("/v1/chat/completions", chat())).json();
  assert.equal(answer.choices[0].message.content, expected);
  assert.equal(answer.usage.completion_tokens, 40);
}

async function streamed() {
  const fields = { stream: true, stream_options: { include_usage: true } };
  const chunks = await events(await post("/v1/chat/completions", chat(fields)));
  assert.equal(chunks.at(-1).usage.completion_tokens, 40);
  const deltas = chunks.slice(0, -1).map((chunk) => chunk.choices[0].delta.content ?? "");
  assert.equal(deltas.join(""), expected);
  assert.equal(chunks.at(-2).choices[0].finish_reason, "length");
}

async function completions() {
  const body = { model: "mock", prompt: "one two", max_tokens: 40 };
  const answer = await (await post("/v1/completions", body)).json();
  assert.equal(answer.choices[0].text, expected);
  const chunks = await events(await post("/v1/completions", { ...body, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), expected);
}

// Streamed request bodies are chunked, in pieces that undici chooses.
async function chunkedRequest() {
  const body = new ReadableStream({
    start(controller) {
      for (const piece of JSON.stringify(chat()).match(/.{1,20}/g)) {
        controller.enqueue(new TextEncoder().encode(piece));
      }
      controller.close();
    },
  });
  const answer = await (await post("/v1/chat/completions", null, { body, duplex: "half" })).json();
  assert.equal(answer.choices[0].message.content, expected);
}

async function refused() {
  for (const [path, body, status] of [
    ["/v1/chat/completions", { model: "mock", messages: [] }, 400],
    ["/v1/completions", { model: "mock", prompt: "a", max_tokens: -1 }, 400],
    ["/no/such/path", {}, 404],
  ]) {
    const response = await post(path, body);
    assert.equal(response.status, status);
    assert.ok((await response.json()).error.message);
  }
}

// Gone after the first piece of a long stream.
async function aborted() {
  const controller = new AbortController();
  const response = await post("/v1/chat/completions", chat({ stream: true, max_tokens: 30000 }), {
    signal: controller.signal,
  });
  await response.body.getReader().read();
  controller.abort();
}

for (const ask of [whole, streamed, completions, chunkedRequest, refused, aborted]) {
  await Promise.all(Array.from({ length: 20 }, ask));
}
console.log("done");
