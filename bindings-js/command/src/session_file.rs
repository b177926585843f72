//! A session file for JavaScript: events cross as postcard, by the schema that the
//! package checks what hosts answer with.

use harness_compact_command::{Extract, SharedSession};
use harness_compact_engine::{Draft, Seq};
use harness_compact_formats::{Figures, Form, ReadOptions, Session, Stamp, Write};
use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;

/// A session of a document. Every error that it throws is a text.
#[wasm_bindgen]
pub struct FileSession(SharedSession);

impl FileSession {
    pub fn of(session: SharedSession) -> Self {
        Self(session)
    }
}

/// What is to be written: behind what is there, or in its place.
#[wasm_bindgen]
pub struct FileWrite {
    /// Whether it comes behind what is there.
    #[wasm_bindgen(readonly)]
    pub append: bool,
    /// From where on what is there is torn, and gives way.
    #[wasm_bindgen(readonly)]
    pub cut: Option<f64>,
    bytes: Vec<u8>,
}

#[wasm_bindgen]
impl FileWrite {
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Uint8Array {
        Uint8Array::from(&self.bytes[..])
    }
}

fn options(form: Option<String>, skip_damaged: bool) -> Result<ReadOptions, JsValue> {
    let form = match form {
        None => None,
        Some(name) => Some(Form::named(&name).ok_or_else(|| {
            let names = Form::names().join(", ");
            JsValue::from_str(&format!("{name} is no form; there are {names}"))
        })?),
    };
    Ok(ReadOptions { form, skip_damaged })
}

#[wasm_bindgen]
impl FileSession {
    pub fn open(
        bytes: Vec<u8>,
        form: Option<String>,
        skip_damaged: bool,
    ) -> Result<FileSession, JsValue> {
        let session = Session::read(bytes, options(form, skip_damaged)?);
        let session = session.map_err(|fault| JsValue::from_str(&fault.to_string()))?;
        Ok(Self(SharedSession::of(session)))
    }

    pub fn form(&self) -> String {
        self.0.lock().form().name().into()
    }

    pub fn id(&self) -> Option<String> {
        self.0.lock().id().map(str::to_owned)
    }

    pub fn cwd(&self) -> Option<String> {
        self.0.lock().cwd().map(str::to_owned)
    }

    #[wasm_bindgen(js_name = contextWindow)]
    pub fn context_window(&self) -> Option<u32> {
        self.0.lock().context_window()
    }

    pub fn remarks(&self) -> Vec<String> {
        let session = self.0.lock();
        session.remarks().iter().map(ToString::to_string).collect()
    }

    pub fn head(&self) -> Seq {
        self.0.lock().head()
    }

    pub fn read(&self, start: Seq, limit: u32) -> Result<Vec<u8>, JsValue> {
        let events = self.0.lock().events(start, limit);
        let events = events.map_err(|error| JsValue::from_str(&error.to_string()))?;
        Ok(postcard::to_allocvec(&events).unwrap_or_default())
    }

    /// A conflict is thrown as the head that there is.
    pub fn append(&self, drafts: &[u8], expected_head: Option<Seq>) -> Result<Seq, JsValue> {
        use harness_compact_engine::SessionError;
        let drafts: Vec<Draft> = postcard::from_bytes(drafts)
            .map_err(|_| JsValue::from_str("the events cannot be read"))?;
        let appended = self.0.lock().append(&drafts, expected_head);
        appended.map_err(|error| match error {
            SessionError::Conflict(head) => head.into(),
            error => JsValue::from_str(&error.to_string()),
        })
    }

    /// The surface, by the seqs of its nodes.
    pub fn surface(&self) -> Vec<Seq> {
        self.0.lock().surface().to_vec()
    }

    /// The document's own records that a node comes from.
    pub fn records(&self, seq: Seq) -> Vec<String> {
        let session = self.0.lock();
        session
            .records(seq)
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    /// What these nodes amount to, without a model.
    pub fn extract(&self, nodes: &[Seq], max_tokens: Option<u32>) -> String {
        let mut extract = Extract::default();
        let session = self.0.lock();
        for seq in nodes {
            for event in session.events(*seq, 1).unwrap_or_default() {
                extract.take(&event.payload);
            }
        }
        extract.finish(max_tokens)
    }

    /// Whether the document is still these bytes.
    #[wasm_bindgen(js_name = isOf)]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.0.lock().bytes() == bytes
    }

    /// Take over what was appended to a document that has changed; false where what
    /// it replaces is no longer there.
    pub fn rebase(&self, bytes: Vec<u8>) -> bool {
        let mut session = self.0.lock();
        match session.rebased(bytes) {
            Some(rebased) => {
                *session = rebased;
                true
            }
            None => false,
        }
    }

    /// The session anew, of what is in the file now that it was written.
    pub fn reopen(&self, bytes: Vec<u8>) -> Result<(), JsValue> {
        let mut session = self.0.lock();
        let options = ReadOptions {
            form: Some(session.form()),
            skip_damaged: true,
        };
        let anew = Session::read(bytes, options);
        *session = anew.map_err(|fault| JsValue::from_str(&fault.to_string()))?;
        Ok(())
    }

    pub fn write(
        &self,
        now: f64,
        random: &[u8],
        before: u32,
        after: u32,
    ) -> Result<Option<FileWrite>, JsValue> {
        let seed = random.try_into().unwrap_or_default();
        let mut stamp = Stamp::new(now as u64, seed);
        let session = self.0.lock();
        let length = session.bytes().len();
        let write = session.write(&mut stamp, Figures { before, after });
        let write = write.map_err(|refusal| JsValue::from_str(&refusal.to_string()))?;
        Ok(write.map(|write| match write {
            Write::Append { keep, bytes } => FileWrite {
                append: true,
                cut: (keep < length).then_some(keep as f64),
                bytes,
            },
            Write::Whole(bytes) => FileWrite {
                append: false,
                cut: None,
                bytes,
            },
        }))
    }
}
