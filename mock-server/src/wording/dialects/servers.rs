//! How servers and gateways word their answers.

use super::super::habits::{
    Block, Cut, Habits, Http, Lines, NoUsage, Spelling, Transfer, UsageAt, Words,
};
use super::super::letters::Letters;

const VLLM_CHAT: Words = Words {
    greeting: &[],
    chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"choices":[@]$usage_field}"#,
    open: &[
        r#"{"index":$index,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
    ],
    reasoning: &[
        r#"{"index":$index,"delta":{"reasoning":"$text"},"logprobs":null,"finish_reason":null}"#,
    ],
    text: &[
        r#"{"index":$index,"delta":{"content":"$text"},"logprobs":$logprobs,"finish_reason":null}"#,
    ],
    call: &[
        r#"{"index":$index,"delta":{"tool_calls":[{"id":"$call_id","type":"function","index":$call,"function":{"name":"$call_name","arguments":"$text"}}]},"logprobs":null,"finish_reason":null}"#,
    ],
    arguments: &[
        r#"{"index":$index,"delta":{"tool_calls":[{"index":$call,"function":{"arguments":"$text"}}]},"logprobs":null,"finish_reason":null}"#,
    ],
    finish: &[
        r#"{"index":$index,"delta":{},"logprobs":null,"finish_reason":$finish,"stop_reason":$stop}"#,
    ],
    usage_chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"choices":[],"usage":$usage}"#,
    whole: r#"{"id":"chatcmpl-$id","object":"chat.completion","created":$created,"model":$model,"choices":[$choices],"usage":$usage}"#,
    whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":$content$whole_reasoning$whole_calls},"logprobs":$logprobs,"finish_reason":$finish,"stop_reason":$stop}"#,
    whole_reasoning: r#","reasoning":"$text""#,
    whole_call: r#"{"id":"$call_id","type":"function","function":{"name":"$call_name","arguments":"$text"}}"#,
};

const VLLM_COMPLETIONS: Words = Words {
    chunk: r#"{"id":"cmpl-$id","object":"text_completion","created":$created,"model":$model,"choices":[@]$usage_field}"#,
    open: &[],
    reasoning: &[r#"{"index":$index,"text":"$text","logprobs":null,"finish_reason":null}"#],
    text: &[r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":null}"#],
    call: &[],
    arguments: &[],
    finish: &[
        r#"{"index":$index,"text":"","logprobs":null,"finish_reason":$finish,"stop_reason":$stop}"#,
    ],
    usage_chunk: r#"{"id":"cmpl-$id","object":"text_completion","created":$created,"model":$model,"choices":[],"usage":$usage}"#,
    whole: r#"{"id":"cmpl-$id","object":"text_completion","created":$created,"model":$model,"choices":[$choices],"usage":$usage}"#,
    whole_choice: r#"{"index":$index,"text":"$whole_text","logprobs":$logprobs,"finish_reason":$finish,"stop_reason":$stop}"#,
    ..VLLM_CHAT
};

/// vLLM: the role first, then a chunk per step of the engine, the reason in a chunk of its own.
/// Reasoning is `reasoning`, as it has been called since late in 2025.
pub(in super::super) const VLLM: Habits = Habits {
    chat: VLLM_CHAT,
    completions: VLLM_COMPLETIONS,
    usage: r#"{"prompt_tokens":$prompt,"completion_tokens":$completion,"total_tokens":$total$cached_field$reasoning_field}"#,
    no_usage: NoUsage::Omitted,
    usage_at: UsageAt::Own,
    usage_unasked: false,
    usage_always: false,
    finish_with_last: false,
    calls_first: false,
    finish_word: None,
    incomplete: false,
    letters: Letters::Plain,
    lines: Lines {
        first: "",
        blocks: &[LF],
        done: Some("[DONE]"),
        late: &[],
    },
    http: Http {
        interim: "",
        version: "HTTP/1.1",
        stream_fields: "content-type: text/event-stream; charset=utf-8\r\n",
        chunked_fields: "transfer-encoding: chunked\r\n",
        transfer: Transfer::Chunked,
        whole_chunked: false,
        closes: false,
        cut: Cut::Event,
        spellings: &[Spelling {
            upper: false,
            digits_min: 1,
            extension: "",
        }],
        last_chunk: "0\r\n\r\n",
    },
    stream: None,
};

/// An event as almost everyone sends it.
pub(super) const LF: Block = Block {
    before: "",
    data: "data: ",
    eol: "\n",
    after: "\n\n",
    breaks: false,
};

/// OpenAI: every field is always there, and each chunk has padding of its own length.
pub(in super::super) const OPENAI: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"service_tier":"default","system_fingerprint":"fp_ridgeline","choices":[@]$usage_field,"obfuscation":"$serial"}"#,
        open: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}"#,
        ],
        finish: &[r#"{"index":$index,"delta":{},"logprobs":null,"finish_reason":$finish}"#],
        usage_chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"service_tier":"default","system_fingerprint":"fp_ridgeline","choices":[],"usage":$usage,"obfuscation":""}"#,
        whole: r#"{"id":"chatcmpl-$id","object":"chat.completion","created":$created,"model":$model,"choices":[$choices],"usage":$usage,"service_tier":"default","system_fingerprint":"fp_ridgeline"}"#,
        whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":$content$whole_reasoning$whole_calls,"refusal":null,"annotations":[]},"logprobs":$logprobs,"finish_reason":$finish}"#,
        ..VLLM_CHAT
    },
    completions: Words {
        finish: &[r#"{"index":$index,"text":"","logprobs":null,"finish_reason":$finish}"#],
        whole_choice: r#"{"text":"$whole_text","index":$index,"logprobs":$logprobs,"finish_reason":$finish}"#,
        ..VLLM_COMPLETIONS
    },
    usage: DETAILS,
    no_usage: NoUsage::NullIfAsked,
    incomplete: true,
    ..VLLM
};

