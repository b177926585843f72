//! The blocks of messages, as the providers' interfaces and the programs write
//! them. A block of a kind that is not known is kept as its JSON; pictures and
//! documents are told by kind and size, never by their base64.

use harness_compact_engine::{
    ContentBlock, Image, Opaque, ResultBlock, ToolCall, ToolResult, Usage,
};

use crate::json::{Fields, Json};

pub(crate) fn text(text: impl Into<String>) -> ContentBlock {
    ContentBlock::Text(text.into())
}

/// The texts of blocks, one after the other.
pub(crate) fn texts(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn opaque(block: Json<'_>, kind: &str) -> ContentBlock {
    ContentBlock::Opaque(Opaque {
        kind: kind.into(),
        json: block.stringified(),
    })
}

/// What stands for bytes that only their provider can read: that they are there.
pub(crate) fn sealed(kind: &str) -> ContentBlock {
    ContentBlock::Opaque(Opaque {
        kind: kind.into(),
        json: format!("{{\"type\":\"{kind}\"}}"),
    })
}

/// A picture or a document; `data` is its base64 or a `data:` URL.
pub(crate) fn media(media_type: Option<&str>, data: Option<Json<'_>>) -> ContentBlock {
    // The raw length is that of the text but for its quotes: base64 has no escapes.
    let (mut kind, mut length) = (media_type.map(str::to_owned), 0);
    if let Some(data) = data {
        let raw = data.raw().trim_matches('"');
        let base64 = match raw
            .strip_prefix("data:")
            .and_then(|url| url.split_once(','))
        {
            Some((head, base64)) => {
                let named = head.split(';').next().filter(|name| !name.is_empty());
                kind = kind.or(named.map(str::to_owned));
                base64
            }
            // An address elsewhere says nothing of a size.
            None if raw.starts_with("http") || raw.starts_with("gs:") => "",
            None => raw,
        };
        length = match data.is_text() {
            true => base64.len() as u64 * 3 / 4,
            // Bytes, as JSON.stringify leaves them: an object or an array of numbers.
            false => raw.bytes().filter(|byte| *byte == b',').count() as u64 + 1,
        };
    }
    ContentBlock::Image(Image {
        media_type: kind.unwrap_or_else(|| "image".into()),
        byte_length: u32::try_from(length).unwrap_or(u32::MAX),
    })
}

pub(crate) fn call(
    id: impl Into<String>,
    name: impl Into<String>,
    arguments: Option<Json<'_>>,
) -> ContentBlock {
    let arguments = arguments.map(|arguments| match arguments.text() {
        Some(text) => text.into_owned(),
        None => arguments.stringified(),
    });
    ContentBlock::ToolCall(ToolCall {
        call_id: id.into(),
        name: name.into(),
        arguments: arguments.unwrap_or_else(|| "{}".into()),
    })
}

pub(crate) fn result(
    id: impl Into<String>,
    is_error: bool,
    content: Vec<ContentBlock>,
) -> ContentBlock {
    let content = content
        .into_iter()
        .map(|block| as_result(block, String::new));
    ContentBlock::ToolResult(ToolResult {
        call_id: id.into(),
        is_error,
        content: content.collect(),
    })
}

/// A block as a result can hold it; one that holds blocks itself as its JSON.
pub(crate) fn as_result(block: ContentBlock, json: impl FnOnce() -> String) -> ResultBlock {
    let kind = match block {
        ContentBlock::Text(text) => return ResultBlock::Text(text),
        ContentBlock::Reasoning(text) => return ResultBlock::Reasoning(text),
        ContentBlock::Image(image) => return ResultBlock::Image(image),
        ContentBlock::Opaque(opaque) => return ResultBlock::Opaque(opaque),
        ContentBlock::ToolCall(_) => "tool-call",
        ContentBlock::ToolResult(_) => "tool-result",
    };
    ResultBlock::Opaque(Opaque {
        kind: kind.into(),
        json: json(),
    })
}

/// The blocks of a `content` that is a text or a list; nothing of anything else.
pub(crate) fn blocks(
    content: Option<Json<'_>>,
    block: impl Fn(&Fields<'_>, Json<'_>) -> ContentBlock,
) -> Vec<ContentBlock> {
    let Some(content) = content else {
        return Vec::new();
    };
    if let Some(whole) = content.text() {
        return vec![text(whole)];
    }
    let items = content.items().unwrap_or_default();
    let read = |item: Json<'_>| match item.fields() {
        Some(fields) => block(&fields, item),
        None => match item.text() {
            Some(whole) => text(whole),
            None => opaque(item, "unknown"),
        },
    };
    items.into_iter().map(read).collect()
}

fn kind<'a>(fields: &Fields<'a>) -> std::borrow::Cow<'a, str> {
    fields.text("type").unwrap_or("unknown".into())
}

