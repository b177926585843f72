//! JSON that is looked into one level at a time.
//!
//! A value stays the text that it was read from. So what nobody asks for costs
//! nothing but being skipped, nesting has no limit, and every value knows where in
//! its document it stands, which is how records are kept to the byte.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// One value, as the text that it stands as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// A value of a text that is known to be one.
    pub fn of(text: &'a str) -> Self {
        Self(text.trim_ascii())
    }

    /// The text itself.
    pub fn raw(self) -> &'a str {
        self.0
    }

    /// The members, if it is an object.
    pub fn fields(self) -> Option<Fields<'a>> {
        if !self.0.starts_with('{') {
            return None;
        }
        serde_json::from_str(self.0).ok()
    }

    /// The elements, if it is an array.
    pub fn items(self) -> Option<Vec<Json<'a>>> {
        if !self.0.starts_with('[') {
            return None;
        }
        serde_json::from_str::<Items<'a>>(self.0)
            .ok()
            .map(|items| items.0)
    }

    /// A member of an object.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        self.fields()?.get(key)
    }

    /// A text, its escapes undone. A lone surrogate, which JavaScript writes where a
    /// text was cut inside a character, is read as the replacement character.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        let text = serde_json::from_str::<String>(self.0)
            .or_else(|_| serde_json::from_str(&mend_surrogates(self.0)));
        text.ok().map(Cow::Owned)
    }

    /// A whole number from 0 on. One that is written with a fraction is cut.
    pub fn number(self) -> Option<u64> {
        let number: f64 = match self.0.parse::<u64>() {
            Ok(number) => return Some(number),
            Err(_) => self.0.parse().ok()?,
        };
        (number >= 0.0 && number < u64::MAX as f64).then_some(number as u64)
    }

    pub fn is_true(self) -> bool {
        self.0 == "true"
    }

    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub fn is_text(self) -> bool {
        self.0.starts_with('"')
    }

    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// As JavaScript's `JSON.stringify` prints it; as it stands where it is nested
    /// too deep to be taken apart.
    pub fn stringified(self) -> String {
        match parse(self.0.as_bytes()) {
            Ok(value) => js_json(&value),
            Err(_) => self.0.into(),
        }
    }
}

/// The members of an object, in order.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Fields<'a> {
    /// A member. Of several of one name the last counts, as in JavaScript.
    pub fn get(&self, key: &str) -> Option<Json<'a>> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    }

    /// A member that is a text.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key)?.text()
    }

    /// A member that is a whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.number()
    }

    /// Whether a member is there and true.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(Json::is_true)
    }

    /// Whether there is a member of this name, and not null.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !value.is_null())
    }
}

/// Parse a text that should be one object; the error says what is wrong with it.
pub(crate) fn object(text: &str) -> Result<Fields<'_>, String> {
    if !text.trim_start().starts_with('{') {
        // What is no object may still be no JSON, which says more.
        return match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Err("not a JSON object".into()),
            Err(error) => Err(told(&error)),
        };
    }
    serde_json::from_str(text).map_err(|error| told(&error))
}

/// A parser's error without its line, which is always 1 here.
pub(crate) fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

struct Items<'a>(Vec<Json<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'a RawValue = Deserialize::deserialize(deserializer)?;
        Ok(Self(raw.get()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

/// A member's name, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.into())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Parse JSON to the end. A lone surrogate, which JavaScript writes where a text was cut
/// inside a character, is read as the replacement character.
pub fn parse(text: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => serde_json::from_str(&mend_surrogates(text)).map_err(|_| told(&error)),
    }
}

/// A value as JavaScript's `JSON.stringify` prints it, by which unknown blocks
/// and tool schemas are priced.
pub fn js_json(value: &Value) -> String {
    let mut out = String::new();
    write_js(&mut out, value);
    out
}

fn write_js(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) => {
            let mut buffer = ryu_js::Buffer::new();
            out.push_str(buffer.format(number.as_f64().unwrap_or(f64::NAN)));
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_js(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, item)) in in_js_order(fields).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_js(out, item);
            }
            out.push('}');
        }
        // Texts are escaped alike by both.
        other => out.push_str(&other.to_string()),
    }
}

/// JavaScript lists keys that look like array indices first, by number.
fn in_js_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let index = |key: &str| {
        let number: u32 = key.parse().ok().filter(|n| *n < u32::MAX)?;
        (number.to_string() == key).then_some(number)
    };
    let (mut indices, names): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(key, _)| index(key).is_some());
    indices.sort_by_key(|(key, _)| index(key));
    indices.into_iter().chain(names).collect()
}

fn mend_surrogates(text: &str) -> String {
    let unit = |at: usize| -> Option<u16> {
        let escape = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let escape = at + found;
        out.push_str(&text[at..escape]);
        let (length, lone) = match unit(escape) {
            Some(0xD800..=0xDBFF) => match unit(escape + 6) {
                Some(0xDC00..=0xDFFF) => (12, false),
                _ => (6, true),
            },
            Some(0xDC00..=0xDFFF) => (6, true),
            Some(_) => (6, false),
            // An escape of another kind: the character after the backslash goes
            // with it.
            None => (
                1 + text[escape + 1..].chars().next().map_or(0, char::len_utf8),
                false,
            ),
        };
        at = escape + length;
        out.push_str(if lone { "\\ufffd" } else { &text[escape..at] });
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_json_as_javascript_does() {
        let text =
            r#"{"b":1.0,"10":1e3,"2":"\u00e9\u2028\u0001","a":[1.5e21,-0.0,true,null,0.000001]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected =
            "{\"2\":\"é\u{2028}\\u0001\",\"10\":1000,\"b\":1,\"a\":[1.5e+21,0,true,null,0.000001]}";
        assert_eq!(js_json(&value), expected);
    }

    #[test]
    fn reads_texts_that_javascript_cut_inside_a_character() {
        let line = r#"{"a":"\ud83d\ude00 \ud83d \ude00 \\ud83d \u00e9"}"#;
        let expected = "😀 \u{fffd} \u{fffd} \\ud83d é";
        assert_eq!(parse(line.as_bytes()).unwrap()["a"], expected);
        assert_eq!(Json::of(line).get("a").unwrap().text().unwrap(), expected);
        assert!(parse(b"{\"a\":\"\\ud83d\"").is_err());
    }

    #[test]
    fn looks_into_what_is_nested_deeper_than_a_parser_goes() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = format!(r#"{{"type":"a","deep":{deep},"type":"b"}}"#);
        let fields = object(&text).unwrap();
        assert_eq!(fields.text("type").unwrap(), "b");
        assert_eq!(fields.get("deep").unwrap().raw(), deep);
        assert_eq!(fields.get("deep").unwrap().stringified(), deep);
    }
}