/// A usage object whose details are always there.
const DETAILS: &str = r#"{"prompt_tokens":$prompt,"completion_tokens":$completion,"total_tokens":$total,"prompt_tokens_details":{"cached_tokens":$cached,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":$reasoning,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#;

/// Azure OpenAI: a chunk without choices says what was filtered of the prompt, before any token;
/// each choice says what was filtered of it.
pub(in super::super) const AZURE: Habits = Habits {
    chat: Words {
        greeting: &[
            r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}}}]}"#,
        ],
        chunk: r#"{"choices":[@],"created":$created,"id":"chatcmpl-$id","model":$model,"obfuscation":"$serial","object":"chat.completion.chunk","system_fingerprint":"fp_ridgeline"$usage_field}"#,
        open: &[
            r#"{"content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null,"index":$index,"logprobs":null}"#,
        ],
        reasoning: &[
            r#"{"content_filter_results":{},"delta":{"reasoning_content":"$text"},"finish_reason":null,"index":$index,"logprobs":null}"#,
        ],
        text: &[
            r#"{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":"$text"},"finish_reason":null,"index":$index,"logprobs":$logprobs}"#,
        ],
        call: &[
            r#"{"content_filter_results":{},"delta":{"tool_calls":[{"function":{"arguments":"$text","name":"$call_name"},"id":"$call_id","index":$call,"type":"function"}]},"finish_reason":null,"index":$index,"logprobs":null}"#,
        ],
        arguments: &[
            r#"{"content_filter_results":{},"delta":{"tool_calls":[{"function":{"arguments":"$text"},"index":$call}]},"finish_reason":null,"index":$index,"logprobs":null}"#,
        ],
        finish: &[
            r#"{"content_filter_results":{},"delta":{},"finish_reason":$finish,"index":$index,"logprobs":null}"#,
        ],
        usage_chunk: r#"{"choices":[],"created":$created,"id":"chatcmpl-$id","model":$model,"obfuscation":"","object":"chat.completion.chunk","system_fingerprint":"fp_ridgeline","usage":$usage}"#,
        whole: r#"{"choices":[$choices],"created":$created,"id":"chatcmpl-$id","model":$model,"object":"chat.completion","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}],"system_fingerprint":"fp_ridgeline","usage":$usage}"#,
        whole_choice: r#"{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"finish_reason":$finish,"index":$index,"logprobs":$logprobs,"message":{"annotations":[],"content":$content,"refusal":null,"role":"assistant"$whole_reasoning$whole_calls}}"#,
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    completions: Words {
        greeting: &[
            r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
        ],
        text: &[
            r#"{"text":"$text","index":$index,"finish_reason":null,"logprobs":$logprobs,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}"#,
        ],
        finish: &[
            r#"{"text":"","index":$index,"finish_reason":$finish,"logprobs":null,"content_filter_results":{}}"#,
        ],
        ..OPENAI.completions
    },
    ..OPENAI
};

/// The same, where the answer itself was filtered.
pub(in super::super) const AZURE_FILTERED: Habits = Habits {
    finish_word: Some("content_filter"),
    ..AZURE
};

