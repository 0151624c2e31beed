"""OpenAI's own Python client against the mock server. Arguments: URL, the text of 40 tokens."""

import json
import sys

try:
    import openai
except ImportError:
    sys.exit(print("skipped: the Python package openai is not installed"))

url, expected = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=30)
messages = [{"role": "user", "content": "one two three"}]


def chat(**fields):
    fields = {"model": "mock", "messages": messages, "max_tokens": 40, **fields}
    return client.chat.completions.create(**fields)


def refused(exception, **fields):
    try:
        chat(**fields)
    except exception as error:
        assert error.body["message"] and error.type, error.body
    else:
        raise AssertionError(f"{fields} was answered")


models = client.models.list().data
assert [model.id for model in models] == ["mock"]

answer = chat()
assert answer.choices[0].message.content == expected
assert answer.choices[0].finish_reason == "length"
assert answer.usage.completion_tokens == 40
assert answer.usage.total_tokens == answer.usage.prompt_tokens + 40

chunks = list(chat(stream=True, stream_options={"include_usage": True}))
assert chunks[-1].usage == answer.usage and chunks[-1].choices == []
deltas = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
assert "".join(deltas) == expected

answer = client.completions.create(model="mock", prompt="one two", max_tokens=40)
assert answer.choices[0].text == expected
chunks = client.completions.create(model="mock", prompt="one two", max_tokens=40, stream=True)
assert "".join(chunk.choices[0].text for chunk in chunks) == expected

# The helper that puts a stream together checks every event against the types.
with client.chat.completions.stream(model="mock", messages=messages) as stream:
    kinds = {event.type for event in stream}
    final = stream.get_final_completion()
assert "content.done" in kinds and final.choices[0].finish_reason == "stop"

# Several choices, log probabilities, reasoning, stop strings.
answer = chat(n=2)
assert [choice.index for choice in answer.choices] == [0, 1]
assert answer.usage.completion_tokens == 80
content = chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
assert "".join(token.token for token in content) == expected
assert all(len(token.top_logprobs) == 2 for token in content)
usage = chat(reasoning_effort="high").usage
assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens == 40
choice = chat(stop=["river"]).choices[0]
assert (choice.message.content, choice.finish_reason) == (expected[: expected.index("river")], "stop")

# A call of a tool: the helper parses its arguments by the tool's schema.
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
function = {"name": "weather", "parameters": parameters}
tools = [{"type": "function", "function": function}]
call = chat(tools=tools, tool_choice="required", seed=1).choices[0].message.tool_calls[0]
assert call.function.name == "weather" and json.loads(call.function.arguments)["city"]
fields = {"tools": tools, "tool_choice": "required", "seed": 1}
with client.chat.completions.stream(model="mock", messages=messages, **fields) as stream:
    final = stream.get_final_completion()
assert final.choices[0].finish_reason == "tool_calls"
streamed = final.choices[0].message.tool_calls[0]
assert (streamed.id, streamed.function.arguments) == (call.id, call.function.arguments)

# The Responses API: its helper puts the events together, and strict types refuse unknown ones.
strict = openai.OpenAI(
    base_url=url + "/v1",
    api_key="none",
    max_retries=0,
    timeout=30,
    _strict_response_validation=True,
)
for fields in [
    {"max_output_tokens": 40},
    {"reasoning": {"effort": "high"}},
    {"tools": [{"type": "function", **function, "strict": True}], "tool_choice": "required"},
]:
    fields = {"model": "mock", "input": "one two", **fields}
    answer = strict.responses.create(**fields)
    events = list(strict.responses.create(stream=True, **fields))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.usage.total_tokens == answer.usage.total_tokens
    kinds = [item.type for item in answer.output]
    with strict.responses.stream(**fields) as stream:
        final = stream.get_final_response()
    assert [item.type for item in final.output] == kinds, (final.output, kinds)

# The client asks for base64 unless told otherwise.
packed = client.embeddings.create(model="mock", input=["one", "two"]).data
plain = client.embeddings.create(model="mock", input=["one", "two"], encoding_format="float").data
for one, other in zip(packed, plain, strict=True):
    assert one.index == other.index and len(one.embedding) == len(other.embedding)
    assert all(abs(x - y) < 1e-6 for x, y in zip(one.embedding, other.embedding))

refused(openai.BadRequestError, messages=[])
refused(openai.BadRequestError, max_tokens=-1)
print("done")
