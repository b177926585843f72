//! What JavaScript supplies to the command.

use harness_compact_command::{BackendOptions, Failure, SharedSession, Stat, System};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::prelude::*;

use crate::backend::OnSession;

#[wasm_bindgen]
extern "C" {
    /// Files, terminal and time. What fails throws a text.
    #[derive(Clone)]
    pub type JsSystem;
    /// At most this many bytes of a file, from an offset on.
    #[wasm_bindgen(method, structural, catch, js_name = readPart)]
    fn read_part(this: &JsSystem, path: &str, from: f64, most: u32) -> Result<Uint8Array, JsValue>;
    /// `[size, modified in microseconds, whether a folder]`, or nothing.
    #[wasm_bindgen(method, structural)]
    fn stat(this: &JsSystem, path: &str) -> Option<Vec<f64>>;
    #[wasm_bindgen(method, structural)]
    fn list(this: &JsSystem, folder: &str) -> Vec<String>;
    #[wasm_bindgen(method, structural)]
    fn real(this: &JsSystem, path: &str) -> Option<String>;
    #[wasm_bindgen(method, structural)]
    fn join(this: &JsSystem, folder: &str, name: &str) -> String;
    #[wasm_bindgen(method, structural)]
    fn folder(this: &JsSystem, path: &str) -> Option<String>;
    #[wasm_bindgen(method, structural)]
    fn name(this: &JsSystem, path: &str) -> String;
    #[wasm_bindgen(method, structural, catch)]
    fn lock(this: &JsSystem, path: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural)]
    fn unlock(this: &JsSystem, path: &str);
    #[wasm_bindgen(method, structural, catch)]
    fn append(this: &JsSystem, path: &str, cut: Option<f64>, bytes: &[u8]) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn replace(
        this: &JsSystem,
        path: &str,
        base: Option<String>,
        bytes: &[u8],
        like: &str,
    ) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural)]
    fn env(this: &JsSystem, name: &str) -> Option<String>;
    #[wasm_bindgen(method, structural)]
    fn home(this: &JsSystem) -> Option<String>;
    #[wasm_bindgen(method, structural)]
    fn cwd(this: &JsSystem) -> String;
    #[wasm_bindgen(method, structural)]
    fn now(this: &JsSystem) -> f64;
    #[wasm_bindgen(method, structural)]
    fn random(this: &JsSystem) -> Vec<u8>;
    #[wasm_bindgen(method, structural)]
    fn note(this: &JsSystem, line: &str);
    #[wasm_bindgen(method, structural)]
    fn progress(this: &JsSystem, doing: Option<String>);
    #[wasm_bindgen(method, structural)]
    pub fn aborted(this: &JsSystem) -> bool;
    /// Start a model call; kept with what has `next`, or with a text of JSON that
    /// says why not.
    #[wasm_bindgen(method, structural)]
    pub fn stream(this: &JsSystem, request: &str) -> Promise;
    /// A backend of somebody else's: kept with it, or with a text that says why not.
    #[wasm_bindgen(method, structural)]
    pub fn component(
        this: &JsSystem,
        file: &str,
        session: crate::session_file::FileSession,
        options: &str,
        config: Vec<u8>,
    ) -> Promise;
}

pub struct Js(JsSystem);

impl Js {
    pub fn new(system: JsSystem) -> Self {
        Self(system)
    }
}

/// What a function of JavaScript's threw, as a text.
pub fn thrown(error: JsValue) -> String {
    if let Some(text) = error.as_string() {
        return text;
    }
    let message = js_sys::Reflect::get(&error, &"message".into());
    let message = message.ok().and_then(|message| message.as_string());
    message.unwrap_or_else(|| format!("{error:?}"))
}

impl System for Js {
    type Backend = OnSession;

    /// Piece by piece, so that there are not two copies of a large file.
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        const PIECE: u32 = 1 << 22;
        let size = self.stat(path).map_or(0, |stat| stat.size);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // Memory that grows a page at a time is looked through by the collector each
        // time: room for the file and what is made of it is asked for at once. It costs
        // nothing until it is used.
        let mut room: Vec<u8> = Vec::new();
        let _ = room.try_reserve_exact(size.saturating_mul(2).saturating_add(16 << 20));
        drop(room);
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(size);
        room.map_err(|_| "it does not fit the memory".to_owned())?;
        loop {
            let from = bytes.len();
            let piece = self.0.read_part(path, from as f64, PIECE);
            let piece = piece.map_err(thrown)?;
            let length = piece.length() as usize;
            if length == 0 {
                return Ok(bytes);
            }
            bytes.resize(from + length, 0);
            piece.copy_to(&mut bytes[from..]);
        }
    }

    fn read_start(&self, path: &str, most: usize) -> Result<Vec<u8>, String> {
        let bytes = self.0.read_part(path, 0.0, most as u32);
        bytes.map(|bytes| bytes.to_vec()).map_err(thrown)
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        match self.0.stat(path)?[..] {
            [size, modified, folder] => Some(Stat {
                size: size as u64,
                modified_us: modified as u64,
                is_folder: folder != 0.0,
            }),
            _ => None,
        }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        self.0.list(folder)
    }

    fn real(&self, path: &str) -> Option<String> {
        self.0.real(path)
    }

    fn join(&self, folder: &str, name: &str) -> String {
        self.0.join(folder, name)
    }

    fn folder(&self, path: &str) -> Option<String> {
        self.0.folder(path)
    }

    fn name(&self, path: &str) -> String {
        self.0.name(path)
    }

    fn lock(&self, path: &str) -> Result<(), String> {
        self.0.lock(path).map_err(thrown)
    }

    fn unlock(&self, path: &str) {
        self.0.unlock(path);
    }

    fn append(&self, path: &str, cut: Option<u64>, bytes: &[u8]) -> Result<(), String> {
        let cut = cut.map(|cut| cut as f64);
        self.0.append(path, cut, bytes).map_err(thrown)
    }

    fn replace(
        &self,
        path: &str,
        base: Option<&str>,
        bytes: &[u8],
        like: &str,
    ) -> Result<(), String> {
        let base = base.map(str::to_owned);
        self.0.replace(path, base, bytes, like).map_err(thrown)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.0.env(name).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<String> {
        self.0.home()
    }

    fn cwd(&self) -> String {
        self.0.cwd()
    }

    fn now_ms(&self) -> u64 {
        self.0.now() as u64
    }

    fn random(&self) -> [u8; 16] {
        self.0.random().try_into().unwrap_or_default()
    }

    fn note(&self, line: &str) {
        self.0.note(line);
    }

    fn progress(&self, doing: Option<&str>) {
        self.0.progress(doing.map(str::to_owned));
    }

    async fn backend(
        &self,
        session: SharedSession,
        options: BackendOptions,
    ) -> Result<OnSession, Failure> {
        OnSession::new(self.0.clone(), session, options).await
    }
}