/// OpenRouter: comments until a provider answers, the role in every chunk, two names for the
/// reason, and a usage chunk that has a choice.
pub(in super::super) const OPENROUTER: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"gen-$id","provider":"Ridgeline","model":$model,"object":"chat.completion.chunk","created":$created,"choices":[@]$usage_field}"#,
        open: &[],
        reasoning: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","reasoning":"$text","reasoning_details":[{"type":"reasoning.text","text":"$text","format":"unknown","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"$text"},"finish_reason":null,"native_finish_reason":null,"logprobs":$logprobs}"#,
        ],
        call: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":null,"tool_calls":[{"id":"$call_id","index":$call,"type":"function","function":{"name":"$call_name","arguments":"$text"}}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}"#,
        ],
        arguments: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":$call,"type":"function","function":{"arguments":"$text"}}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}"#,
        ],
        finish: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":""},"finish_reason":$finish,"native_finish_reason":$finish,"logprobs":null}"#,
        ],
        usage_chunk: r#"{"id":"gen-$id","provider":"Ridgeline","model":$model,"object":"chat.completion.chunk","created":$created,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":$usage}"#,
        whole: r#"{"id":"gen-$id","provider":"Ridgeline","model":$model,"object":"chat.completion","created":$created,"choices":[$choices],"usage":$usage}"#,
        whole_choice: r#"{"logprobs":$logprobs,"finish_reason":$finish,"native_finish_reason":$finish,"index":$index,"message":{"role":"assistant","content":$content,"refusal":null$whole_reasoning$whole_calls}}"#,
        ..VLLM_CHAT
    },
    completions: Words {
        chunk: r#"{"id":"gen-$id","provider":"Ridgeline","model":$model,"object":"text_completion","created":$created,"choices":[@]$usage_field}"#,
        ..OPENAI.completions
    },
    usage: DETAILS,
    lines: Lines {
        first: ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n:\n\n",
        ..VLLM.lines
    },
    ..VLLM
};

/// The LiteLLM proxy: the role with the first text, and a usage chunk with an empty delta.
pub(in super::super) const LITELLM: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"chatcmpl-$id","created":$created,"model":$model,"object":"chat.completion.chunk","choices":[@]$usage_field}"#,
        open: &[],
        reasoning: &[
            r#"{"index":$index,"delta":{"reasoning_content":"$text","role":"assistant"}}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"content":"$text","role":"assistant"},"logprobs":$logprobs}"#,
        ],
        finish: &[r#"{"finish_reason":$finish,"index":$index,"delta":{}}"#],
        usage_chunk: r#"{"id":"chatcmpl-$id","created":$created,"model":$model,"object":"chat.completion.chunk","choices":[{"index":0,"delta":{}}],"usage":$usage}"#,
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    usage: r#"{"completion_tokens":$completion,"prompt_tokens":$prompt,"total_tokens":$total,"completion_tokens_details":{"reasoning_tokens":$reasoning},"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":$cached}}"#,
    ..VLLM
};

/// `transformers serve`: the role alone, the usage always and on the chunk that ends the choice, no
/// `[DONE]`.
pub(in super::super) const TRANSFORMERS: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"$id","choices":[@],"created":$created,"model":$model,"object":"chat.completion.chunk","system_fingerprint":""$usage_field}"#,
        open: &[r#"{"delta":{"role":"assistant"},"index":$index}"#],
        reasoning: &[r#"{"delta":{"reasoning_content":"$text"},"index":$index}"#],
        text: &[r#"{"delta":{"content":"$text"},"index":$index,"logprobs":$logprobs}"#],
        finish: &[r#"{"delta":{},"finish_reason":$finish,"index":$index}"#],
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    usage_at: UsageAt::Finish,
    usage_unasked: true,
    lines: Lines {
        done: None,
        ..VLLM.lines
    },
    ..VLLM
};

/// SGLang: the role with an empty content, every field there and null, what stopped it under
/// another name, and `reasoning_content`.
pub(in super::super) const SGLANG: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"$id","object":"chat.completion.chunk","created":$created,"model":$model,"choices":[@]$usage_field}"#,
        open: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
        ],
        reasoning: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"reasoning_content":"$text","tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"role":null,"content":"$text","reasoning_content":null,"tool_calls":null},"logprobs":$logprobs,"finish_reason":null,"matched_stop":null}"#,
        ],
        call: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":"$call_id","index":$call,"type":"function","function":{"name":"$call_name","arguments":"$text"}}]},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
        ],
        arguments: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":null,"index":$call,"type":"function","function":{"name":null,"arguments":"$text"}}]},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
        ],
        finish: &[
            r#"{"index":$index,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":$finish,"matched_stop":$stop}"#,
        ],
        usage_chunk: r#"{"id":"$id","object":"chat.completion.chunk","created":$created,"model":$model,"choices":[],"usage":$usage}"#,
        whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":$content$whole_reasoning$whole_calls},"logprobs":$logprobs,"finish_reason":$finish,"matched_stop":$stop}"#,
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    completions: Words {
        text: &[
            r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":null,"matched_stop":null}"#,
        ],
        finish: &[
            r#"{"index":$index,"text":"","logprobs":null,"finish_reason":$finish,"matched_stop":$stop}"#,
        ],
        ..VLLM_COMPLETIONS
    },
    usage: r#"{"prompt_tokens":$prompt,"total_tokens":$total,"completion_tokens":$completion,"prompt_tokens_details":{"cached_tokens":$cached},"completion_tokens_details":{"reasoning_tokens":$reasoning},"reasoning_tokens":$reasoning}"#,
    no_usage: NoUsage::Null,
    ..VLLM
};

