//! The same answer in other objects: where servers put things, and what they put beside them.

use super::super::habits::{Habits, NoUsage, UsageAt, Words};
use super::super::letters::Letters;
use super::servers::{TGI, VLLM};

/// Every event has the usage so far.
pub(in super::super) const USAGE_ALWAYS: Habits = Habits {
    usage_always: true,
    usage_at: UsageAt::Finish,
    ..VLLM
};

/// The usage on the event that says why the choice ends, where it was asked for.
pub(in super::super) const USAGE_ON_FINISH: Habits = Habits {
    usage_at: UsageAt::Finish,
    no_usage: NoUsage::Null,
    ..VLLM
};

/// The usage before that event.
pub(in super::super) const USAGE_BEFORE_FINISH: Habits = Habits {
    usage_at: UsageAt::BeforeFinish,
    ..VLLM
};

/// The event of the last token says why the choice ends, otherwise as vLLM.
pub(in super::super) const FINISH_WITH_LAST: Habits = Habits {
    chat: Words {
        reasoning: &[
            r#"{"index":$index,"delta":{"reasoning":"$text"},"logprobs":null,"finish_reason":$finish}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"content":"$text"},"logprobs":$logprobs,"finish_reason":$finish,"stop_reason":$stop}"#,
        ],
        call: TGI.chat.call,
        arguments: TGI.chat.arguments,
        ..VLLM.chat
    },
    completions: Words {
        text: &[
            r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":$finish,"stop_reason":$stop}"#,
        ],
        ..VLLM.completions
    },
    finish_with_last: true,
    ..VLLM
};

/// Whatever is not there is null, an error too.
pub(in super::super) const NULLS: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"error":null,"system_fingerprint":null,"service_tier":null,"choices":[@]$usage_field}"#,
        open: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":null,"tool_calls":null,"reasoning_content":null,"reasoning":null,"refusal":null,"function_call":null},"logprobs":null,"finish_reason":null}"#,
        ],
        reasoning: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"tool_calls":null,"reasoning_content":null,"reasoning":"$text","function_call":null},"logprobs":null,"finish_reason":null}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"role":null,"content":"$text","tool_calls":null,"reasoning_content":null,"reasoning":null,"function_call":null},"logprobs":$logprobs,"finish_reason":null}"#,
        ],
        finish: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"tool_calls":null},"logprobs":null,"finish_reason":$finish,"stop_reason":$stop}"#,
        ],
        usage_chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"error":null,"choices":[],"usage":$usage}"#,
        whole: r#"{"id":"chatcmpl-$id","object":"chat.completion","created":$created,"model":$model,"error":null,"system_fingerprint":null,"choices":[$choices],"usage":$usage}"#,
        ..VLLM.chat
    },
    completions: Words {
        chunk: r#"{"id":"cmpl-$id","object":"text_completion","created":$created,"model":$model,"error":null,"system_fingerprint":null,"choices":[@]$usage_field}"#,
        ..VLLM.completions
    },
    usage: r#"{"prompt_tokens":$prompt,"completion_tokens":$completion,"total_tokens":$total,"prompt_tokens_details":null,"completion_tokens_details":null}"#,
    no_usage: NoUsage::Null,
    ..VLLM
};