fn string(fields: &Fields<'_>, key: &str) -> String {
    fields
        .text(key)
        .map(|text| text.into_owned())
        .unwrap_or_default()
}

/// A block of Anthropic's.
pub(crate) fn anthropic(fields: &Fields<'_>, block: Json<'_>) -> ContentBlock {
    match &*kind(fields) {
        "text" => text(string(fields, "text")),
        "thinking" => ContentBlock::Reasoning(string(fields, "thinking")),
        "redacted_thinking" => sealed("redacted_thinking"),
        "tool_use" => call(
            string(fields, "id"),
            string(fields, "name"),
            fields.get("input"),
        ),
        "tool_result" => result(
            string(fields, "tool_use_id"),
            fields.is_true("is_error"),
            blocks(fields.get("content"), anthropic),
        ),
        "image" | "document" => {
            let source = fields.get("source").and_then(Json::fields);
            let source = source.as_ref();
            let media_type = source.and_then(|source| source.text("media_type"));
            let data = source.and_then(|source| source.get("data").or(source.get("url")));
            // A document may also be plain text, which is priced as such.
            let plain = source.is_some_and(|s| s.text("type").is_some_and(|t| t == "text"));
            match (plain, data.and_then(Json::text)) {
                (true, Some(data)) => text(data),
                _ => media(media_type.as_deref(), data),
            }
        }
        other => opaque(block, other),
    }
}

/// A part of a message of OpenAI's chat completions.
pub(crate) fn openai_chat(fields: &Fields<'_>, block: Json<'_>) -> ContentBlock {
    match &*kind(fields) {
        "text" => text(string(fields, "text")),
        "refusal" => text(string(fields, "refusal")),
        "image_url" => {
            let url = fields.get("image_url");
            media(None, url.and_then(|url| url.get("url").or(Some(url))))
        }
        "input_audio" => {
            let audio = fields.get("input_audio");
            media(Some("audio"), audio.and_then(|audio| audio.get("data")))
        }
        "file" => {
            let file = fields.get("file");
            media(Some("file"), file.and_then(|file| file.get("file_data")))
        }
        other => opaque(block, other),
    }
}

/// A part of a message of OpenAI's Responses.
pub(crate) fn responses(fields: &Fields<'_>, block: Json<'_>) -> ContentBlock {
    match &*kind(fields) {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            text(string(fields, "text"))
        }
        "refusal" => text(string(fields, "refusal")),
        "input_image" => media(None, fields.get("image_url")),
        "input_file" => media(
            Some("file"),
            fields.get("file_data").or(fields.get("file_url")),
        ),
        "input_audio" => media(Some("audio"), fields.get("data")),
        other => opaque(block, other),
    }
}

/// Who an item of OpenAI's Responses belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Instructions, which stand outside the conversation.
    Envelope,
    User,
    Assistant,
    Result,
}

pub(crate) fn item_side(item: &Fields<'_>) -> Option<Side> {
    let kind = item.text("type");
    let role = item.text("role");
    match (kind.as_deref(), role.as_deref()) {
        (None | Some("message"), Some("system" | "developer")) => Some(Side::Envelope),
        (None | Some("message"), Some("user")) => Some(Side::User),
        (None | Some("message"), Some("assistant")) => Some(Side::Assistant),
        (None | Some("message"), _) => None,
        // What stands for what was said before it, sealed: nobody but the provider can
        // condense it further, so it stays.
        (Some("compaction" | "compaction_summary"), _) => Some(Side::Envelope),
        (Some("ghost_snapshot" | "compaction_trigger"), _) => None,
        (Some(kind), _) if kind.ends_with("_output") => Some(Side::Result),
        (Some(_), _) => Some(Side::Assistant),
    }
}

/// The content of an item of OpenAI's Responses.
pub(crate) fn responses_item(item: Json<'_>) -> Vec<ContentBlock> {
    let Some(fields) = item.fields() else {
        return Vec::new();
    };
    let id = || {
        let id = fields.text("call_id").or_else(|| fields.text("id"));
        id.map(|id| id.into_owned()).unwrap_or_default()
    };
    let kind = fields.text("type").unwrap_or("message".into());
    match &*kind {
        "message" => blocks(fields.get("content"), responses),
        "function_call" => vec![call(id(), string(&fields, "name"), fields.get("arguments"))],
        "custom_tool_call" => vec![call(id(), string(&fields, "name"), fields.get("input"))],
        "local_shell_call" | "shell_call" | "computer_call" | "apply_patch_call" => {
            let did = fields.get("action").or(fields.get("operation"));
            vec![call(id(), kind.trim_end_matches("_call"), did)]
        }
        "tool_search_call" if fields.has("call_id") => {
            vec![call(id(), "tool_search", fields.get("arguments"))]
        }
        "reasoning" => {
            let mut told = blocks(fields.get("summary"), responses);
            told.extend(blocks(fields.get("content"), responses));
            let mut content: Vec<ContentBlock> = Vec::new();
            if !told.is_empty() {
                content.push(ContentBlock::Reasoning(texts(&told)));
            }
            if fields.has("encrypted_content") {
                content.push(sealed("encrypted_reasoning"));
            }
            content
        }
        "image_generation_call" => vec![media(Some("image/png"), fields.get("result"))],
        kind if kind.ends_with("_output") => {
            let output = fields.get("output").or(fields.get("tools"));
            // Older files wrap it: `{content, success}`.
            let wrapped = output.and_then(Json::fields);
            let (output, failed) = match &wrapped {
                Some(wrapped) if wrapped.get("content").is_some() => (
                    wrapped.get("content"),
                    wrapped.get("success").is_some_and(|ok| ok.raw() == "false"),
                ),
                _ => (output, false),
            };
            let content = match output {
                Some(output) if output.is_object() => vec![text(output.stringified())],
                output => blocks(output, responses),
            };
            vec![result(id(), failed, content)]
        }
        other => vec![opaque(item, other)],
    }
}