/// Text Generation Inference: no id, the role in every chunk, and the last token's chunk says why
/// the answer ends.
pub(in super::super) const TGI: Habits = Habits {
    chat: Words {
        chunk: r#"{"object":"chat.completion.chunk","id":"","created":$created,"model":$model,"system_fingerprint":"3.3.5-ridgeline","choices":[@]$usage_field}"#,
        open: &[],
        reasoning: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","reasoning_content":"$text"},"logprobs":null,"finish_reason":$finish}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"$text"},"logprobs":$logprobs,"finish_reason":$finish}"#,
        ],
        call: &[
            r#"{"index":$index,"delta":{"role":"assistant","tool_calls":[{"index":$call,"id":"$call_id","type":"function","function":{"name":"$call_name","arguments":"$text"}}]},"logprobs":null,"finish_reason":$finish}"#,
        ],
        arguments: &[
            r#"{"index":$index,"delta":{"role":"assistant","tool_calls":[{"index":$call,"id":"","type":"function","function":{"name":null,"arguments":"$text"}}]},"logprobs":null,"finish_reason":$finish}"#,
        ],
        finish: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":$finish}"#,
        ],
        usage_chunk: r#"{"object":"chat.completion.chunk","id":"","created":$created,"model":$model,"system_fingerprint":"3.3.5-ridgeline","choices":[],"usage":$usage}"#,
        whole: r#"{"object":"chat.completion","id":"","created":$created,"model":$model,"system_fingerprint":"3.3.5-ridgeline","choices":[$choices],"usage":$usage}"#,
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    completions: Words {
        chunk: r#"{"object":"text_completion","id":"","created":$created,"choices":[@],"model":$model,"system_fingerprint":"3.3.5-ridgeline"$usage_field}"#,
        text: &[r#"{"index":$index,"text":"$text","logprobs":$logprobs,"finish_reason":$finish}"#],
        ..VLLM_COMPLETIONS
    },
    usage: r#"{"prompt_tokens":$prompt,"completion_tokens":$completion,"total_tokens":$total}"#,
    no_usage: NoUsage::Null,
    finish_with_last: true,
    ..VLLM
};