/// White space everywhere, another order of fields, and unknown fields that look like known ones.
pub(in super::super) const WHITE_SPACE: Habits = Habits {
    chat: Words {
        chunk: r#"{ "usage" : $usage , "extra" : { "choices" : [ { "delta" : { "content" : "WRONG" } } ] } , "choices" : [ @ ] , "model" : $model , "object" : "chat.completion.chunk" , "created" : $created , "id" : "chatcmpl-$id" } "#,
        open: &[
            r#"{ "finish_reason" : null , "delta" : { "refusal" : null , "content" : "" , "role" : "assistant" } , "index" : $index }"#,
        ],
        reasoning: &[
            r#"{ "finish_reason" : null , "delta" : { "reasoning" : "$text" , "content" : null } , "index" : $index }"#,
        ],
        text: &[
            r#"{ "logprobs" : $logprobs , "meta" : { "delta" : { "content" : "WRONG" } , "finish_reason" : "WRONG" } , "finish_reason" : null , "delta" : { "refusal" : null , "content" : "$text" , "role" : "assistant" } , "index" : $index }"#,
        ],
        call: &[
            r#"{ "delta" : { "tool_calls" : [ { "function" : { "arguments" : "$text" , "name" : "$call_name" } , "type" : "function" , "id" : "$call_id" , "index" : $call } ] } , "index" : $index }"#,
        ],
        arguments: &[
            r#"{ "delta" : { "tool_calls" : [ { "function" : { "arguments" : "$text" } , "index" : $call } ] } , "index" : $index }"#,
        ],
        finish: &[
            r#"{ "meta" : { "delta" : { "content" : "WRONG" } , "finish_reason" : "WRONG" } , "finish_reason" : $finish , "delta" : { } , "index" : $index }"#,
        ],
        usage_chunk: r#"{ "usage" : $usage , "choices" : [ ] , "id" : "chatcmpl-$id" } "#,
        whole: r#" { "usage" : $usage , "extra" : { "choices" : [ { "message" : { "content" : "WRONG" } } ] } , "choices" : [ $choices ] , "model" : $model , "id" : "chatcmpl-$id" , "created" : $created } "#,
        whole_choice: r#"{ "logprobs" : $logprobs , "finish_reason" : $finish , "message" : { "refusal" : null , "content" : $content , "role" : "assistant" $whole_reasoning$whole_calls } , "index" : $index }"#,
        ..VLLM.chat
    },
    completions: Words {
        chunk: r#"{ "usage" : $usage , "extra" : { "choices" : [ { "text" : "WRONG" } ] } , "choices" : [ @ ] , "model" : $model , "object" : "text_completion" , "created" : $created , "id" : "cmpl-$id" } "#,
        text: &[
            r#"{ "logprobs" : $logprobs , "finish_reason" : null , "meta" : { "text" : "WRONG" } , "text" : "$text" , "index" : $index }"#,
        ],
        finish: &[r#"{ "finish_reason" : $finish , "text" : "" , "index" : $index }"#],
        usage_chunk: r#"{ "usage" : $usage , "choices" : [ ] , "id" : "cmpl-$id" } "#,
        ..VLLM.completions
    },
    usage: r#"{ "total_tokens" : $total , "completion_tokens_details" : { "reasoning_tokens" : $reasoning } , "completion_tokens" : $completion , "prompt_tokens_details" : { "cached_tokens" : $cached } , "prompt_tokens" : $prompt }"#,
    ..VLLM
};

/// Escapes that need not be, in all text.
pub(in super::super) const ESCAPES: Habits = Habits {
    letters: Letters::Escaped,
    ..VLLM
};

/// Events without text between those with some.
pub(in super::super) const EMPTY_CHUNKS: Habits = Habits {
    chat: Words {
        open: &[
            r#"{"index":$index,"delta":{"role":"assistant"},"logprobs":null,"finish_reason":null}"#,
            r#"{"index":$index,"delta":{"content":""},"logprobs":null,"finish_reason":null}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"content":"$text"},"logprobs":$logprobs,"finish_reason":null}"#,
            r#"{"index":$index,"delta":{"content":""},"logprobs":null,"finish_reason":null}"#,
            r#"{"index":$index,"delta":{},"logprobs":null,"finish_reason":null}"#,
        ],
        ..VLLM.chat
    },
    completions: Words {
        open: &[r#"{"index":$index,"text":"","logprobs":null,"finish_reason":null}"#],
        text: &[
            r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":null}"#,
            r#"{"index":$index,"text":"","logprobs":null,"finish_reason":null}"#,
        ],
        ..VLLM.completions
    },
    ..VLLM
};

/// Tokens that have no text, as special tokens have none: the usage alone tells of them.
pub(in super::super) const NO_TEXT: Habits = Habits {
    chat: Words {
        text: &[r#"{"index":$index,"delta":{"content":""},"logprobs":null,"finish_reason":null}"#],
        whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":""$whole_reasoning$whole_calls},"logprobs":null,"finish_reason":$finish,"stop_reason":$stop}"#,
        ..VLLM.chat
    },
    completions: Words {
        text: &[r#"{"index":$index,"text":"","logprobs":null,"finish_reason":null}"#],
        whole_choice: r#"{"index":$index,"text":"","logprobs":null,"finish_reason":$finish,"stop_reason":$stop}"#,
        ..VLLM.completions
    },
    usage_unasked: true,
    ..VLLM
};

/// A reason why the choice ends after each piece of text, and then it goes on: the last one counts.
pub(in super::super) const AFTER_FINISH: Habits = Habits {
    chat: Words {
        text: &[
            r#"{"index":$index,"delta":{"content":"$text"},"logprobs":$logprobs,"finish_reason":null}"#,
            r#"{"index":$index,"delta":{},"logprobs":null,"finish_reason":"content_filter"}"#,
        ],
        ..VLLM.chat
    },
    completions: Words {
        text: &[
            r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":null}"#,
            r#"{"index":$index,"text":"","logprobs":null,"finish_reason":"content_filter"}"#,
        ],
        ..VLLM.completions
    },
    ..VLLM
};

/// All tool calls are begun before the arguments of the first come: fragments go by their index.
pub(in super::super) const CALLS_FIRST: Habits = Habits {
    calls_first: true,
    ..VLLM
};

/// A server that does not stream.
pub(in super::super) const JSON_REPLY: Habits = Habits {
    stream: Some(false),
    ..VLLM
};

/// A server that always streams, with the usage.
pub(in super::super) const SSE_REPLY: Habits = Habits {
    stream: Some(true),
    usage_unasked: true,
    ..VLLM
};
