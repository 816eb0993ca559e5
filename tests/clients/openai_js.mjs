// The official JavaScript client against a server of ours. LOCKSTEP_URL says where it is; every check is one claim.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI, { APIUserAbortError, BadRequestError, NotFoundError } from "openai";

const client = new OpenAI({ baseURL: `${process.env.LOCKSTEP_URL}/v1`, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const chat = { model, messages: [{ role: "user", content: "Name three rivers." }], temperature: 0, max_tokens: 24 };
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    strict: true,
    parameters: {
      type: "object",
      properties: { city: { enum: ["Kyiv", "Lima"] } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};
const verdict = {
  type: "object",
  properties: { colour: { enum: ["red", "green"] }, is_sure: { type: "boolean" } },
  required: ["colour", "is_sure"],
  additionalProperties: false,
};

const greedy = await client.chat.completions.create(chat);
const text = greedy.choices[0].message.content;

async function numRunning() {
  const { loads } = await (await fetch(`${process.env.LOCKSTEP_URL}/v1/loads`)).json();
  return loads.reduce((sum, load) => sum + load.num_running_reqs, 0);
}

test("a chat answers", async () => {
  assert.ok(text.length > 0);
  assert.equal(greedy.usage.total_tokens, greedy.usage.prompt_tokens + greedy.usage.completion_tokens);
  assert.match(greedy.choices[0].finish_reason, /^(stop|length)$/);
});

test("a streamed chat is the same, and ends with its usage", async () => {
  const stream = await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } });
  let streamed = "";
  let usage = null;
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(streamed, text);
  assert.equal(usage.completion_tokens, greedy.usage.completion_tokens);
});

test("the stream helper puts the message together", async () => {
  const pieces = [];
  const stream = client.chat.completions.stream(chat).on("content", (delta) => pieces.push(delta));
  assert.equal(await stream.finalContent(), text);
  assert.equal(pieces.join(""), text);
  assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, greedy.choices[0].finish_reason);
});

test("the stream helper puts tool calls together", async () => {
  const stream = client.chat.completions.stream({ ...chat, max_tokens: 60, tools: [weather], tool_choice: "required", parallel_tool_calls: false });
  const { choices: [choice] } = await stream.finalChatCompletion();
  assert.equal(choice.finish_reason, "tool_calls");
  const [call] = choice.message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.ok(call.id);
  assert.ok(["Kyiv", "Lima"].includes(JSON.parse(call.function.arguments).city));
});

test("runTools calls the function that is named", async () => {
  const asked = [];
  const tool = { ...weather, function: { ...weather.function, parse: JSON.parse, function: ({ city }) => asked.push(city) } };
  const choice = { type: "function", function: { name: "get_weather" } };
  await client.chat.completions.runTools({ ...chat, max_tokens: 60, tools: [tool], tool_choice: choice, parallel_tool_calls: false }).done();
  assert.equal(asked.length, 1);
  assert.ok(["Kyiv", "Lima"].includes(asked[0]));
});

test("an answer keeps to its schema", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "verdict", strict: true, schema: verdict } };
  const { choices: [choice] } = await client.chat.completions.parse({ ...chat, max_tokens: 60, response_format });
  assert.deepEqual(Object.keys(choice.message.parsed).sort(), ["colour", "is_sure"]);
  assert.equal(typeof choice.message.parsed.is_sure, "boolean");
});

test("log-probabilities spell the answer", async () => {
  const { choices: [choice] } = await client.chat.completions.create({ ...chat, logprobs: true, top_logprobs: 3 });
  const bytes = choice.logprobs.content.flatMap((token) => token.bytes);
  assert.equal(Buffer.from(bytes).toString(), choice.message.content);
  assert.ok(choice.logprobs.content.every((token) => token.top_logprobs.length === 3 && token.logprob <= 0));
});

test("n answers have n indices", async () => {
  const { choices } = await client.chat.completions.create({ ...chat, temperature: 1, seed: 1, n: 3 });
  assert.deepEqual(choices.map((choice) => choice.index), [0, 1, 2]);
});

test("completions answer, whole and streamed", async () => {
  const body = { model, prompt: "One, two, three,", max_tokens: 8, temperature: 0 };
  const whole = await client.completions.create({ ...body, echo: true, logprobs: 1 });
  assert.ok(whole.choices[0].text.startsWith(body.prompt));
  assert.equal(whole.choices[0].logprobs.tokens.join(""), whole.choices[0].text);
  let streamed = body.prompt;
  for await (const chunk of await client.completions.create({ ...body, stream: true })) streamed += chunk.choices[0].text;
  assert.equal(streamed, whole.choices[0].text);
});

test("responses answer, whole and streamed", async () => {
  const body = { model, input: "Name three rivers.", temperature: 0, max_output_tokens: 24 };
  const whole = await client.responses.create(body);
  assert.equal(whole.output_text, text);
  const stream = client.responses.stream(body);
  let streamed = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") streamed += event.delta;
  assert.equal(streamed, text);
  assert.equal((await stream.finalResponse()).output_text, text);
});

test("models can be retrieved, and another is not found", async () => {
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("another"), (error) => error instanceof NotFoundError && error.code === "model_not_found");
});

test("a bad parameter is a BadRequestError that names it, also for a stream", async () => {
  for (const stream of [false, true])
    await assert.rejects(client.chat.completions.create({ ...chat, top_p: 7, stream }), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.deepEqual([error.status, error.param, error.type], [400, "top_p", "invalid_request_error"]);
      return true;
    });
});

test("an error in the middle of a stream is thrown", async () => {
  const stream = await client.chat.completions.create({ ...chat, max_tokens: 4000, ignore_eos: true, timeout_s: 1, stream: true });
  await assert.rejects(async () => { for await (const _ of stream); }, OpenAI.APIError);
});

test("an abort ends the work", async () => {
  const stream = await client.chat.completions.create({ ...chat, max_tokens: 4000, ignore_eos: true, stream: true });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) stream.controller.abort();
  const controller = new AbortController();
  const promise = client.chat.completions.create({ ...chat, max_tokens: 4000, ignore_eos: true }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 200);
  await assert.rejects(promise, APIUserAbortError);
  while ((await numRunning()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
});
