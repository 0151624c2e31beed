"""OpenAI's own Python client against the mock server. Arguments: URL, the text of 40 tokens."""

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

refused(openai.BadRequestError, messages=[])
refused(openai.BadRequestError, max_tokens=-1)
print("done")