/// A part of a message of the AI SDK's.
pub(crate) fn ai_sdk(fields: &Fields<'_>, block: Json<'_>) -> ContentBlock {
    match &*kind(fields) {
        "text" => text(string(fields, "text")),
        "reasoning" => ContentBlock::Reasoning(string(fields, "text")),
        "tool-call" => call(
            string(fields, "toolCallId"),
            string(fields, "toolName"),
            fields.get("input").or(fields.get("args")),
        ),
        "tool-result" => {
            let output = fields.get("output").and_then(Json::fields);
            let kind = output.as_ref().and_then(|output| output.text("type"));
            let value = output.as_ref().and_then(|output| output.get("value"));
            let failed = matches!(kind.as_deref(), Some("error-text" | "error-json"));
            let content = match (kind.as_deref(), value) {
                (Some("content"), value) => blocks(value, ai_sdk),
                (_, Some(value)) => match value.text() {
                    Some(value) => vec![text(value)],
                    None => vec![text(value.stringified())],
                },
                (_, None) => match fields.get("result") {
                    Some(result) => vec![text(result.stringified())],
                    None => Vec::new(),
                },
            };
            result(string(fields, "toolCallId"), failed, content)
        }
        "image" => media(fields.text("mediaType").as_deref(), fields.get("image")),
        "file" | "media" | "file-data" | "image-data" => {
            media(fields.text("mediaType").as_deref(), fields.get("data"))
        }
        other => opaque(block, other),
    }
}

/// A part of a message of Gemini's; `None` where it says nothing.
pub(crate) fn gemini(fields: &Fields<'_>, part: Json<'_>) -> ContentBlock {
    if let Some(said) = fields.text("text") {
        return match fields.is_true("thought") {
            true => ContentBlock::Reasoning(said.into_owned()),
            false => text(said),
        };
    }
    if let Some(made) = fields.get("functionCall").and_then(Json::fields) {
        return call(string(&made, "id"), string(&made, "name"), made.get("args"));
    }
    if let Some(answer) = fields.get("functionResponse").and_then(Json::fields) {
        let response = answer.get("response");
        let response = response.and_then(|response| response.get("output").or(Some(response)));
        let mut content = match response {
            Some(output) => vec![text(match output.text() {
                Some(output) => output.into_owned(),
                None => output.stringified(),
            })],
            None => Vec::new(),
        };
        content.extend(blocks(answer.get("parts"), gemini));
        return result(string(&answer, "id"), false, content);
    }
    for key in ["inlineData", "fileData"] {
        if let Some(data) = fields.get(key).and_then(Json::fields) {
            let media_type = data.text("mimeType");
            return media(media_type.as_deref(), data.get("data"));
        }
    }
    opaque(part, "part")
}

/// A block of pi's.
pub(crate) fn pi(fields: &Fields<'_>, block: Json<'_>) -> ContentBlock {
    match &*kind(fields) {
        "text" => text(string(fields, "text")),
        "thinking" => ContentBlock::Reasoning(string(fields, "thinking")),
        "toolCall" => call(
            string(fields, "id"),
            string(fields, "name"),
            fields.get("arguments"),
        ),
        "image" => media(fields.text("mimeType").as_deref(), fields.get("data")),
        other => opaque(block, other),
    }
}

/// A figure of usage, as large as it can be told.
pub(crate) fn tokens(figure: Option<u64>) -> u32 {
    u32::try_from(figure.unwrap_or(0)).unwrap_or(u32::MAX)
}

/// Usage where what was read from the cache is part of the input, as OpenAI and
/// Gemini count.
pub(crate) fn inclusive_usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: tokens(Some(input.saturating_sub(cached))),
        output_tokens: tokens(Some(output)),
        cache_read_tokens: tokens(Some(cached.min(input))),
        cache_write_tokens: 0,
    }
}
