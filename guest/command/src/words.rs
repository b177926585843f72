//! How figures and results read.

use harness_compact_engine::{ContentBlock, Measurement};
use serde_json::{Value, json};

/// A number as people read it.
pub fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A measurement as the documented JSON has it.
pub fn measurement_json(measurement: &Measurement) -> Value {
    json!({
        "totalTokens": measurement.total_tokens,
        "surfaceTokens": measurement.surface_tokens,
        "thresholdTokens": measurement.threshold_tokens,
        "contextWindow": measurement.context_window,
        "nodes": measurement.nodes,
    })
}

/// The texts of a content, a line each.
pub fn texts(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