/// llama.cpp's server: fields by name, `content` null with the role, and its timings in the usage
/// chunk.
pub(in super::super) const LLAMA_CPP: Habits = Habits {
    chat: Words {
        chunk: r#"{"choices":[@],"created":$created,"id":"chatcmpl-$id","model":$model,"system_fingerprint":"b6497-ridgeline","object":"chat.completion.chunk"$usage_field}"#,
        open: &[
            r#"{"finish_reason":null,"index":$index,"delta":{"role":"assistant","content":null}}"#,
        ],
        reasoning: &[
            r#"{"finish_reason":null,"index":$index,"delta":{"reasoning_content":"$text"}}"#,
        ],
        text: &[
            r#"{"finish_reason":null,"index":$index,"delta":{"content":"$text"},"logprobs":$logprobs}"#,
        ],
        call: &[
            r#"{"finish_reason":null,"index":$index,"delta":{"tool_calls":[{"index":$call,"id":"$call_id","type":"function","function":{"name":"$call_name","arguments":"$text"}}]}}"#,
        ],
        arguments: &[
            r#"{"finish_reason":null,"index":$index,"delta":{"tool_calls":[{"index":$call,"function":{"arguments":"$text"}}]}}"#,
        ],
        finish: &[r#"{"finish_reason":$finish,"index":$index,"delta":{}}"#],
        usage_chunk: r#"{"choices":[],"created":$created,"id":"chatcmpl-$id","model":$model,"system_fingerprint":"b6497-ridgeline","object":"chat.completion.chunk","usage":$usage,"timings":{"cache_n":$cached,"prompt_n":$prompt,"prompt_ms":180.025,"predicted_n":$completion,"predicted_ms":875.429,"predicted_per_second":35.411}}"#,
        whole_choice: r#"{"finish_reason":$finish,"index":$index,"message":{"role":"assistant"$whole_reasoning,"content":$content$whole_calls},"logprobs":$logprobs}"#,
        whole_reasoning: r#","reasoning_content":"$text""#,
        ..VLLM_CHAT
    },
    completions: Words {
        chunk: r#"{"choices":[@],"created":$created,"model":$model,"system_fingerprint":"b6497-ridgeline","object":"text_completion","id":"chatcmpl-$id"$usage_field}"#,
        text: &[r#"{"text":"$text","index":$index,"logprobs":$logprobs,"finish_reason":null}"#],
        finish: &[r#"{"text":"","index":$index,"logprobs":null,"finish_reason":$finish}"#],
        ..VLLM_COMPLETIONS
    },
    usage: r#"{"completion_tokens":$completion,"prompt_tokens":$prompt,"total_tokens":$total,"prompt_tokens_details":{"cached_tokens":$cached}}"#,
    ..VLLM
};

/// Ollama: a short id, the role in every chunk, reasoning under `reasoning`.
pub(in super::super) const OLLAMA: Habits = Habits {
    chat: Words {
        chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"system_fingerprint":"fp_ollama","choices":[@]$usage_field}"#,
        open: &[],
        reasoning: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","reasoning":"$text"},"finish_reason":null}"#,
        ],
        text: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"$text"},"finish_reason":null,"logprobs":$logprobs}"#,
        ],
        call: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"$call_id","index":$call,"type":"function","function":{"name":"$call_name","arguments":"$text"}}]},"finish_reason":null}"#,
        ],
        arguments: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":"","tool_calls":[{"index":$call,"function":{"arguments":"$text"}}]},"finish_reason":null}"#,
        ],
        finish: &[
            r#"{"index":$index,"delta":{"role":"assistant","content":""},"finish_reason":$finish}"#,
        ],
        usage_chunk: r#"{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":$model,"system_fingerprint":"fp_ollama","choices":[],"usage":$usage}"#,
        whole: r#"{"id":"chatcmpl-$id","object":"chat.completion","created":$created,"model":$model,"system_fingerprint":"fp_ollama","choices":[$choices],"usage":$usage}"#,
        whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":$content$whole_reasoning$whole_calls},"finish_reason":$finish,"logprobs":$logprobs}"#,
        ..VLLM_CHAT
    },
    usage: r#"{"prompt_tokens":$prompt,"completion_tokens":$completion,"total_tokens":$total}"#,
    ..VLLM
};

/// Proxies before Gemini: `[DONE]`, and no reason why a choice ends.
pub(in super::super) const GEMINI: Habits = Habits {
    chat: Words {
        finish: &[],
        whole_choice: r#"{"index":$index,"message":{"role":"assistant","content":$content$whole_reasoning$whole_calls},"logprobs":$logprobs,"finish_reason":null}"#,
        ..VLLM_CHAT
    },
    completions: Words {
        finish: &[],
        whole_choice: r#"{"index":$index,"text":"$whole_text","logprobs":$logprobs,"finish_reason":null}"#,
        ..VLLM_COMPLETIONS
    },
    ..VLLM
};

/// sse-starlette, which many gateways stand on: CRLF, and a ping now and then.
pub(in super::super) const SSE_STARLETTE: Habits = Habits {
    lines: Lines {
        blocks: &[
            CRLF,
            CRLF,
            CRLF,
            Block {
                before: ": ping - 2026-01-01 00:00:00.000000+00:00\r\n\r\n",
                ..CRLF
            },
        ],
        ..VLLM.lines
    },
    http: Http {
        stream_fields: "cache-control: no-store\r\nx-accel-buffering: no\r\ncontent-type: text/event-stream; charset=utf-8\r\n",
        ..VLLM.http
    },
    ..VLLM
};

/// An event that ends its lines with CRLF.
pub(super) const CRLF: Block = Block {
    before: "",
    data: "data: ",
    eol: "\r\n",
    after: "\r\n\r\n",
    breaks: false,
};
